"""The part of the compiled core that knows the rules of a log."""

from collections.abc import Iterable, Mapping

from amberlog.types import TurnBranches, TurnChoices, UserGroups

__all__ = [
    "announced_events",
    "branch_choices",
    "branch_metadata",
    "compact_rules",
    "covered_event_ids",
    "distinct_events",
    "finished_events",
    "live_event_ids",
    "parent_paths",
    "replay",
    "replay_settled",
    "selected_branches",
    "strict_view",
    "user_groups",
]

def replay(
    events: Iterable[Mapping[str, object]],
    branch_view: Mapping[int, int] | None = None,
    include_metadata: bool = False,
) -> list[dict[str, object]]:
    """Returns the messages that a view shows of a log."""

def replay_settled(
    events: Iterable[Mapping[str, object]],
    branch_view: Mapping[int, int] | None = None,
    include_metadata: bool = False,
    interrupted: list[str] | None = None,
) -> list[dict[str, object]]:
    """Returns the same, results beside their calls.

    `interrupted`, when given, has calls without a result answered, but for the jobs it names.
    """

def finished_events(
    events: Iterable[Mapping[str, object]], live_job_ids: list[str], covered: set[int] = ...
) -> list[dict[str, object]]:
    """Returns the events with every call announced, and finished but for the jobs named.

    The calls of events in `covered` stay as they are.
    """

def announced_events(
    events: Iterable[Mapping[str, object]], covered: set[int] = ...
) -> list[dict[str, object]]:
    """Returns the events with every call announced, but for those of events in `covered`."""

def compact_rules(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> list[
    tuple[
        int, int, list[tuple[int, int]] | None, str, list[tuple[int, int]] | None, bool, list[int]
    ]
]:
    """Returns the summaries that stand under a view, in the order of `CompactRule`'s fields."""

def covered_event_ids(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> set[int]:
    """Returns the ids of the events that a summary stands for under a view."""

def distinct_events(events: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Returns the events that do not repeat the one before in all but id and time."""

def parent_paths(events: Iterable[Mapping[str, object]]) -> dict[int, list[tuple[int, int]]]:
    """Returns the parent path of each event that has an id."""

def selected_branches(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Returns the branch that is shown of each turn; what a view cannot get is passed over."""

def strict_view(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Returns the branch of each turn; raises when a view cannot be met."""

def live_event_ids(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> set[int]:
    """Returns the ids of the events that a view shows."""

def branch_metadata(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, TurnBranches]:
    """Returns the branches of each turn that can be seen under a view."""

def branch_choices(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, TurnChoices]:
    """Returns all branches of each turn with their paths; raises when a view cannot be met."""

def user_groups(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, UserGroups]:
    """Returns the branches of each turn, grouped by what the user said."""

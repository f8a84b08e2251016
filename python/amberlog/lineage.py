"""What a log of events means: branches, live events, and the conversation that they tell.

The functions bear the names of KohakuTerrarium's, take events as a store returns them and never
change them. Each reads the log once, so its cost grows with the number of events and with nothing
else; the GIL is released while the core works. Events are checked as they are read: what no store
could have returned raises `TypeError` or `ValueError` that names the place, as `$[3].args`.

A branch view maps a turn to the branch that is to be shown of it. Turns that it leaves open show
their latest branch. Keys and values may be numbers in decimal digits, which is what JSON makes of
them; anything else raises `InvalidBranchViewError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from amberlog._core import (
    announced_events,
    branch_choices,
    branch_metadata,
    compact_rules,
    covered_event_ids,
    distinct_events,
    finished_events,
    live_event_ids,
    parent_paths,
    replay,
    replay_settled,
    selected_branches,
    strict_view,
    user_groups,
)
from amberlog.errors import InvalidBranchViewError
from amberlog.types import (
    BranchChoice,
    CompactRule,
    TurnBranches,
    TurnChoices,
    UserGroup,
    UserGroups,
)

Events = Iterable[Mapping[str, object]]
"""Events in the order of the log."""

BranchView = Mapping[int, int]
"""The branch that is asked for of each turn."""

BranchPath = tuple[tuple[int, int], ...]
"""Turn and branch of each turn before an event."""


def replay_conversation(
    events: Events,
    *,
    branch_view: BranchView | None = None,
    include_metadata: bool = False,
) -> list[dict[str, object]]:
    """Returns the messages that a view shows of a log, in the shape of a chat request.

    Streamed text is joined, rounds that were recorded whole are told whole, and a summary stands
    where the first event stood that it replaces.

    Args:
        events: The log of one agent.
        branch_view: The branches to show.
        include_metadata: Whether messages say under `metadata` which events they come from.
    """
    return replay(events, branch_view, include_metadata)


def replay_with_settled_tools(
    events: Events,
    *,
    branch_view: BranchView | None = None,
    include_metadata: bool = False,
    resumable: bool = False,
    live_job_ids: Iterable[str] | None = None,
) -> list[dict[str, object]]:
    """Returns what `replay_conversation` does, with each result beside the call it belongs to.

    Results that came in a later turn are moved to their call, and calls that no message announces
    are announced.

    Args:
        events: The log of one agent.
        branch_view: The branches to show.
        include_metadata: Whether messages say under `metadata` which events they come from.
        resumable: Whether calls without a result get one that says they were interrupted.
        live_job_ids: Jobs that still run, whose calls stay open then.
    """
    interrupted = list(live_job_ids or ()) if resumable else None
    return replay_settled(events, branch_view, include_metadata, interrupted)


def normalize_resumable_events(
    events: Events,
    *,
    live_job_ids: Iterable[str] | None = None,
    covered_event_ids: Collection[int] | None = None,
) -> list[dict[str, object]]:
    """Returns a log in which every call is announced and finished.

    What is added has no event id. Results are marked `_synthetic_resume`, announcements
    `_synthetic_announce`; doing it again adds nothing.

    Args:
        events: The log of one agent.
        live_job_ids: Jobs that still run, whose calls stay open.
        covered_event_ids: Events that a summary stands for, whose calls stay as they are.
    """
    return finished_events(events, list(live_job_ids or ()), set(covered_event_ids or ()))


def normalize_tool_call_events(
    events: Events, *, covered_event_ids: Collection[int] | None = None
) -> list[dict[str, object]]:
    """Returns a log in which every call is announced; calls that are not finished stay open.

    What is added is marked `_synthetic_announce` and has no event id.

    Args:
        events: The log of one agent.
        covered_event_ids: Events that a summary stands for, whose calls stay as they are.
    """
    return announced_events(events, set(covered_event_ids or ()))


def compact_replacement_rules(
    events: Events,
    branch_view: BranchView | None = None,
    *,
    parent_paths: Mapping[int, BranchPath] | None = None,  # noqa: ARG001  # the peer's signature
) -> list[CompactRule]:
    """Returns the summaries that stand for part of what a view shows, the best last.

    Args:
        events: The log of one agent.
        branch_view: The branches to show.
        parent_paths: Taken for the sake of callers that have them, and not needed.
    """
    return [
        CompactRule(
            replaced_from=first,
            replaced_to=last,
            path=None if path is None else frozenset(path),
            summary=summary,
            source_path=None if source is None else frozenset(source),
            source_recorded=recorded,
            result_event_ids=frozenset(results),
        )
        for first, last, path, summary, source, recorded, results in compact_rules(
            events, branch_view
        )
    ]


def compact_covered_event_ids(
    events: Events,
    branch_view: BranchView | None = None,
    *,
    parent_paths: Mapping[int, BranchPath] | None = None,  # noqa: ARG001  # the peer's signature
) -> set[int]:
    """Returns the ids of the events that a summary stands for.

    A result that was recorded twice in a row is covered as often.

    Args:
        events: The log of one agent.
        branch_view: The branches to show.
        parent_paths: Taken for the sake of callers that have them, and not needed.
    """
    return covered_event_ids(events, branch_view)


def dedupe_adjacent_duplicate_events(events: Events) -> list[dict[str, object]]:
    """Returns a log without the events that repeat the one before in all but id and time."""
    return distinct_events(events)


def select_live_event_ids(
    events: Events,
    *,
    branch_view: BranchView | None = None,
    parent_paths: Mapping[int, BranchPath] | None = None,  # noqa: ARG001  # the peer's signature
) -> set[int]:
    """Returns the ids of the events that a view shows.

    Events without a turn or a branch are always shown.

    Args:
        events: The log of one agent.
        branch_view: The branches to show.
        parent_paths: Taken for the sake of callers that have them, and not needed.
    """
    return live_event_ids(events, branch_view)


def resolve_selected_branches(
    events_list: Events,
    parent_paths: Mapping[int, BranchPath] | None = None,  # noqa: ARG001  # the peer's signature
    branch_view: BranchView | None = None,
) -> dict[int, int]:
    """Returns the branch that is shown of each turn.

    What the view asks for and the log cannot give is passed over; a turn that belongs to other
    branches than those shown before it is left out.

    Args:
        events_list: The log of one agent.
        parent_paths: Taken for the sake of callers that have them, and not needed.
        branch_view: The branches to show.
    """
    return selected_branches(events_list, branch_view)


def resolve_branch_view_strict(events: Events, branch_view: BranchView | None) -> dict[int, int]:
    """Returns the branch of each turn under a view that must be met in full.

    Only turns that the user began count. Each branch that is asked for brings those it belongs to.

    Raises:
        InvalidBranchViewError: A branch that is needed does not exist, or two contradict each
            other.
    """
    return strict_view(events, branch_view)


def project_branch_metadata(
    events: Events, branch_view: BranchView | None = None
) -> dict[int, TurnChoices]:
    """Returns by turn all its branches, what each belongs to, and which is shown.

    Only turns that the user began count. Costs the paths of all branches, which together are as
    long as the branches times the turns.

    Raises:
        InvalidBranchViewError: The view cannot be met, as in `resolve_branch_view_strict`.
    """
    return branch_choices(events, branch_view)


def collect_branch_metadata(
    events: Events, *, branch_view: BranchView | None = None
) -> dict[int, TurnBranches]:
    """Returns by turn the branches that can be seen from those shown before it."""
    return branch_metadata(events, branch_view)


def collect_user_groups(
    events: Events, *, branch_view: BranchView | None = None
) -> dict[int, UserGroups]:
    """Returns by turn its branches, grouped by what the user said: edits apart, reruns together."""
    return user_groups(events, branch_view)


def index_parent_paths(events_list: Events) -> dict[int, BranchPath]:
    """Returns by event id the branches that an event belongs to.

    It is the path that the event states, or else the highest branch that the log had shown of each
    earlier turn. The paths together are as long as the log times its turns, which no other function
    here is; none of them needs this one.
    """
    paths = parent_paths(events_list).items()
    return {event_id: tuple(path) for event_id, path in paths}


__all__ = [
    "BranchChoice",
    "BranchPath",
    "BranchView",
    "CompactRule",
    "Events",
    "InvalidBranchViewError",
    "TurnBranches",
    "TurnChoices",
    "UserGroup",
    "UserGroups",
    "collect_branch_metadata",
    "collect_user_groups",
    "compact_covered_event_ids",
    "compact_replacement_rules",
    "dedupe_adjacent_duplicate_events",
    "index_parent_paths",
    "normalize_resumable_events",
    "normalize_tool_call_events",
    "project_branch_metadata",
    "replay_conversation",
    "replay_with_settled_tools",
    "resolve_branch_view_strict",
    "resolve_selected_branches",
    "select_live_event_ids",
]

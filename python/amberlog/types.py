"""The values that the package takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

Durability = Literal["process", "power", "batch"]
"""What a returned append promises; the table of promises is in `docs/guarantees.md`."""

EventCallback = Callable[[str, dict[str, object]], object]
"""What a subscriber is: called with the key of a new event and the event as stored."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that `verify` found wrong.

    Attributes:
        file: The file it is in.
        table: The table it is in.
        key: The key of the record; empty when the table itself is damaged.
        what: What is wrong with it.
    """

    file: Path
    table: str
    key: str
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` read and what it found.

    Attributes:
        file: The session's file.
        counts: How many records of each table were read.
        problems: Everything that was wrong, in the order it was found.
    """

    file: Path
    counts: Mapping[str, int]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A conversation snapshot that can be loaded by its turn.

    Attributes:
        turn: The turn at whose end it was taken; None when it was saved without a turn.
        branch: The branch of that turn, where it was given.
        watermark: The highest event id that it includes; None when it was not given.
        messages: How many messages it holds.
        ts: When it was saved, in seconds since 1970.
    """

    turn: int | None
    branch: int | None
    watermark: int | None
    messages: int
    ts: float


Source = Literal[
    "nothing",
    "snapshot",
    "snapshot+tail",
    "branch snapshot",
    "branch snapshot+tail",
    "cleared context",
    "replay",
]
"""How a conversation was come by; the table is in `docs/resume.md`."""

RepairKind = Literal["answered", "moved", "dropped", "repeated", "malformed"]
"""What was done so that calls and results match."""


class RestoredFields(TypedDict):
    """The fields of a `RestoredConversation`, as the core returns them."""

    source: Source
    messages: list[dict[str, object]]
    position: tuple[int, int] | None
    repairs: list[tuple[RepairKind, str]]
    watermark: int | None
    context_cutoff_event_id: int
    told: int
    events_read: int
    triggers: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class RestoredConversation:
    """The conversation of an agent as a resume has it.

    Attributes:
        source: How it was come by.
        messages: Its messages.
        position: The turn and branch that the agent stands at; None when no event says.
        repairs: What was done to which call.
        watermark: The highest event id that the newest snapshot includes.
        context_cutoff_event_id: The event at which the context was cleared; 0 when it never was.
        told: How many of the messages were told from events.
        events_read: How many events were read.
        triggers: The agent's `trigger_state` events, oldest first.
    """

    source: Source
    messages: list[dict[str, object]]
    position: tuple[int, int] | None
    repairs: Sequence[tuple[RepairKind, str]]
    watermark: int | None
    context_cutoff_event_id: int
    told: int
    events_read: int
    triggers: Sequence[Mapping[str, object]]


class SearchHit(TypedDict):
    """One record that a search of a session found.

    Attributes:
        doc_id: A number that stays the record's own while the search index is not rebuilt.
        score: How well it matches; higher is better, and only comparable within one search.
        meta: `event_key`, `agent`, `type` and `event_id` of an event; `channel_key`, `channel`,
            `sender` and `type` of a channel message.
    """

    doc_id: int
    score: float
    meta: dict[str, object]


class TurnBranches(TypedDict):
    """The branches of a turn that can be seen from the branches shown before it.

    Attributes:
        branches: Their numbers, ascending.
        latest_branch: The highest of them.
        events_by_branch: The ids of the events on each, in the order of the log.
    """

    branches: list[int]
    latest_branch: int
    events_by_branch: dict[int, list[int]]


class UserGroup(TypedDict):
    """Branches of a turn that begin with the same words of the user.

    Attributes:
        content: What the user said; a message that is not text in its printed form.
        branches: The branches, ascending.
    """

    content: str
    branches: list[int]


class UserGroups(TypedDict):
    """The groups of a turn: an edit begins a new one, a rerun joins one.

    Attributes:
        groups: The groups in the order of their first branch.
        selected_group_idx: Which of them holds the branch that is shown.
    """

    groups: list[UserGroup]
    selected_group_idx: int


__all__ = [
    "Durability",
    "EventCallback",
    "Problem",
    "RepairKind",
    "RestoredConversation",
    "RestoredFields",
    "SearchHit",
    "SnapshotInfo",
    "Source",
    "TurnBranches",
    "UserGroup",
    "UserGroups",
    "VerifyReport",
]

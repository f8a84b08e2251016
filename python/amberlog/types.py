"""The values that the package takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class Attachment:
    """An agent that is attached to another one of the session, its host.

    Attributes:
        host: The agent that it is attached to.
        role: What it is there for.
        attach_seq: Its number among those of that role, from 0.
        agent_name: What it is called.
    """

    host: str
    role: str
    attach_seq: int
    agent_name: str

    @property
    def namespace(self) -> str:
        """The namespace that its events belong to."""
        return f"{self.host}:attached:{self.role}:{self.attach_seq}"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn of a conversation, put together from the events that are shown.

    Attributes:
        index: Its number among the turns that are shown, from 0.
        user_text: What began it: text, or what the event holds in its place.
        assistant_text: What was answered.
        tool_calls: `name` and `args` of the tools that were called.
        source: What began it: `user_input` or `trigger_fired`, or what the event says.
        ts: When it began, in seconds since 1970.
    """

    index: int
    user_text: object = ""
    assistant_text: str = ""
    tool_calls: tuple[Mapping[str, object], ...] = ()
    source: str = ""
    ts: float = 0.0


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
    "Attachment",
    "Durability",
    "EventCallback",
    "Problem",
    "SearchHit",
    "SnapshotInfo",
    "TurnBranches",
    "TurnView",
    "UserGroup",
    "UserGroups",
    "VerifyReport",
]

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


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is called like a session and cannot be listed.

    Attributes:
        path: Its path below the session directory.
        reason: Why it cannot be read.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page of a listing.

    Attributes:
        rows: The sessions, each a mapping of the fields that `docs/index.md` lists.
        total: How many sessions there are on all pages.
        offset: How many were passed over.
        limit: How many were asked for.
        next_cursor: What leads to the next page; None on the last one.
        unreadable: The files that could not be listed, whatever the page.
    """

    rows: tuple[Mapping[str, object], ...]
    total: int
    offset: int
    limit: int
    next_cursor: str | None
    unreadable: tuple[Unreadable, ...]

    def to_dict(self) -> dict[str, object]:
        """Returns the page as the peer's listing has it."""
        return {
            "sessions": list(self.rows),
            "total": self.total,
            "offset": self.offset,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What a reconcile found and did.

    Attributes:
        read: How many files it read, or tried to.
        deleted: How many sessions left the index, since their files are gone.
        total: How many sessions there are on disk, the unreadable ones included.
        unchanged: How many files were as they had been.
        unreadable: Every file that cannot be read, with the reason.
        elapsed_ms: How long it took, in milliseconds.
        aborted: Whether the directory could not be listed; the index is then as it was.
    """

    read: int
    deleted: int
    total: int
    unchanged: int
    unreadable: tuple[Unreadable, ...]
    elapsed_ms: float
    aborted: bool


__all__ = [
    "Durability",
    "EventCallback",
    "Problem",
    "ReconcileReport",
    "SearchHit",
    "SessionPage",
    "SnapshotInfo",
    "TurnBranches",
    "Unreadable",
    "UserGroup",
    "UserGroups",
    "VerifyReport",
]

"""The values that the package takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


class BranchChoice(TypedDict):
    """A branch of a turn, whether it can be seen or not.

    Attributes:
        branch_id: Its number.
        parent_branch_paths: The paths of `[turn, branch]` pairs that its user events state.
        selected: Whether it is the one that is shown.
    """

    branch_id: int
    parent_branch_paths: list[list[list[int]]]
    selected: bool


class TurnChoices(TypedDict):
    """All branches of a turn.

    Attributes:
        branches: The branches, ascending.
        latest: The highest of their numbers.
        selected: The number of the one that is shown; None when none is.
    """

    branches: list[BranchChoice]
    latest: int
    selected: int | None


@dataclass(frozen=True, slots=True)
class CompactRule:
    """A summary and the events that it replaces.

    Attributes:
        replaced_from: The first event id of the range that it replaces.
        replaced_to: The last event id of that range.
        path: The turns and branches of which it replaces the events of the range; None when it
            replaces all of them.
        summary: The text that stands for them.
        source_path: The turns and branches that it was made from; None when nobody knows.
        source_recorded: Whether its event says what it was made from.
        result_event_ids: Results outside of the range that it tells of.
    """

    replaced_from: int
    replaced_to: int
    path: frozenset[tuple[int, int]] | None
    summary: str
    source_path: frozenset[tuple[int, int]] | None
    source_recorded: bool
    result_event_ids: frozenset[int]


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
    "Attachment",
    "BranchChoice",
    "CompactRule",
    "Durability",
    "EventCallback",
    "Problem",
    "ReconcileReport",
    "RepairKind",
    "RestoredConversation",
    "RestoredFields",
    "SearchHit",
    "SessionPage",
    "SnapshotInfo",
    "Source",
    "TurnBranches",
    "TurnChoices",
    "TurnView",
    "Unreadable",
    "UserGroup",
    "UserGroups",
    "VerifyReport",
]


@dataclass(frozen=True, slots=True)
class Position:
    """Where an agent stands in its session.

    Attributes:
        turn_index: The turn of its last event that has one.
        branch_id: The branch of that turn; None when the event has none.
        parent_branch_path: Turn and branch of every earlier turn.
    """

    turn_index: int
    branch_id: int | None
    parent_branch_path: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is to be recorded.

    Attributes:
        type: What kind of event it is.
        data: Its fields.
        turn_index: The user turn it belongs to.
        branch_id: Which of the turn's alternatives it belongs to.
        parent_branch_path: The turn and branch of every earlier turn.
        may_omit_path: Whether the path may be left out where the order of the log implies it.
    """

    type: str
    data: Mapping[str, object]
    turn_index: int | None = None
    branch_id: int | None = None
    parent_branch_path: tuple[tuple[int, int], ...] | None = None
    may_omit_path: bool = True


@dataclass(frozen=True, slots=True)
class ChildRun:
    """The run of a sub-agent that nobody else stores.

    Attributes:
        parent: The agent that started it.
        name: Its name.
        job_id: Its job; a run that is stored under it already is left alone.
        meta: Its record.
        conversation: The JSON text of its conversation.
    """

    parent: str
    name: str
    job_id: str
    meta: Mapping[str, object]
    conversation: str


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    """The conversation as it stands after the events that it is recorded with.

    Attributes:
        messages: All its messages; None takes those that the log tells.
        branch: `turn_index`, `branch_id`, `parent_branch_path` and `context_cutoff_event_id`.
        compact_state: `compact_count` and `last_compact_time`; None keeps those of before.
    """

    messages: list[Mapping[str, object]] | None = None
    branch: Mapping[str, object] | None = None
    compact_state: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """What belongs together and is stored in one transaction.

    Attributes:
        events: Events, in order.
        state: Values of the `state` table by key.
        rollups: Summaries of turns by key of the `turn_rollup` table.
        run: The run of a sub-agent.
        snapshot: The conversation as it stands after the events.
    """

    events: tuple[NewEvent, ...] = ()
    state: Mapping[str, object] = field(default_factory=dict)
    rollups: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    run: ChildRun | None = None
    snapshot: TurnSnapshot | None = None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """What an event was given when it was recorded.

    Attributes:
        key: Its key.
        event_id: Its id.
        states_path: Whether it states its parent path.
    """

    key: str
    event_id: int
    states_path: bool

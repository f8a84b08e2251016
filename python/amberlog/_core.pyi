"""The compiled core: bundles and chat sessions on disk, the codec, and the rules of a log."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, final

from amberlog.types import TurnBranches, UserGroups

__all__ = [
    "Bundle",
    "ChatStore",
    "IdentityLinks",
    "branch_metadata",
    "distinct_events",
    "finished_events",
    "live_event_ids",
    "open",
    "pack",
    "pack_pairs",
    "parent_paths",
    "replay",
    "replay_settled",
    "seal",
    "selected_branches",
    "strict_view",
    "unpack",
    "user_groups",
]

# A change of a chat session: a word and what belongs to it. `append` a message; `replace` the
# messages; `checkpoint` with summary, role, tokens before and after, timestamp, metadata; `set` a
# path of keys to a value; `remove` a path; `merge` at a path defaults and updates; `partial` with
# content, timestamp, and whether that is all; `discard` a partial message; `snapshot` with id,
# session, time, label, metadata; `revert_to_snapshot` of an id; `revert_to_message` at a place.
_ChatEdit: TypeAlias = tuple[object, ...]

@final
class ChatStore:
    """The chat sessions of one directory. Safe to share between threads, and over a fork.

    Times are seconds since 1970. A value that would not come back equal is refused.
    """

    def __new__(cls, directory: Path, *, sync: bool, kept: int) -> ChatStore:
        """Opens a directory, which is made where it is missing."""

    def edit(
        self,
        session_id: str,
        edits: list[_ChatEdit],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> bool:
        """Makes changes in one write, and returns whether there was anything to change."""

    def change(
        self,
        session_id: str,
        mutate: Callable[[dict[str, object]], dict[str, object] | None],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
        only_new: bool = False,
        keep_time: bool = False,
    ) -> bool:
        """Puts what `mutate` returns in the place of a document; nothing where it is `None`."""

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored."""

    def documents(self, session_id: str | None = None, *, now: float) -> list[dict[str, object]]:
        """Returns all sessions, or those that are one conversation with a session."""

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with the transcripts of its snapshots in their places."""

    def fork(
        self,
        session_id: str,
        child_id: str,
        at: int | None,
        title: str | None,
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> None:
        """Makes a session of another's messages, and notes it there."""

    def adopt(self, session_id: str, child_id: str, *, now: float, timeout_s: float) -> None:
        """Notes a child in a session."""

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns the summary that stands in for older messages, and what came after it."""

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one, archived ones counted first."""

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, the sessions last written first."""

    def ids_where(self, field: str, wanted: str, *, now: float) -> list[str]:
        """Returns the ids of the sessions of an `agent_name`, `gateway_session_id`, `agent_id`."""

    def unreadable(self, *, now: float) -> list[tuple[str, str]]:
        """Returns the files that are no sessions, and why."""

    def search(self, query: str, *, limit: int, window: int, now: float) -> list[dict[str, object]]:
        """Returns the sessions that best hold the words."""

    def path(self, session_id: str) -> str:
        """Returns the file of a session, or the one that it would get."""

    def exists(self, session_id: str) -> bool:
        """Returns whether a session has a file."""

    def delete(self, session_id: str, *, timeout_s: float) -> bool:
        """Removes a session, and returns whether there was one."""

    def forget(self, session_id: str | None = None) -> None:
        """Lets go of what is kept in memory."""

@final
class IdentityLinks:
    """One file of links, shared with other processes."""

    def __new__(cls, path: Path, *, timeout_s: float) -> IdentityLinks:
        """Names a file, which need not exist."""

    def all(self) -> list[tuple[str, str]]:
        """Returns all links in the order in which they were made."""

    def get(self, key: str) -> str | None:
        """Returns where a key leads."""

    def link(self, key: str, target: str, *, replace: bool) -> None:
        """Lets a key lead somewhere; elsewhere than it does only to replace it."""

    def unlink(self, key: str) -> None:
        """Lets a key lead nowhere."""

@final
class Bundle:
    """One session's file, open for writing or for reading. Safe to share between threads.

    Tables are named `meta`, `state`, `events`, `channels`, `subagents`, `jobs`, `conversation`
    and `turn_rollup`; their keys are given as text or as bytes and returned as bytes. Every verb of
    a closed bundle but `close` raises `SessionClosedError`.
    """

    @staticmethod
    def open(
        path: str,
        *,
        durability: str = "process",
        writer_lock: bool = False,
        peer_fts: bool = True,
    ) -> Bundle:
        """Opens a bundle for writing; creates the file and its parents where they are missing."""

    @staticmethod
    def open_readonly(path: str) -> Bundle:
        """Opens a bundle that is there; creates and writes nothing."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def readonly(self) -> bool:
        """Whether every write is refused."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def append(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        turn_index: int | None = None,
        spawned_in_turn: int | None = None,
        branch_id: int | None = None,
        parent_branch_path: list[tuple[int, int]] | None = None,
        stamped: bool = False,
    ) -> tuple[str, int, dict[str, object] | None]:
        """Appends one event in one transaction.

        Returns the key, the event id, and the event as stored when `stamped` asks for it.
        """

    def append_many(
        self,
        agent: str,
        events: list[tuple[str, Mapping[str, object]]],
        turn_index: int | None = None,
        branch_id: int | None = None,
    ) -> list[tuple[str, int]]:
        """Appends many events in one transaction: all of them or none."""

    def events(
        self,
        agent: str,
        since: int | None = None,
        until: int | None = None,
        types: list[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        after: int | None = None,
    ) -> tuple[list[dict[str, object]], int | None]:
        """Returns one page of an agent's events, and the `after` of the next; None at the end.

        Ids above `since` and up to `until`; `limit` bounds the events of the page.
        """

    def all_events(self) -> list[tuple[str, dict[str, object]]]:
        """Returns the events of all agents with their keys, in append order."""

    def event_by_id(self, agent: str, event_id: int) -> dict[str, object] | None:
        """Returns the event of that id in the agent's namespace."""

    def max_event_id(self) -> int:
        """Returns the highest event id of the session; 0 when it has no event."""

    def max_branch_id(self, agent: str, turn_index: int) -> int:
        """Returns the highest branch of a turn; 0 when it has none."""

    def resumable_events(
        self, agent: str, live_job_ids: list[str], since: int | None
    ) -> list[dict[str, object]]:
        """Returns an agent's events with doubles left out and unfinished calls closed."""

    def namespaces(self) -> list[str]:
        """Returns the namespaces that have events, by name."""

    def get(self, table: str, key: str | bytes) -> object:
        """Returns the value under a key; raises `KeyError` when there is none."""

    def put(self, table: str, items: list[tuple[str | bytes, object]]) -> None:
        """Stores values of one table in one transaction."""

    def put_across(
        self,
        items: list[tuple[str, str | bytes, object]],
        delete: list[tuple[str, str | bytes]] = ...,
    ) -> None:
        """Stores and deletes values of several tables in one transaction."""

    def delete(self, table: str, key: str | bytes) -> bool:
        """Deletes a value; returns whether there was one."""

    def keys(
        self,
        table: str,
        prefix: str | bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[bytes]:
        """Returns the keys that begin with a prefix, in byte order."""

    def items(
        self, table: str, prefix: str | bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, object]]:
        """Returns the keys that begin with a prefix, with their values."""

    def count(self, table: str) -> int:
        """Returns how many keys a table has."""

    def append_message(self, channel: str, data: Mapping[str, object]) -> str:
        """Appends a message to a channel and returns its key."""

    def messages(self, channel: str) -> list[dict[str, object]]:
        """Returns the messages of one channel in the order they were appended."""

    def rollups(self, agent: str) -> list[dict[str, object]]:
        """Returns the turn rollups of one agent by turn."""

    def next_subagent_run(self, parent: str, name: str) -> int:
        """Reserves and returns the next run number of a sub-agent, from 0."""

    def subagent_runs(
        self, parent: str | None = None, name: str | None = None
    ) -> list[tuple[str, str, int, dict[str, object]]]:
        """Returns parent, name, run and meta of the runs, by parent, name and run."""

    def find_subagent_run(
        self, job_id: str, parent: str | None = None
    ) -> tuple[str, str, int, dict[str, object]] | None:
        """Returns the first run whose meta has that job id."""

    def save_snapshot(
        self,
        agent: str,
        messages: list[Mapping[str, object]],
        branch: Mapping[str, object] | None = None,
        watermark: int | None = None,
        compact_state: Mapping[str, object] | None = None,
        tagged: bool = False,
    ) -> None:
        """Stores the messages as they stand; `tagged` also stores branch and watermark."""

    def load_snapshot(self, agent: str, turn: int | None = None) -> list[dict[str, object]] | None:
        """Returns the newest snapshot, or that of a turn; the peer's JSON forms are parsed."""

    def snapshots(self, agent: str) -> list[dict[str, object]]:
        """Returns `turn`, `branch`, `watermark`, `messages` (a count) and `ts` of each snapshot."""

    def load_branch_snapshot(self, agent: str, view: dict[int, int]) -> dict[str, object] | None:
        """Returns the deepest snapshot that lies on a branch view."""

    def token_usage(
        self, agent: str, include_subagents: bool, include_attached: bool, by_turn: bool
    ) -> dict[str, object]:
        """Returns the token counters of one agent."""

    def token_usage_all_loops(self) -> list[tuple[str, dict[str, int]]]:
        """Returns the token counters of every loop of the session with its path."""

    def search(
        self, query: str, k: int, agent: str | None = None, types: list[str] | None = None
    ) -> list[tuple[int, float, dict[str, object]]]:
        """Returns id, score and meta of the best matches, best first; no query raises."""

    def flush(self) -> None:
        """Writes the derived rows and syncs to disk."""

    def checkpoint(self) -> None:
        """Flushes, then moves the write-ahead log into the file."""

    def close(self) -> None:
        """Flushes, checkpoints, and gives up file and locks. Calling it again does nothing."""

    def fork_point(
        self, path: str, at_event_id: int, pending: list[str]
    ) -> tuple[bytes, dict[str, object]] | None:
        """Checks that a fork can be made; returns key and value of the event at its point."""

    def fork(
        self,
        path: str,
        at_event_id: int,
        pending: list[str],
        meta: list[tuple[str, object]],
        entry: Mapping[str, object],
        edit: tuple[bytes, Mapping[str, object] | None] | None = None,
    ) -> Bundle:
        """Makes a fork with `meta` over the parent's, and returns it open for writing.

        `edit` names the event at the point by its key, with what it becomes or None to leave it
        out; `entry` is what the parent notes of its child.
        """

    def backup(self, path: str) -> None:
        """Writes a whole copy of the bundle as it stands to a new file."""

    def verify(self) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
        """Reads everything; returns counts by table, and table, key and fault of each problem."""

def pack(value: object) -> bytes:
    """Returns a value as one MessagePack object; refuses what cannot come back equal."""

def pack_pairs(value: dict[str, object], skip: list[str]) -> tuple[bytes, int]:
    """Returns the pairs of a dict but those named, packed one after the other, and their number."""

def unpack(body: bytes) -> object:
    """Returns the value of one MessagePack object."""

def seal(table: str, key: str | bytes, value: object) -> bytes:
    """Returns the bytes that a table stores for a value: header, object and checksum."""

def open(table: str, key: str | bytes, stored: bytes) -> object:  # noqa: A001  # its name there
    """Returns the value of a table's stored bytes in any of their forms, checksum verified."""

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
    events: Iterable[Mapping[str, object]], live_job_ids: list[str]
) -> list[dict[str, object]]:
    """Returns the events with every call announced, and finished but for the jobs named."""

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

def user_groups(
    events: Iterable[Mapping[str, object]], branch_view: Mapping[int, int] | None = None
) -> dict[int, UserGroups]:
    """Returns the branches of each turn, grouped by what the user said."""

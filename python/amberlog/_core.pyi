"""The compiled core: sessions on disk, the index over them, the codec, and the rules of a log.

The parts for chat sessions, for embedding, for the index, for the rules of a log, for memory search
and for the search over all sessions have files of their own, `_core_chat.pyi`, `_core_embed.pyi`,
`_core_index.pyi`, `_core_lineage.pyi`, `_core_memory.pyi` and `_core_recall.pyi`; at run time all
are in this one module.
"""

from collections.abc import Mapping
from typing import final

from amberlog._core_chat import (
    ChatLock,
    ChatRescue,
    ChatStore,
    IdentityLinks,
    TranscriptStore,
)
from amberlog._core_embed import (
    PieceTable,
    check_vectors,
    hashed_vectors,
    single_precision,
)
from amberlog._core_index import Index, delete_files, disk_usage, session_files, session_row
from amberlog._core_lineage import (
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
from amberlog._core_memory import BlockHit
from amberlog._core_recall import Recall
from amberlog._parts import NewEventParts, SnapshotParts, StoredParts
from amberlog.types import RestoredFields

__all__ = [
    "BlockHit",
    "Bundle",
    "ChatLock",
    "ChatRescue",
    "ChatStore",
    "IdentityLinks",
    "Index",
    "PieceTable",
    "Recall",
    "TranscriptStore",
    "announced_events",
    "branch_choices",
    "branch_metadata",
    "check_vectors",
    "compact_rules",
    "covered_event_ids",
    "delete_files",
    "disk_usage",
    "distinct_events",
    "finished_events",
    "hashed_vectors",
    "live_event_ids",
    "migrate",
    "open",
    "pack",
    "pack_pairs",
    "parent_paths",
    "replay",
    "replay_settled",
    "seal",
    "selected_branches",
    "session_files",
    "session_row",
    "single_precision",
    "stated_version",
    "strict_view",
    "unpack",
    "user_groups",
]

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
        present_only: bool = False,
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
        """Appends one event; returns key, id, and the event as stored when `stamped` asks."""

    def append_many(
        self,
        agent: str,
        events: list[tuple[str, Mapping[str, object]]],
        turn_index: int | None = None,
        branch_id: int | None = None,
    ) -> list[tuple[str, int]]:
        """Appends many events in one transaction: all of them or none."""

    def record(
        self,
        agent: str,
        events: list[NewEventParts],
        puts: list[tuple[str, str | bytes, object]],
        deletes: list[tuple[str, str | bytes]],
        snapshot: SnapshotParts | None = None,
        run: tuple[str, str, str, Mapping[str, object], str] | None = None,
        sync: bool = False,
        stamped: bool = False,
    ) -> list[StoredParts]:
        """Stores events and what belongs to them in one transaction; `sync` also flushes.

        `run` is parent, name, job, record and conversation of a sub-agent.
        """

    def compact(
        self,
        agent: str,
        summary: str,
        from_event_id: int | None = None,
        to_event_id: int | None = None,
        fields: Mapping[str, object] | None = None,
        stamped: bool = False,
    ) -> StoredParts | None:
        """Stores a summary that stands in for older events; None, and nothing, for a blank one."""

    def working_history(self, agent: str, limit: int | None = None) -> list[dict[str, object]]:
        """Returns the messages that a model is sent next."""

    def place_of(self, agent: str) -> tuple[int, int | None, list[tuple[int, int]]] | None:
        """Returns turn, branch and parent path of the agent's last event that has a turn."""

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
        """Returns events above `since` up to `until`, and the `after` of the next page."""

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

    def turns(self, agent: str) -> list[dict[str, object]]:
        """Returns what was asked and answered in each turn, on the newest branches."""

    def namespaces(self) -> list[str]:
        """Returns the namespaces that have events, by name."""

    def get(self, table: str, key: str | bytes) -> object:
        """Returns the value under a key; raises `KeyError` when there is none."""

    def put(self, table: str, items: list[tuple[str | bytes, object]]) -> None:
        """Stores values of one table in one transaction."""

    def note(self, table: str, items: list[tuple[str | bytes, object]]) -> None:
        """Stores values of one table in one transaction that nobody waits to see on disk."""

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

    def attach(
        self, host: str, role: str, data: Mapping[str, object]
    ) -> tuple[int, str, dict[str, object]]:
        """Numbers an attached agent and logs it; returns number, key and event as stored."""

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

    def resume(
        self, agent: str, view: Mapping[int, int] | None = None, live_job_ids: list[str] = ...
    ) -> RestoredFields:
        """Returns the conversation of an agent and how it was come by; writes nothing."""

    def branch_path(self, agent: str, view: Mapping[int, int] | None = None) -> dict[int, int]:
        """Returns the branch that is shown of each turn; reads the whole log."""

    def agent_state(self, agent: str) -> dict[str, object]:
        """Returns the slots of an agent's state by name, but for those of its snapshots."""

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

    def memory_index(self, agent: str | None = None) -> int:
        """Indexes what is missing; returns how many blocks are new since the last call."""

    def memory_rebuild(self) -> None:
        """Throws the index away and makes it anew."""

    def memory_is_level(self) -> bool:
        """Returns whether the index, as it is on disk, lacks nothing."""

    def memory_give(self, agent: str, start: int, events: list[dict[str, object]]) -> None:
        """Keeps events beside the log, for the search alone; `start` is the place of the first."""

    def memory_find(
        self,
        query: str,
        mode: str,
        k: int,
        *,
        vector: bytes | None = None,
        model: str | None = None,
        engine: str = "auto",
        agent: str | None = None,
        kinds: list[str] | None = None,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        turns: tuple[int | None, int | None] | None = None,
        all_branches: bool = False,
    ) -> list[BlockHit]:
        """Returns the blocks that fit best, best first; no query raises.

        `semantic` and `hybrid` take the query's vector, of 32-bit floats, and the model it is of;
        `engine` says how the nearest are looked for: `auto`, `scan` or `hnsw`.
        """

    def memory_pending(self, model: str, dimensions: int, limit: int) -> list[tuple[int, str]]:
        """Returns numbers and texts of blocks that have no vector of a model."""

    def memory_pending_count(self, model: str, dimensions: int) -> int:
        """Returns how many there are."""

    def memory_put_vectors(self, model: str, dimensions: int, ids: list[int], data: bytes) -> int:
        """Keeps vectors in one transaction; returns how many are of blocks that are still there."""

    def memory_link(self, model: str, dimensions: int, engine: str) -> None:
        """Makes and keeps the graph that an engine would go by, and links what is new to it."""

    def memory_has_vectors(self, model: str, dimensions: int) -> bool:
        """Returns whether there are vectors of a model, or the peer's of that size."""

    def memory_models(self) -> list[tuple[str, int]]:
        """Returns the models that have vectors, and their sizes; the peer's have no name."""

    def memory_block(self, block_id: str) -> BlockHit | None:
        """Returns one block by its name, whole."""

    def memory_stats(self, model: str | None = None, dimensions: int = 0) -> dict[str, int]:
        """Returns how many blocks are live (`blocks`), `left` and `all` there are.

        `vectors` counts the live ones that are found by the model's vectors.
        """

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
        """Makes a fork with `meta` over the parent's; `edit` names the event at the point."""

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

def stated_version(path: str) -> int | None:
    """Returns the format version of a session at rest; None where it must be opened to know."""

def migrate(source: str, target: str, migrated_at: str, dry_run: bool) -> dict[str, object]:
    """Makes a session in the present format of one of the first, and returns what was counted.

    With `dry_run` nothing is written. A target that is there stays, and is reported as reused.
    """

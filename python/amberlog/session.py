"""The handle on one session."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4, uuid5

from amberlog import _lineage as lineage
from amberlog import artifacts
from amberlog._core import Bundle
from amberlog._null import NullBundle
from amberlog._tables import iter_kv_keys
from amberlog._work_records import WorkRecords
from amberlog.config import has_tail
from amberlog.errors import SessionReadOnlyError
from amberlog.types import Problem, SearchHit, VerifyReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from typing_extensions import Self

    from amberlog._lineage import Mutation
    from amberlog._null import AnyBundle
    from amberlog.types import Durability

FORMAT_VERSION = 2
"""The version of the files that are written."""

# The peer derives the ids of old conversations under the same name, so both arrive at one id.
_LEGACY_CONVERSATIONS = UUID("c891e293-f14f-4f18-9945-a6ca271337d7")


class SessionStore(WorkRecords):
    """One session in one file: everything that happened, the state, and the search over it.

    It may be shared between threads, and several processes may have the same session open. Its
    verbs live in one class for each noun, which this one brings together: `StoreHandle` (tables,
    worker, closing), `EventLog`, `AgentState`, `Recorded` and `WorkRecords`. Once closed, every
    verb raises `SessionClosedError`.

    Args:
        path: The file; it is created with its parents when it is missing.
        durability: What a returned append promises. `process`: nothing is lost when the process
            is killed, and at most about a second when the power is cut. `power`: nothing is lost
            when the power is cut. `batch`: the last events may be lost, for speed.
        writer_lock: Takes the session's writer lock, so that no other process can write to it.
        peer_fts: Also keeps the peer's text index, so that its search finds these events.
        present_only: Refuses a session of an older format too, which a migration comes before.
        flush_every_n_events: Without effect, since nothing waits to be flushed.
        flush_every_n_seconds: Without effect, since nothing waits to be flushed.

    Raises:
        SessionLockedError: Somebody else holds the writer lock.
        SessionDamagedError: The file is not a session, or no longer one.
        SessionVersionError: A newer version wrote the file.
        SessionWriteError: The system refused to create or open it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "process",
        writer_lock: bool = False,
        peer_fts: bool = True,
        present_only: bool = False,
        flush_every_n_events: int | None = None,
        flush_every_n_seconds: float | None = None,
    ) -> None:
        del flush_every_n_events, flush_every_n_seconds
        super().__init__(
            Bundle.open(
                _path_text(path),
                durability="tail" if durability == "process" and has_tail() else durability,
                writer_lock=writer_lock,
                peer_fts=peer_fts,
                present_only=present_only,
            )
        )

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> Self:
        """Opens a session to read it: nothing is created, nothing written, nothing left behind.

        It works where one may not write. What another process appends meanwhile is seen.

        Raises:
            SessionNotFoundError: There is no such file.
            SessionDamagedError: The file is not a session, or no longer one.
            SessionVersionError: A newer version wrote the file.
        """
        return cls._over(Bundle.open_readonly(_path_text(path)))

    @classmethod
    def _over(cls, bundle: AnyBundle) -> Self:
        store = cls.__new__(cls)
        WorkRecords.__init__(store, bundle)
        return store

    def init_meta(
        self,
        session_id: str,
        config_type: str,
        config_path: str,
        pwd: str,
        agents: Sequence[str],
        config_snapshot: Mapping[str, object] | None = None,
        terrarium_name: str | None = None,
        terrarium_channels: Sequence[Mapping[str, object]] | None = None,
        terrarium_creatures: Sequence[Mapping[str, object]] | None = None,
    ) -> None:
        """Stores what a new session says about itself, in one transaction.

        A conversation id that is there stays. Arguments that are None or empty at the end of the
        list are not stored.

        Args:
            session_id: The session's id.
            config_type: `agent` or `terrarium`.
            config_path: Where its configuration lies.
            pwd: The directory it works in.
            agents: The names of its agents.
            config_snapshot: Its configuration.
            terrarium_name: The name of its terrarium.
            terrarium_channels: The channels of its terrarium.
            terrarium_creatures: The creatures of its terrarium.

        Raises:
            ValueError: `config_type` is neither of the two.
        """
        if config_type not in ("agent", "terrarium"):
            raise ValueError(f"config_type must be 'agent' or 'terrarium', not {config_type!r}")
        now = _now()
        fields: dict[str, object] = {
            "session_id": session_id,
            "format_version": FORMAT_VERSION,
            "config_type": config_type,
            "config_path": config_path,
            "config_snapshot": dict(config_snapshot or {}),
            "pwd": pwd,
            "created_at": now,
            "last_active": now,
            "status": "running",
            "conversation_open": True,
            "conversation_id": self.meta.get("conversation_id") or str(uuid4()),
            "agents": list(agents),
            "hostname": platform.node(),
            "python_version": platform.python_version(),
        }
        optional: dict[str, object] = {
            "terrarium_name": terrarium_name,
            "terrarium_channels": list(terrarium_channels or ()),
            "terrarium_creatures": list(terrarium_creatures or ()),
        }
        self._put_meta(fields | {name: value for name, value in optional.items() if value})

    def update_status(self, status: str) -> None:
        """Stores the status (`running`, `paused`, `completed`, `crashed`) and the time."""
        self._put_meta({"status": status, "last_active": _now()})

    def mark_resumed(self) -> None:
        """Stores that the session runs again and that its conversation is open, in one transaction.

        A conversation that has no id gets one.
        """
        fields: dict[str, object] = {
            "status": "running",
            "last_active": _now(),
            "conversation_open": True,
        }
        if not self._conversation_id():
            fields["conversation_id"] = self._derived_conversation_id()
        self._bundle.note("meta", list(fields.items()))

    def touch(self) -> None:
        """Stores that the session was active now."""
        self._put_meta({"last_active": _now()})

    def set_conversation_open(self, is_open: bool) -> None:  # noqa: FBT001  # as the peer's
        """Stores whether the user still has the conversation open; an open one gets its id."""
        fields: dict[str, object] = {"conversation_open": bool(is_open)}
        if is_open and not self._conversation_id():
            fields["conversation_id"] = self._derived_conversation_id()
        self._put_meta(fields)

    def ensure_conversation_id(self) -> str | None:
        """Returns the conversation's id; one marked open that has none gets one.

        The new id is derived from the path, so that every try arrives at the same one. None when
        there is no id and the conversation is not marked open.
        """
        known = self._conversation_id()
        if known is not None or not self.meta.get("conversation_open"):
            return known
        derived = self._derived_conversation_id()
        self._put_meta({"conversation_id": derived})
        return derived

    def set_viewer_default_agent(self, namespace: str) -> None:
        """Stores whose history a viewer shows first; an empty name changes nothing."""
        self._check_open()
        if namespace:
            self._put_meta({"viewer_default_agent": namespace})

    def load_meta(self) -> dict[str, object]:
        """Returns all that the session says about itself.

        `agents` are those that were stored, then those that only have events. The cost does not
        depend on how many events there are.
        """
        meta = {key.decode(): value for key, value in self.meta.records()}
        stored = meta.get("agents")
        agents = list(stored) if isinstance(stored, list) else []
        agents += [name for name in self.discover_agents_from_events() if name not in agents]
        meta["agents"] = agents
        return meta

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        agent: str | None = None,
        types: Collection[str] | None = None,
    ) -> list[SearchHit]:
        """Returns the events and channel messages that match best, best first.

        Words are words, a phrase stands in double quotes, and no query raises. Everything that
        was appended before the call is searched.

        Args:
            query: What to look for; a blank one has no hits.
            k: At most this many.
            agent: Only events of this agent.
            types: Only events of these types.
        """
        if isinstance(types, str):
            raise TypeError("types must be a collection of type names, not one string")
        if k < 0:
            raise ValueError(f"k must not be negative, not {k}")
        # A lone surrogate is in no stored text, but whoever typed it wants an answer, not an error.
        words = query.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        found = self._bundle.search(words, k, agent, None if types is None else list(types))
        return [{"doc_id": doc_id, "score": score, "meta": meta} for doc_id, score, meta in found]

    def verify(self) -> VerifyReport:
        """Reads every record, checks its checksum and its place, and reports what is wrong.

        Costs the whole file; changes nothing.
        """
        counts, problems = self._bundle.verify()
        file = Path(self.path)
        return VerifyReport(
            file, counts, tuple(Problem(file, table, key, what) for table, key, what in problems)
        )

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a copy of the whole session to a new file, while others may write to it.

        The copy is the session at one moment, and on disk when the call returns. Artifacts are
        not copied.

        Raises:
            SessionWriteError: The target exists, or the system refused the write.
        """
        self._bundle.backup(_path_text(path))

    def fork(
        self,
        target_path: str | os.PathLike[str],
        *,
        at_event_id: int,
        mutate: Mutation | None = None,
        name: str | None = None,
        pending_job_ids: Collection[str] | None = None,
    ) -> Self:
        """Makes a new session of this one as it stood at an event, and returns it open.

        The child has the events up to the point under the same keys and ids, the artifacts, and
        all that is kept by agent, channel or job, whole; snapshots are left out, since they may
        know of later events, and so are events without an id. It is on disk when the call
        returns, and this session has a `forked_children` entry for it. Neither changes the other
        from then on. After an error nothing of the child is left.

        Args:
            target_path: The new file; parents are created.
            at_event_id: The last event that is kept.
            mutate: Called with that event; returns what it is to be in the child, or None to leave
                it out. `type` and `event_id` need not be returned.
            name: The child's title.
            pending_job_ids: Jobs that are running. A fork between the call of one and its result
                is refused.

        Raises:
            ValueError: No event has that id or a lower one, or `mutate` changed the id.
            SessionExistsError: A file, or a non-empty artifacts directory, is there already.
            ForkNotStableError: A job of `pending_job_ids` was called before the point and has no
                result there.
            RuntimeError: `mutate` raised.
            TypeError: `mutate` returned neither a mapping nor None.
            SessionReadOnlyError: This session is open for reading, so it cannot note its child.
        """
        if isinstance(pending_job_ids, str):
            raise TypeError("pending_job_ids must be a collection of ids, not one string")
        path = str(Path(_path_text(target_path)).absolute())
        pending = list(pending_job_ids or ())
        edit = None
        if mutate is not None and (point := self._bundle.fork_point(path, at_event_id, pending)):
            key, event = point
            edit = (key, lineage.mutated(event, mutate))
        child = lineage.Child.of(self, at_event_id, mutate, name)
        return self._over(
            self._bundle.fork(path, at_event_id, pending, child.meta(), child.entry(path), edit)
        )

    @property
    def artifacts_dir(self) -> Path:
        """The directory of the session's artifacts, created unless the session is only read."""
        directory = artifacts.artifacts_dir_for(Path(self.path))
        self._check_open()
        if not self.readonly:
            directory.mkdir(parents=True, exist_ok=True)
        return directory

    def write_artifact(self, filename: str, data: bytes) -> Path:
        """Writes bytes beside the session and returns where; they are on disk by then.

        Args:
            filename: A relative path in the artifacts directory.
            data: The bytes.

        Raises:
            ValueError: The name is empty, absolute, or leads out of the directory.
        """
        if self.readonly:
            raise SessionReadOnlyError(
                f"cannot write an artifact: `{self.path}` is open read-only", path=self.path
            )
        return artifacts.write(self.artifacts_dir, filename, data)

    def _pause(self) -> None:
        self.update_status("paused")

    def _put_meta(self, fields: Mapping[str, object]) -> None:
        self._bundle.put("meta", list(fields.items()))

    def _conversation_id(self) -> str | None:
        known = self.meta.get("conversation_id")
        return known if isinstance(known, str) and known else None

    def _derived_conversation_id(self) -> str:
        place = os.path.normcase(Path(self.path).expanduser().resolve())
        return str(uuid5(_LEGACY_CONVERSATIONS, str(place)))


class NullSessionStore(SessionStore):
    """A session that keeps nothing: the same verbs, no file, empty answers.

    It is what a runtime uses when its user opted out. Keys and event ids are handed out as
    usual, and subscribers are called.

    Args:
        path: Where the session would have been; nothing is created there.
    """

    def __init__(self, path: str | os.PathLike[str] = "null.kohakutr") -> None:
        WorkRecords.__init__(self, NullBundle(_path_text(path)))

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> Self:
        """Returns a store without a session, whatever is at the path."""
        return cls(path)

    @property
    def artifacts_dir(self) -> Path:
        """Where the artifacts would have been; nothing is created."""
        self._check_open()
        return artifacts.artifacts_dir_for(Path(self.path))

    def write_artifact(self, filename: str, data: bytes) -> Path:
        """Returns where the bytes would have been written; names are checked as usual."""
        del data
        return artifacts.resolve(self.artifacts_dir, filename)


def open_session(
    path: str | os.PathLike[str],
    *,
    enabled: bool = True,
    durability: Durability = "process",
    writer_lock: bool = False,
    peer_fts: bool = True,
) -> SessionStore:
    """Opens a session to record to, or one that keeps nothing.

    Args:
        path: The file; it is created when it is missing and `enabled`.
        enabled: False returns a `NullSessionStore`, which is a runtime's `--no-session`.
        durability: As for `SessionStore`, like the two below.
        writer_lock: Takes the session's writer lock.
        peer_fts: Also keeps the peer's text index.
    """
    if not enabled:
        return NullSessionStore(path)
    return SessionStore(path, durability=durability, writer_lock=writer_lock, peer_fts=peer_fts)


def _path_text(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("path must be text, not bytes")
    if not text:
        raise ValueError("path must not be empty")
    # Making a `Path` takes as long as a look-up in the session, and most paths need none.
    return str(Path(text).expanduser()) if text.startswith("~") else text


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


__all__ = [
    "FORMAT_VERSION",
    "NullSessionStore",
    "SessionStore",
    "iter_kv_keys",
    "open_session",
]

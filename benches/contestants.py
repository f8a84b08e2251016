"""Those who do the work: this package, its peers, and the stdlib as the limit of the plain way."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

import msgpack

from amberlog import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


class Store(Protocol):
    """The verbs that are measured, as the peer and this package name them."""

    def append_event(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        *,
        turn_index: int | None = None,
    ) -> object: ...

    def append_events(
        self, agent: str, events: Iterable[tuple[str, Mapping[str, object]]]
    ) -> object: ...

    def get_events(self, agent: str) -> Sequence[object]: ...

    def save_conversation(self, agent: str, messages: list[dict[str, object]]) -> None: ...

    def load_conversation(self, agent: str) -> list[dict[str, object]] | None: ...

    def load_meta(self) -> Mapping[str, object]: ...

    def close(self) -> None: ...


class BranchStore(Store, Protocol):
    """A store that also keeps the branch that a snapshot belongs to."""

    def init_meta(
        self, session_id: str, config_type: str, config_path: str, pwd: str, agents: list[str]
    ) -> None: ...

    def save_branch_snapshot(
        self,
        agent: str,
        messages: list[dict[str, object]],
        *,
        branch: Mapping[str, object] | None,
        watermark: int,
    ) -> None: ...


class _Vault(Protocol):
    def __getitem__(self, key: str) -> object: ...
    def __setitem__(self, key: str, value: object) -> None: ...
    def values(self) -> Iterable[object]: ...
    def enable_auto_pack(self) -> None: ...
    def enable_cache(self, *, flush_interval: float) -> None: ...
    def close(self) -> None: ...


class _OpenVault(Protocol):
    def __call__(self, path: str, *, table: str) -> _Vault: ...


class PlainSqlite:
    """Keeps events as the stdlib would: one table of keys and values, one transaction an event."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE IF NOT EXISTS events (key BLOB PRIMARY KEY, value BLOB NOT NULL);"
            "CREATE TABLE IF NOT EXISTS conversation (key BLOB PRIMARY KEY, value BLOB NOT NULL);"
            "CREATE TABLE IF NOT EXISTS meta (key BLOB PRIMARY KEY, value BLOB NOT NULL);"
        )
        self._next = int(self._database.execute("SELECT count(*) FROM events").fetchone()[0])

    def append_event(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        *,
        turn_index: int | None = None,
    ) -> None:
        row = self._row(agent, event_type, data, turn_index)
        self._database.execute("INSERT INTO events VALUES (?, ?)", row)

    def append_events(self, agent: str, events: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        rows = [self._row(agent, kind, data, None) for kind, data in events]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO events VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def get_events(self, agent: str) -> list[object]:
        rows = self._database.execute(
            "SELECT value FROM events WHERE key BETWEEN ? AND ? ORDER BY key",
            (f"{agent}:e".encode(), f"{agent}:f".encode()),
        )
        return [msgpack.unpackb(value) for (value,) in rows]

    def save_conversation(self, agent: str, messages: list[dict[str, object]]) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO conversation VALUES (?, ?)",
            (agent.encode(), msgpack.packb(messages)),
        )

    def load_conversation(self, agent: str) -> list[dict[str, object]] | None:
        found = self._database.execute(
            "SELECT value FROM conversation WHERE key = ?", (agent.encode(),)
        ).fetchone()
        return None if found is None else cast("list[dict[str, object]]", msgpack.unpackb(found[0]))

    def load_meta(self) -> dict[str, object]:
        rows = self._database.execute("SELECT key, value FROM meta")
        return {key.decode(): msgpack.unpackb(value) for key, value in rows}

    def close(self) -> None:
        self._database.close()

    def _row(
        self, agent: str, event_type: str, data: Mapping[str, object], turn: int | None
    ) -> tuple[bytes, bytes]:
        number = self._next
        self._next += 1
        stamped = {**data, "type": event_type, "event_id": number + 1, "turn_index": turn}
        packed = msgpack.packb(stamped)
        return f"{agent}:e{number:06}".encode(), cast("bytes", packed)


class VaultStore:
    """Keeps events in the peer's storage engine alone, with the cache that the peer turns on."""

    def __init__(self, path: Path) -> None:
        open_vault = cast("_OpenVault", import_module("kohakuvault").KVault)
        self._events = open_vault(str(path), table="events")
        self._events.enable_auto_pack()
        self._events.enable_cache(flush_interval=2.0)
        self._conversations = open_vault(str(path), table="conversation")
        self._conversations.enable_auto_pack()
        self._next = 0

    def append_event(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        *,
        turn_index: int | None = None,
    ) -> None:
        number = self._next
        self._next += 1
        stamped = {**data, "type": event_type, "event_id": number + 1, "turn_index": turn_index}
        self._events[f"{agent}:e{number:06}"] = stamped

    def append_events(self, agent: str, events: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        for kind, data in events:
            self.append_event(agent, kind, data)

    def get_events(self, agent: str) -> list[object]:
        del agent
        return list(self._events.values())

    def save_conversation(self, agent: str, messages: list[dict[str, object]]) -> None:
        self._conversations[agent] = messages

    def load_conversation(self, agent: str) -> list[dict[str, object]] | None:
        return cast("list[dict[str, object]]", self._conversations[agent])

    def load_meta(self) -> dict[str, object]:
        return {}

    def close(self) -> None:
        self._events.close()
        self._conversations.close()


def _peer(path: Path) -> BranchStore:
    kind = import_module("kohakuterrarium.session.store").SessionStore

    class PeerStore(kind):  # type: ignore[misc, valid-type]  # found at run time
        def append_events(
            self, agent: str, events: Iterable[tuple[str, Mapping[str, object]]]
        ) -> None:
            for event_type, data in events:
                self.append_event(agent, event_type, data)

    return cast("BranchStore", PeerStore(str(path)))


OURS = "amberlog"
STDLIB = "sqlite3"
PEER = "kohakuterrarium"
ENGINE = "kohakuvault"

_OPENERS: dict[str, Callable[[Path], Store]] = {
    OURS: SessionStore,
    STDLIB: PlainSqlite,
    PEER: _peer,
    ENGINE: VaultStore,
}


def is_installed(name: str) -> bool:
    """Returns whether a contestant can take part here."""
    return find_spec(name) is not None


def open_store(name: str, path: Path) -> Store:
    """Opens a contestant's store at a path."""
    return _OPENERS[name](path)


def open_branch_store(name: str, path: Path) -> BranchStore:
    """Opens the store of a contestant that knows branches."""
    if name == OURS:
        return SessionStore(path)
    if name == PEER:
        return _peer(path)
    raise ValueError(f"{name} keeps no branches")

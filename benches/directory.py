"""Directories of many session files, made quickly: each is a copy of one of a few real ones in
which an id, times and messages of its own were put in the place of others of the same length.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tarfile
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgpack

from amberlog import SessionStore
from amberlog._core import seal
from benches.workload import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Stored = Callable[[str, str, object], bytes]
    Values = Mapping[tuple[str, str], object]

Maker = Literal["ours", "peers"]

COMMON_WORD = "please"
STATUSES = ("paused", "paused", "completed", "crashed")
RARE_EVERY = 500
_FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "kohaku" / "sessions_dir.tar.gz"
_HEADER = bytes.fromhex("894b010400000000564b")
_BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_PUT = "INSERT OR REPLACE INTO {} (key, value) VALUES (?, ?)"


def make(directory: Path, count: int, maker: Maker) -> None:
    """Makes sessions `s000000.kohakutr`, … that are distinct in what a listing shows of them.

    The files of `ours` are written by this package: eight events, a snapshot. Those of `peers` are
    the peer's own of the fixture (three events, a snapshot, 29 KB: its pages made small).
    """
    directory.mkdir(parents=True, exist_ok=True)
    template = directory / "template"
    template.mkdir()
    source = _ours(template) if maker == "ours" else _peers(template)
    stored = seal if maker == "ours" else _bare
    rng = random.Random(SEED)
    moulds = [Mould(source, template / f"{status}.kohakutr", status, stored) for status in STATUSES]
    for number in range(count):
        path = directory / f"s{number:06d}.kohakutr"
        path.write_bytes(rng.choice(moulds).cast(_values(number, rng)))
    shutil.rmtree(template)


def _ours(directory: Path) -> Path:
    path = directory / "ours.kohakutr"
    with SessionStore(path) as store:
        store.init_meta("template", "agent", "/agents/solo", "/work", ["alice"])
        for turn in (1, 2):
            for kind in ("user_input", "user_message", "text_chunk", "processing_end"):
                store.append_event(
                    "alice", kind, {"content": f"{kind} {turn}", "ts": 1.7e9}, turn_index=turn
                )
        store.save_conversation("alice", [{"role": "user", "content": "template"}])
        store.state["alice:snapshot_event_id"] = 8
    return path


def _peers(directory: Path) -> Path:
    with tarfile.open(_FIXTURE) as archive:
        archive.extractall(directory, filter="data")
    return directory / "sessions" / "sess_02.kohakutr"


def _bare(table: str, key: str, value: object) -> bytes:
    del table, key
    packed: bytes = msgpack.packb(value)
    return _HEADER + packed


def _values(number: int, rng: random.Random) -> Values:
    """Returns what a session says of itself, as long as any other's."""
    words = [f"word{rng.randrange(5000):04d}" for _ in range(8)]
    if number % RARE_EVERY == 0:
        words[-1] = f"zebra{number // RARE_EVERY}".ljust(len(words[-1]))
    said = " ".join(words)
    active = _BEGAN + timedelta(seconds=rng.randrange(10**7))
    return {
        ("meta", "session_id"): f"session-{number:06d}",
        ("meta", "last_active"): active.isoformat(),
        ("meta", "created_at"): (active - timedelta(hours=1)).isoformat(),
        ("conversation", "alice"): [
            {"role": "user", "content": f"{COMMON_WORD} look at the {said}"},
            {"role": "assistant", "content": f"I looked at {said}."},
        ],
    }


class Mould:
    """A real session, and where in its bytes lies what makes others of it."""

    def __init__(self, source: Path, target: Path, status: str, stored: Stored) -> None:
        shutil.copyfile(source, target)
        values = _values(0, random.Random(SEED))
        rows = [(table, key, stored(table, key, value)) for (table, key), value in values.items()]
        rows.append(("meta", "status", stored("meta", "status", status)))
        with closing(sqlite3.connect(target)) as connection, connection:
            for table, key, value in rows:
                connection.execute(_PUT.format(table), (key.encode(), value))
        self._stored = stored
        self._bytes = target.read_bytes()
        self._places = {
            (table, key): (self._place(value), len(value)) for table, key, value in rows[:-1]
        }

    def _place(self, value: bytes) -> int:
        if self._bytes.count(value) != 1:
            msg = "a value that does not lie in one place of the file"
            raise ValueError(msg)
        return self._bytes.index(value)

    def cast(self, values: Values) -> bytes:
        """Returns the file with other values."""
        file = bytearray(self._bytes)
        for (table, key), value in values.items():
            place, length = self._places[table, key]
            found = self._stored(table, key, value)
            if len(found) != length:
                msg = f"{table}[{key}] has another length"
                raise ValueError(msg)
            file[place : place + length] = found
        return bytes(file)

"""Directories of many session files, made quickly: each is a copy of one of a few real ones that
then got an id, a title, a time and a message of its own.
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
    from collections.abc import Callable

Maker = Literal["ours", "peers"]

COMMON_WORD = "please"
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
    for number in range(count):
        path = directory / f"s{number:06d}.kohakutr"
        shutil.copyfile(source, path)
        _make_distinct(path, number, rng, stored)
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


def _make_distinct(
    path: Path, number: int, rng: random.Random, stored: Callable[[str, str, object], bytes]
) -> None:
    words = " ".join(f"word{rng.randrange(5000)}" for _ in range(8))
    rare = f" zebra{number // RARE_EVERY}" if number % RARE_EVERY == 0 else ""
    said = f"{COMMON_WORD} look at the {words}{rare}"
    active = _BEGAN + timedelta(seconds=rng.randrange(10**7))
    meta: dict[str, object] = {
        "session_id": f"session-{number}",
        "last_active": active.isoformat(),
        "created_at": (active - timedelta(hours=1)).isoformat(),
        "status": rng.choice(["paused", "paused", "completed", "crashed"]),
    }
    messages = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": f"I looked at {words}."},
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.executemany(
            _PUT.format("meta"),
            [(key.encode(), stored("meta", key, value)) for key, value in meta.items()],
        )
        connection.execute(
            _PUT.format("conversation"),
            (b"alice", stored("conversation", "alice", messages)),
        )

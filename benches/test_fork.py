"""Making a session of another one: a fork, and a migration from the first format."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import msgpack
import pytest

import amberlog
from benches import measure
from benches.contestants import OURS, open_branch_store
from benches.workload import AGENT, Sizes, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

HEADER = bytes.fromhex("894b010400000000564b")


class _Child(Protocol):
    def close(self) -> None: ...


class _Parent(_Child, Protocol):
    def fork(self, target_path: str, *, at_event_id: int) -> _Child: ...


class _Migrator(Protocol):
    def __call__(self, source: str, target: str, /) -> object: ...


def test_fork_at_the_last_event(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.events // 2
    benchmark.group = f"fork a session of {count} events"
    path = places() / "s.kohakutr"
    measure.make_resumable(branch_name, path, count)
    parent = cast("_Parent", open_branch_store(branch_name, path))
    children: list[_Child] = []

    def fork() -> None:
        # Closing is not part of it.
        target = str(places() / "child.kohakutr.v2")
        children.append(parent.fork(target, at_event_id=count))

    benchmark.pedantic(fork, setup=None, rounds=amount.rounds * 3)

    for child in children:
        child.close()
    parent.close()


def test_migrate_from_the_first_format(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.events // 4
    benchmark.group = f"migrate a session of {count} events"
    migrate = _migrator(branch_name)
    source = places() / "old.kohakutr"
    _make_old(source, count)
    packed = source.read_bytes()

    def run() -> None:
        copy = places() / "old.kohakutr"
        copy.write_bytes(packed)
        migrate(str(copy), f"{copy}.v2")

    benchmark.pedantic(run, setup=None, rounds=amount.rounds)


def _migrator(name: str) -> _Migrator:
    if name == OURS:
        return lambda source, _: amberlog.migrate(source)
    module = import_module("kohakuterrarium.session.migrations.v1_to_v2")
    return cast("_Migrator", module.migrate)


def _make_old(path: Path, count: int) -> None:
    kinds = {"user_message": "user_input", "text_chunk": "text"}
    rows: dict[str, dict[bytes, object]] = {"meta": {b"agents": [AGENT]}, "events": {}}
    for number, (kind, fields, _) in enumerate(events(count)):
        event = {**fields, "type": kinds.get(kind, kind), "ts": float(number)}
        rows["events"][f"{AGENT}:e{number:06d}".encode()] = event
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, records in rows.items():
            connection.execute(
                f"CREATE TABLE {table} (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
            )
            connection.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",  # noqa: S608  # our own names
                [(key, HEADER + msgpack.packb(value)) for key, value in records.items()],
            )

"""Searching one session by keyword: indexing it, asking it, and asking it within a turn."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from amberlog import SessionMemory, SessionStore
from benches.contestants import OURS, PEER, STDLIB
from benches.workload import SEED, Sizes, events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

AGENT = "main"
QUERIES = 400
WITHIN_A_TURN = 40
WORD = re.compile(r"[a-z]{4,}")

Event = dict[str, object]


class Searcher(Protocol):
    """What is measured."""

    def index(self, log: Sequence[Event]) -> int: ...

    def add(self, event: Event) -> None: ...

    def search(self, query: str) -> Sequence[object]: ...

    def close(self) -> None: ...


class Ours:
    """This package."""

    def __init__(self, path: Path) -> None:
        self.store = SessionStore(path, peer_fts=False)
        self.memory = SessionMemory(self.store)

    def index(self, log: Sequence[Event]) -> int:
        del log
        return self.memory.index()

    def add(self, event: Event) -> None:
        self.store.append_event(AGENT, str(event["type"]), _fields(event))

    def search(self, query: str) -> Sequence[object]:
        return self.memory.search(query, "fts")

    def close(self) -> None:
        self.store.close()


class Peer:
    """KohakuTerrarium, whose search is handed all events each time."""

    def __init__(self, path: Path) -> None:
        session = import_module("kohakuterrarium.session.store")
        memory = import_module("kohakuterrarium.session.memory")
        self.store = session.SessionStore(str(path))
        self.memory = memory.SessionMemory(str(path))

    def index(self, log: Sequence[Event]) -> int:
        return cast("int", self.memory.index_events(AGENT, list(log)))

    def add(self, event: Event) -> None:
        self.store.append_event(AGENT, event["type"], _fields(event))
        self.memory.index_events(AGENT, self.store.get_events(AGENT))

    def search(self, query: str) -> Sequence[object]:
        return cast("Sequence[object]", self.memory.search(query, mode="fts"))

    def close(self) -> None:
        self.memory.close()
        self.store.close()


class Plain:
    """FTS5 over the texts of all events, words OR-ed: no blocks, no filters, no snippets."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")

    def index(self, log: Sequence[Event]) -> int:
        with self.db:
            self.db.executemany("INSERT INTO t VALUES (?)", [(str(event),) for event in log])
        return len(log)

    def add(self, event: Event) -> None:
        self.index([event])

    def search(self, query: str) -> Sequence[object]:
        asked = " OR ".join(f'"{word}"' for word in query.split())
        select = "SELECT text, bm25(t) FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 10"
        return self.db.execute(select, (asked,)).fetchall()

    def close(self) -> None:
        self.db.close()


SEARCHERS: dict[str, type[Ours | Peer | Plain]] = {OURS: Ours, PEER: Peer, STDLIB: Plain}


def _fields(event: Mapping[str, object]) -> Event:
    return {name: value for name, value in event.items() if name != "type"}


def work(count: int) -> list[Event]:
    """Returns events as a log holds them; each turn begins with what a user said."""
    renamed = {"user_message": "user_input"}
    return [
        {"type": renamed.get(kind, kind), "turn_index": turn, "branch_id": 1, **fields}
        for kind, fields, turn in events(count)
    ]


def questions(log: Sequence[Event]) -> list[str]:
    """Returns queries of one to three words, as common as they are in the log."""
    rng = random.Random(SEED)
    words = [word for event in log[:2000] for word in WORD.findall(str(event))]
    return [" ".join(rng.sample(words, rng.randint(1, 3))) for _ in range(QUERIES)]


def begun(name: str, path: Path, log: Sequence[Event]) -> tuple[Searcher, Sequence[Event]]:
    """Returns a searcher of a session that holds the log, and the log as it is handed to it."""
    searcher = SEARCHERS[name](path)
    if not isinstance(searcher, (Ours, Peer)):
        return searcher, log
    for event in log:
        searcher.store.append_event(AGENT, str(event["type"]), _fields(event))
    return searcher, searcher.store.get_events(AGENT)


def test_index(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.resumed[1] // 10
    benchmark.group = f"index the blocks of {count} events"
    searcher, log = begun(session_name, places() / "s.kohakutr", work(count))
    found: list[int] = []

    benchmark.pedantic(lambda: found.append(searcher.index(log)), setup=None, rounds=1)

    benchmark.extra_info["blocks"] = found[0]
    searcher.close()


def test_keyword_query(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.resumed[1] // 10
    benchmark.group = f"{QUERIES} keyword queries at {count} events"
    searcher, log = begun(session_name, places() / "s.kohakutr", work(count))
    searcher.index(log)
    asked = questions(log)
    took: list[float] = []

    def ask() -> None:
        for query in asked:
            started = time.perf_counter()
            searcher.search(query)
            took.append(time.perf_counter() - started)

    benchmark.pedantic(ask, setup=None, rounds=amount.rounds)

    took.sort()
    benchmark.extra_info["p50 ms"] = took[len(took) // 2] * 1e3
    benchmark.extra_info["p99 ms"] = took[len(took) * 99 // 100] * 1e3
    searcher.close()


@pytest.mark.parametrize("part", [20, 10], ids=["half", "whole"])
def test_query_within_a_turn(
    benchmark: Benchmark,
    session_name: str,
    places: Callable[[], Path],
    amount: Sizes,
    part: int,
) -> None:
    count = amount.resumed[1] // part
    benchmark.group = f"one new event and a query, {WITHIN_A_TURN} times, at {count} events"
    searcher, log = begun(session_name, places() / "s.kohakutr", work(count))
    searcher.index(log)
    asked = iter(questions(log))
    more = iter(work(count + WITHIN_A_TURN * amount.rounds)[count:])

    def turn() -> None:
        for _ in range(WITHIN_A_TURN):
            searcher.add(next(more))
            searcher.search(next(asked))

    benchmark.pedantic(turn, setup=None, rounds=amount.rounds)
    searcher.close()

"""Chat sessions: adding to a long one, reading one, and listing many, beside the peer."""

from __future__ import annotations

import importlib.util
import json
import random
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from amberlog.chat import DefaultSessionStore
from benches.workload import SEED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

OURS = "amberlog"
PEER = "praisonaiagents"
ADDED = 20
READ = 20
LISTED = 5
WORDS = ("session", "agent", "turn", "tool", "summary", "index", "lock", "file", "store", "late")


class Store(Protocol):
    """The verbs that are measured, which both stores have."""

    def add_message(self, session_id: str, role: str, content: str) -> bool: ...

    def get_working_history(self, session_id: str) -> list[dict[str, object]]: ...

    def list_sessions(self, limit: int) -> list[dict[str, object]]: ...

    def search(self, query: str) -> list[object]: ...


def opened(name: str, directory: Path) -> Store:
    if name == OURS:
        return cast("Store", DefaultSessionStore(str(directory)))
    peer = importlib.import_module("praisonaiagents.session")
    return cast("Store", peer.DefaultSessionStore(str(directory)))


def contestants() -> list[object]:
    is_missing = importlib.util.find_spec(PEER) is None
    missing = pytest.mark.skipif(is_missing, reason=f"{PEER} is not installed")
    return [OURS, pytest.param(PEER, marks=[pytest.mark.peers, missing])]


def message(generator: random.Random, number: int) -> dict[str, object]:
    text = " ".join(generator.choice(WORDS) for _ in range(45))
    role = ("user", "assistant")[number % 2]
    return {"role": role, "content": text, "timestamp": 1.7e9 + number, "metadata": {}}


def write(directory: Path, session_id: str, count: int) -> None:
    """Writes a session as either store leaves it: a window of 100, the rest in the archive."""
    generator = random.Random(f"{SEED} {session_id}")
    messages = [message(generator, number) for number in range(count)]
    stored = {
        "session_id": session_id,
        "messages": messages[-100:],
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": "2026-01-01T00:00:00+00:00",
        "metadata": {},
        "archived_messages": messages[:-100],
    }
    text = json.dumps(stored, indent=2, ensure_ascii=False)
    (directory / f"{session_id}.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", contestants())
@pytest.mark.parametrize("count", [100, 1_000, 5_000])
def test_add_a_message(
    benchmark: Benchmark, name: str, count: int, places: Callable[[], Path]
) -> None:
    benchmark.group = f"add {ADDED} messages to {count}"
    directory = places()
    write(directory, "s", count)
    store = opened(name, directory)
    store.add_message("s", "user", "first")

    def add() -> None:
        for number in range(ADDED):
            store.add_message("s", "user", f"{number} " + "word " * 55)

    benchmark.pedantic(add, setup=None, rounds=3)


@pytest.mark.parametrize("name", contestants())
@pytest.mark.parametrize("count", [1_000, 5_000])
def test_read_the_working_history(
    benchmark: Benchmark, name: str, count: int, places: Callable[[], Path]
) -> None:
    benchmark.group = f"read {READ} times the working history of {count}"
    directory = places()
    write(directory, "s", count)
    store = opened(name, directory)
    store.add_message("s", "user", "first")

    def read() -> None:
        for _ in range(READ):
            store.get_working_history("s")

    benchmark.pedantic(read, setup=None, rounds=3)


@pytest.mark.parametrize("name", contestants())
@pytest.mark.parametrize("verb", ["list", "search"])
def test_look_at_many_sessions(
    benchmark: Benchmark, name: str, verb: str, places: Callable[[], Path]
) -> None:
    count = 2_000
    benchmark.group = f"{verb} {LISTED} times {count} sessions of 20 messages"
    directory = places()
    for number in range(count):
        write(directory, f"s{number:05}", 20)
    store = opened(name, directory)
    store.list_sessions(50)

    def look() -> None:
        for _ in range(LISTED):
            if verb == "list":
                store.list_sessions(50)
            else:
                store.search("summary late")

    benchmark.pedantic(look, setup=None, rounds=2)

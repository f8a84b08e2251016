"""The index of chat sessions: many sessions listed, searched and routed, beside the peer."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import random
import shutil
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from amberlog.chat import SqliteSessionStore
from benches.workload import SEED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

OURS = "amberlog"
PEER = "praisonaiagents"
# The peer's first look is quadratic: at 5,000 sessions it takes more than a minute.
SESSIONS = 5_000 if os.environ.get("AMBERLOG_BENCH") == "long" else 1_000
MESSAGES = 20


class Store(Protocol):
    """The verbs that are measured, which both stores have."""

    def add_message(self, session_id: str, role: str, content: str) -> bool: ...

    def list_sessions(self, limit: int) -> list[dict[str, object]]: ...

    def search(self, query: str) -> list[object]: ...

    def get_by_gateway_session(self, gateway_session_id: str) -> object: ...

    def list_sessions_by_gateway_agent(self, agent_id: str) -> list[str]: ...


def opened(name: str, directory: Path) -> Store:
    if name == OURS:
        return cast("Store", SqliteSessionStore(str(directory)))
    peer = importlib.import_module("praisonaiagents.session")
    return cast("Store", peer.SqliteSessionStore(str(directory)))


def contestants() -> list[object]:
    is_missing = importlib.util.find_spec(PEER) is None
    missing = pytest.mark.skipif(is_missing, reason=f"{PEER} is not installed")
    return [OURS, pytest.param(PEER, marks=[pytest.mark.peers, missing])]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory of sessions whose words are as frequent as those of a language."""
    directory = tmp_path_factory.mktemp("sessions")
    generator = random.Random(SEED)
    words = ["the", "of", "and", "to", "billing", "migration"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    words += [
        "".join(generator.choices(letters, k=generator.randrange(3, 11))) for _ in range(20_000)
    ]
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    for number in range(SESSIONS):
        messages: list[dict[str, object]] = [
            {
                "role": ("user", "assistant")[at % 2],
                "content": " ".join(generator.choices(words, cum_weights=weights, k=110)),
                "timestamp": 1.7e9 + 600 * at,
                "metadata": {},
            }
            for at in range(MESSAGES)
        ]
        stored: dict[str, object] = {
            "session_id": f"s{number:05}",
            "messages": messages,
            "created_at": "2026-01-01T00:00:00+00:00",
            "updated_at": f"2026-01-{1 + number % 28:02}T00:00:00+00:00",
            "agent_name": None,
            "user_id": None,
            "metadata": {},
            "gateway_session_id": f"gw-{number}" if number % 10 == 0 else None,
            "agent_id": f"agent-{number % 100}" if number % 10 == 0 else None,
        }
        text = json.dumps(stored, indent=2)
        (directory / f"s{number:05}.json").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def looked_at(sessions: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Store]:
    """Returns the stores by name, each over a copy of the sessions that it has looked at."""

    @functools.cache
    def store(name: str) -> Store:
        copy = shutil.copytree(sessions, tmp_path_factory.mktemp(name) / "copy")
        store = opened(name, copy)
        store.search("billing")
        return store

    return store


def copied(sessions: Path, places: Callable[[], Path]) -> Path:
    return shutil.copytree(sessions, places() / "copy")


@pytest.mark.parametrize("name", contestants())
def test_look_at_sessions_for_the_first_time(
    benchmark: Benchmark, name: str, sessions: Path, places: Callable[[], Path]
) -> None:
    benchmark.group = f"first search of {SESSIONS} sessions"
    directory = copied(sessions, places)

    benchmark.pedantic(
        lambda: opened(name, directory).search("billing migration"), setup=None, rounds=1
    )


@pytest.mark.parametrize("name", contestants())
@pytest.mark.parametrize("verb", ["list", "two words", "the", "of the", "gateway", "agent", "add"])
def test_ask_an_index(
    benchmark: Benchmark, name: str, verb: str, looked_at: Callable[[str], Store]
) -> None:
    benchmark.group = f"{verb}, {SESSIONS} sessions"
    store = looked_at(name)
    asked: dict[str, Callable[[], object]] = {
        "list": lambda: store.list_sessions(50),
        "two words": lambda: store.search("billing migration"),
        "the": lambda: store.search("the"),
        "of the": lambda: store.search("of the"),
        "gateway": lambda: store.get_by_gateway_session("gw-100"),
        "agent": lambda: store.list_sessions_by_gateway_agent("agent-20"),
        "add": lambda: store.add_message("s00001", "user", "hello there"),
    }

    benchmark.pedantic(asked[verb], setup=None, rounds=10)

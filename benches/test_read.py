"""Coming back to a session: opening it, and reading what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benches import measure
from benches.contestants import open_store
from benches.workload import AGENT, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("size", [0, 1], ids=["small", "large"])
def test_open_meta_and_newest_conversation(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes, size: int
) -> None:
    count = amount.resumed[size]
    benchmark.group = f"open, load_meta and newest conversation at {count} events"
    path = places() / "s.kohakutr"
    measure.make_resumable(session_name, path, count)

    def resume() -> None:
        store = open_store(session_name, path)
        store.load_meta()
        assert store.load_conversation(AGENT)
        # Closing is not part of it, but a session that stays open makes the next opening cheaper.
        store.close()

    benchmark.pedantic(resume, setup=None, rounds=amount.rounds * 5)


@pytest.mark.parametrize("verb", ["open", "load_meta", "load_conversation", "get_events"])
def test_read_verb(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes, verb: str
) -> None:
    benchmark.group = f"{verb} at {amount.events} events"
    path = places() / "s.kohakutr"
    measure.make_resumable(session_name, path, amount.events)
    store = open_store(session_name, path)
    verbs: dict[str, Callable[[], object]] = {
        "open": lambda: open_store(session_name, path).close(),
        "load_meta": store.load_meta,
        "load_conversation": lambda: store.load_conversation(AGENT),
        "get_events": lambda: store.get_events(AGENT),
    }
    if verb == "open":
        store.close()

    benchmark.pedantic(verbs[verb], setup=None, rounds=amount.rounds * 3)

    if verb != "open":
        store.close()


def test_empty_session(benchmark: Benchmark, session_name: str, places: Callable[[], Path]) -> None:
    benchmark.group = "make an empty session"
    found: list[dict[str, float]] = []

    benchmark.pedantic(
        lambda: found.append(measure.empty(session_name, places())), setup=None, rounds=3
    )

    benchmark.extra_info.update(found[-1])
    assert found[-1]["KiB"] > 0

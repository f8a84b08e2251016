"""Appending: one by one, many at a time, and to many sessions in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benches import measure
from benches.contestants import OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark
    from benches.workload import Sizes

pytestmark = pytest.mark.filterwarnings("default")


def _before(amount: Sizes, *, grown: bool) -> tuple[int, int]:
    return (amount.more, amount.grown) if grown else (amount.events, 0)


@pytest.mark.parametrize("grown", [False, True], ids=["empty", "grown"])
def test_append_one_by_one(
    benchmark: Benchmark,
    session_name: str,
    places: Callable[[], Path],
    amount: Sizes,
    *,
    grown: bool,
) -> None:
    count, before = _before(amount, grown=grown)
    benchmark.group = f"append {count} events one by one to {before}"
    session = measure.Appending(session_name, count, before)

    benchmark.pedantic(
        session.append_all, setup=lambda: session.begin(places()), rounds=amount.rounds
    )

    benchmark.extra_info.update(session.end())


@pytest.mark.parametrize("grown", [False, True], ids=["empty", "grown"])
def test_append_many_at_a_time(
    benchmark: Benchmark,
    store_name: str,
    places: Callable[[], Path],
    amount: Sizes,
    *,
    grown: bool,
) -> None:
    count, before = _before(amount, grown=grown)
    benchmark.group = f"append {count} events, {measure.CHUNK} at a time, to {before}"
    session = measure.Appending(store_name, count, before)

    benchmark.pedantic(
        session.append_parts, setup=lambda: session.begin(places()), rounds=amount.rounds
    )

    benchmark.extra_info.update(session.end())


def test_close_with_keyword_rows_level(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    benchmark.group = f"close after {amount.events} events"
    session = measure.Appending(session_name, amount.events, 0)

    def begin() -> None:
        session.begin(places())
        session.append_parts()

    benchmark.pedantic(session.close, setup=begin, rounds=amount.rounds)


def test_many_open_stores(benchmark: Benchmark, session_name: str, amount: Sizes) -> None:
    benchmark.group = f"{amount.shared} events to {amount.stores} open sessions in turn"
    found: list[dict[str, float]] = []

    def run() -> None:
        found.append(measure.in_fresh_process("many", session_name, amount.stores, amount.shared))

    benchmark.pedantic(run, setup=None, rounds=1)

    benchmark.extra_info.update(found[-1])
    assert found[-1]["descriptors"] > 0


def test_bytes_written(benchmark: Benchmark, session_name: str, amount: Sizes) -> None:
    benchmark.group = f"bytes written for {amount.events} events"
    found: list[dict[str, float]] = []

    def run() -> None:
        found.append(measure.in_fresh_process("append", session_name, amount.events))

    benchmark.pedantic(run, setup=None, rounds=1)

    benchmark.extra_info["written/payload"] = found[-1]["written/payload"]
    assert session_name != OURS or found[-1]["written/payload"] > 1

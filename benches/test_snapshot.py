"""Saving the whole conversation after each of its turns."""

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


def _bench(
    benchmark: Benchmark, run: Callable[[], dict[str, float]], rounds: int
) -> dict[str, float]:
    found: list[dict[str, float]] = []
    benchmark.pedantic(lambda: found.append(run()), setup=None, rounds=rounds)
    benchmark.extra_info.update(found[-1])
    return found[-1]


def test_save_branch_snapshot_each_turn(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    turns = amount.turns[0]
    benchmark.group = f"save_branch_snapshot after each of {turns} turns"

    figures = _bench(benchmark, lambda: measure.snapshot(branch_name, places(), turns), 1)

    assert figures["file/messages"] > 1


def test_save_conversation_each_turn(
    benchmark: Benchmark, session_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    turns = amount.turns[0]
    benchmark.group = f"save_conversation after each of {turns} turns"

    figures = _bench(
        benchmark, lambda: measure.snapshot(session_name, places(), turns, branches=False), 1
    )

    assert figures["file/messages"] > 1


@pytest.mark.parametrize("branches", [True, False], ids=["branch", "plain"])
def test_time_of_a_turn_after_many(
    benchmark: Benchmark, places: Callable[[], Path], amount: Sizes, *, branches: bool
) -> None:
    turns = amount.turns[1]
    benchmark.group = f"a snapshot after each of {turns} turns"

    figures = _bench(
        benchmark, lambda: measure.snapshot(OURS, places(), turns, branches=branches), 1
    )

    assert figures["last ms"] > 0

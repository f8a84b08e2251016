"""Recording: a turn, whatever came before it, and the parent paths of a session with branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benches.contestants import OURS
from benches.recording import RecordedTurns, path_share

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark
    from benches.workload import Sizes

MOST = 0.05
"""The share of the event bytes that parent paths may have."""


@pytest.mark.parametrize("size", [0, 1], ids=["short", "long"])
def test_recorded_turn(
    benchmark: Benchmark, places: Callable[[], Path], amount: Sizes, size: int
) -> None:
    turns = amount.turns[size]
    benchmark.group = f"record one more turn of 14 events after {turns}"
    session = RecordedTurns(turns)
    session.begin(places())

    benchmark.pedantic(session.record, setup=None, rounds=20)

    session.close()


def test_parent_paths(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    turns = amount.turns[0] * 2
    benchmark.group = f"record {turns} turns of 12 events with branches"
    found: list[dict[str, float]] = []

    benchmark.pedantic(
        lambda: found.append(path_share(branch_name, places() / "s.kohakutr", turns)),
        setup=None,
        rounds=1,
    )

    benchmark.extra_info.update(found[-1])
    assert branch_name != OURS or found[-1]["path share"] <= MOST

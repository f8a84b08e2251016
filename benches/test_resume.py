"""Coming back to a session of any length, and telling a whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benches.coming_back import Resumer, make_session, replayer, turns_of
from benches.workload import Sizes, sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

SMALL, LARGE = sizes().resumed
MIDDLE = LARGE // 10
"""The peer takes seconds at this size, and minutes at the large one."""


@pytest.mark.parametrize("count", [SMALL, MIDDLE, LARGE])
def test_come_back_to_a_session(
    benchmark: Benchmark,
    branch_name: str,
    places: Callable[[], Path],
    amount: Sizes,
    count: int,
) -> None:
    if branch_name != "amberlog" and count == LARGE:
        pytest.skip("its time grows with the square of the events")
    benchmark.group = f"resume at {count} events"
    path = places() / "s.kohakutr"
    make_session(branch_name, path, count, turns_of(count), snapshot=True)
    session = Resumer(branch_name, path)

    found: list[int] = []
    benchmark.pedantic(
        lambda: found.append(session.resume()), setup=session.close, rounds=amount.rounds * 5
    )

    session.close()
    assert found[-1] > 0


def test_replay_a_whole_log(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.events + amount.events // 5
    turns = max(count // 40, 1)
    benchmark.group = f"replay {count} events of {turns} turns"
    path = places() / "s.kohakutr"
    make_session(branch_name, path, count, turns, snapshot=False)
    replay = replayer(branch_name, path)

    found: list[int] = []
    benchmark.pedantic(lambda: found.append(replay()), setup=None, rounds=amount.rounds)

    assert found[-1] > 0


def test_come_back_without_a_snapshot(
    benchmark: Benchmark, branch_name: str, places: Callable[[], Path], amount: Sizes
) -> None:
    count = amount.events + amount.events // 5
    turns = max(count // 40, 1)
    benchmark.group = f"resume by replay of {count} events of {turns} turns"
    path = places() / "s.kohakutr"
    make_session(branch_name, path, count, turns, snapshot=False)
    session = Resumer(branch_name, path)

    found: list[int] = []
    benchmark.pedantic(
        lambda: found.append(session.resume()), setup=session.close, rounds=amount.rounds
    )

    session.close()
    assert found[-1] > 0

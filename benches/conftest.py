"""What every bench is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from benches.contestants import ENGINE, OURS, PEER, STDLIB, is_installed
from benches.workload import Sizes, sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that the benches use."""

    extra_info: dict[str, float]
    group: str | None

    def pedantic(
        self, target: Callable[[], object], *, setup: Callable[[], object] | None, rounds: int
    ) -> object: ...


@pytest.fixture(scope="session", name="amount")
def amount_of_work() -> Sizes:
    """Returns the sizes of this run."""
    return sizes()


@pytest.fixture
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Returns what makes a new directory for each round."""
    return lambda: tmp_path_factory.mktemp("bench")


def _contestant(name: str) -> object:
    marks = [pytest.mark.peers] if name in (PEER, ENGINE) else []
    if not is_installed(name):
        marks.append(pytest.mark.skip(reason=f"{name} is not installed"))
    return pytest.param(name, marks=marks)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives `store_name` all contestants, `branch_name` those that know branches."""
    if "store_name" in metafunc.fixturenames:
        metafunc.parametrize("store_name", [_contestant(n) for n in (OURS, STDLIB, PEER, ENGINE)])
    if "session_name" in metafunc.fixturenames:
        metafunc.parametrize("session_name", [_contestant(n) for n in (OURS, STDLIB, PEER)])
    if "branch_name" in metafunc.fixturenames:
        metafunc.parametrize("branch_name", [_contestant(n) for n in (OURS, PEER)])

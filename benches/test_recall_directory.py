"""The search over all sessions: made, found unchanged, asked rare and common things."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from amberlog import Recall
from amberlog.recall import RECALL_NAME
from benches.tau_sessions import RUNS_FILE, make, record, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benches.conftest import Benchmark

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not RUNS_FILE.is_file(), reason="the tau-bench runs are not here"),
]

# Sessions, and runs in each. `long` needs two gigabytes of disk and some minutes.
SIZES = {"smoke": (20, 1), "quick": (200, 1), "full": (1_000, 1), "long": (10_000, 4)}
MOST_MEMORY_KB = 500_000
HIT_AT_1, RECALL_AT_10 = 0.88, 0.94
RARE, COMMON = "certificate EHGLP3", "please help me cancel the flight reservation"
# A program of its own, so that its highest memory is that of indexing alone.
_INDEX = (
    "import sys\nfrom amberlog import Recall\nRecall(sys.argv[1]).refresh()\n"
    "print(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])\n"
)


@pytest.fixture(scope="session")
def size() -> tuple[int, int]:
    """Returns how many sessions there are, and how many runs in each."""
    return SIZES[os.environ.get("AMBERLOG_BENCH", "full")]


@pytest.fixture(scope="session")
def directory(size: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory of sessions."""
    made = tmp_path_factory.mktemp("tau")
    make(made, size[0], together=size[1])
    return made


@pytest.fixture
def recall(directory: Path) -> Iterator[Recall]:
    """Yields the search over them, level."""
    with Recall(directory) as opened:
        opened.refresh()
        yield opened


def test_index_from_nothing(benchmark: Benchmark, directory: Path, size: tuple[int, int]) -> None:
    benchmark.group = f"index the blocks of {size[0]} sessions"

    def run() -> None:
        with Recall(directory) as recall:
            assert recall.refresh().read == size[0]

    def setup() -> None:
        shutil.rmtree(directory / RECALL_NAME, ignore_errors=True)

    benchmark.pedantic(run, setup=setup, rounds=3 if size[1] == 1 else 1)

    with Recall(directory) as recall:
        stats = recall.stats()
    benchmark.extra_info["blocks"] = stats.blocks
    benchmark.extra_info["bytes_a_block"] = stats.bytes / stats.blocks


def test_memory_of_indexing(benchmark: Benchmark, directory: Path, size: tuple[int, int]) -> None:
    benchmark.group = f"memory of indexing {size[0]} sessions"
    command = [sys.executable, "-c", _INDEX, str(directory)]
    highest: list[int] = []

    def run() -> None:
        shutil.rmtree(directory / RECALL_NAME, ignore_errors=True)
        highest.append(int(subprocess.check_output(command, text=True)))

    benchmark.pedantic(run, setup=None, rounds=1)

    benchmark.extra_info["vm_hwm_kb"] = max(highest)
    assert max(highest) <= MOST_MEMORY_KB


def test_nothing_changed(benchmark: Benchmark, recall: Recall, size: tuple[int, int]) -> None:
    benchmark.group = f"find nothing changed in {size[0]} sessions"

    benchmark.pedantic(recall.refresh, setup=None, rounds=20)


@pytest.mark.parametrize("level", [False, True])
@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize("query", [RARE, COMMON])
def test_query(
    benchmark: Benchmark,
    recall: Recall,
    size: tuple[int, int],
    query: str,
    *,
    by_session: bool,
    level: bool,
) -> None:
    what = "sessions" if by_session else "blocks"
    after = "after a look at the directory" if level else "of a level index"
    benchmark.group = f"{what} for {query!r} in {size[0]} sessions, {after}"

    def run() -> None:
        assert recall.search(query, by_session=by_session, level=level)

    benchmark.pedantic(run, setup=None, rounds=30)


def test_quality_by_session(benchmark: Benchmark, tmp_path: Path) -> None:
    """One session a run; asked for the trials of a task by its instruction, without ids."""
    known = runs()
    for at, run in enumerate(known):
        path = tmp_path / f"{run['session_id']}.kohakutr"
        record(path, run["session_id"], [run], 1.75e9 + at * 3600)
    tasks = {run["task_id"]: run for run in reversed(known)}
    found: dict[int, list[bool]] = {}
    benchmark.group = "find the trials of 50 tasks"

    def ask(opened: Recall) -> None:
        for task, run in tasks.items():
            query = re.sub(r"\d", "", run["instruction"].replace(run["user_id"], ""))
            wanted = {one["session_id"] for one in known if one["task_id"] == task}
            hits = opened.search(query, k=10, by_session=True)
            found[task] = [hit.session in wanted for hit in hits]

    with Recall(tmp_path) as opened:
        benchmark.pedantic(lambda: ask(opened), setup=None, rounds=1)

    best = mean(float(hits[:1] == [True]) for hits in found.values())
    ten = mean(sum(hits) / 4 for hits in found.values())
    benchmark.extra_info["hit_at_1"] = best
    benchmark.extra_info["recall_at_10"] = ten
    assert best >= HIT_AT_1
    assert ten >= RECALL_AT_10

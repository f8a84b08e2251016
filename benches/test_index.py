"""The index: made from nothing, brought level, asked for pages and searched."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from amberlog import SessionIndex, SessionIndexHook, SessionStore
from amberlog.index import SIDECAR_NAME, reconcile
from benches.contestants import OURS, PEER
from benches.directory import COMMON_WORD, make

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.conftest import Benchmark
    from benches.directory import Maker

pytestmark = pytest.mark.filterwarnings("default")

# `long` needs eight gigabytes of disk, and with the peer a quarter of an hour.
COUNTS = {"smoke": (30,), "quick": (1_000,), "full": (1_000, 10_000), "long": (100_000,)}
ROUNDS = 3
_PEER_INDEX = "kohakuterrarium.studio.persistence.session_index"


class Page(Protocol):
    """The part of a page that is looked at."""

    total: int


class Index(Protocol):
    """What this package's index and the peer's have in common."""

    def list(
        self, *, search: str = "", sort: str = "", limit: int = 20, offset: int = 0
    ) -> Page: ...

    def close(self) -> None: ...


class Contestant:
    """Opens an index and brings it level."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, directory: Path) -> Index:
        if self.name == OURS:
            return cast("Index", SessionIndex.open(directory))
        store = import_module(f"{_PEER_INDEX}.store")
        return cast("Index", store.SessionIndex(directory / SIDECAR_NAME))

    def level(self, index: Index, directory: Path) -> int:
        if self.name == OURS:
            return reconcile(cast("SessionIndex", index), directory).total
        run = import_module(f"{_PEER_INDEX}.reconcile").reconcile
        return int(run(index, directory).total)


@pytest.fixture(scope="session", params=COUNTS[os.environ.get("AMBERLOG_BENCH", "full")])
def count(request: pytest.FixtureRequest) -> int:
    """Returns how many sessions there are."""
    return cast("int", request.param)


@pytest.fixture(scope="session", params=["ours", "peers"])
def files(
    request: pytest.FixtureRequest, count: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Returns who made the sessions and where they are."""
    directory = tmp_path_factory.mktemp("sessions")
    make(directory, count, cast("Maker", request.param))
    return request.param, directory


@pytest.fixture
def index_name(store_name: str) -> str:
    """Returns a contestant that has an index."""
    if store_name not in (OURS, PEER):
        pytest.skip("it has no index")
    return store_name


def _remove(directory: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (directory / (SIDECAR_NAME + suffix)).unlink(missing_ok=True)
    _tidy(directory)


def _tidy(directory: Path) -> None:
    """Removes the empty logs that the peer leaves beside each session it reads."""
    for pattern in ("*.kohakutr-wal", "*.kohakutr-shm"):
        for left in directory.glob(pattern):
            left.unlink()


def test_bootstrap(
    benchmark: Benchmark, index_name: str, files: tuple[str, Path], count: int
) -> None:
    maker, directory = files
    contestant = Contestant(index_name)
    benchmark.group = f"index {count} sessions of {maker} from nothing"

    def run() -> None:
        index = contestant.open(directory)
        assert contestant.level(index, directory) == count
        index.close()

    benchmark.pedantic(run, setup=lambda: _remove(directory), rounds=ROUNDS if count < 10**4 else 1)

    size = sum(path.stat().st_size for path in directory.glob(SIDECAR_NAME + "*"))
    benchmark.extra_info["sidecar_bytes_a_session"] = size / count


def _measured(
    benchmark: Benchmark,
    name: str,
    files: tuple[str, Path],
    what: str,
    run: Callable[[Index], object],
) -> None:
    maker, directory = files
    contestant = Contestant(name)
    _tidy(directory)
    index = contestant.open(directory)
    contestant.level(index, directory)
    benchmark.group = f"{what} of {maker}"
    # A page is quicker than the clock that measures a round is good, so a round is many.
    benchmark.pedantic(lambda: run(index), setup=None, rounds=ROUNDS * 10)
    index.close()


def test_nothing_changed(
    benchmark: Benchmark, index_name: str, files: tuple[str, Path], count: int
) -> None:
    contestant = Contestant(index_name)
    what = f"find nothing changed in {count} sessions"

    _measured(benchmark, index_name, files, what, lambda index: contestant.level(index, files[1]))


@pytest.mark.parametrize("offset", [0, 400])
def test_page(
    benchmark: Benchmark, index_name: str, files: tuple[str, Path], count: int, offset: int
) -> None:
    what = f"page at {offset} of {count} sessions"

    _measured(benchmark, index_name, files, what, lambda index: index.list(offset=offset))


@pytest.mark.parametrize("word", ["zebra1", COMMON_WORD])
def test_search(
    benchmark: Benchmark, index_name: str, files: tuple[str, Path], count: int, word: str
) -> None:
    what = f"search {word} in {count} sessions"

    _measured(
        benchmark, index_name, files, what, lambda index: index.list(search=word, sort="relevance")
    )


_MEASURE_MEMORY = """
import resource, sys
from pathlib import Path
from amberlog import SessionIndex
from amberlog.index import reconcile
directory = Path(sys.argv[1])
with SessionIndex.open(directory) as index:
    reconcile(index, directory)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_of_a_bootstrap(benchmark: Benchmark, files: tuple[str, Path], count: int) -> None:
    maker, directory = files
    _remove(directory)
    benchmark.group = f"index {count} sessions of {maker} in a new process"
    command = [sys.executable, "-c", _MEASURE_MEMORY, str(directory)]
    peaks: list[float] = []

    def run() -> None:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout) / 1024)

    benchmark.pedantic(run, setup=None, rounds=1)

    benchmark.extra_info["peak_megabytes"] = max(peaks)


HOOKED = {"smoke": (20,), "quick": (1_000,)}.get(
    os.environ.get("AMBERLOG_BENCH", "full"), (1_000, 20_000)
)


@pytest.mark.parametrize("is_hooked", [False, True], ids=["alone", "with a hook"])
@pytest.mark.parametrize("events", HOOKED)
def test_append_with_a_hook(
    benchmark: Benchmark, places: Callable[[], Path], events: int, *, is_hooked: bool
) -> None:
    benchmark.group = f"append to {events} events, with and without a hook"
    content = {"content": "The server refused the connection; we try again. " * 6}
    opened: list[tuple[SessionStore, SessionIndex]] = []

    def begin() -> None:
        while opened:
            store, index = opened.pop()
            store.close()
            index.close()
        directory = places()
        store, index = SessionStore(directory / "s.kohakutr"), SessionIndex.open(directory)
        store.append_events("alice", [("text_chunk", content)] * events)
        if is_hooked:
            SessionIndexHook(store, index)
        opened.append((store, index))

    def run() -> None:
        store, _ = opened[-1]
        for _ in range(1_000):
            store.append_event("alice", "text_chunk", content)

    benchmark.pedantic(run, setup=begin, rounds=ROUNDS * 3)

    for store, index in opened:
        store.close()
        index.close()


def test_bare_stats(benchmark: Benchmark, files: tuple[str, Path], count: int) -> None:
    maker, directory = files
    benchmark.group = f"find nothing changed in {count} sessions of {maker}"

    def run() -> int:
        with os.scandir(directory) as entries:
            return sum(entry.stat().st_size for entry in entries)

    benchmark.pedantic(run, setup=None, rounds=ROUNDS)

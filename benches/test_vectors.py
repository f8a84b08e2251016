"""Search by meaning in a session, beside numpy's exact product and `hnswlib`.

Texts are sentences of real dialogues where `AMBERLOG_DATA` names their directory, else made of
words; vectors are those of the built-in embedder. Recall is that of the ten nearest by numpy. Both
graphs have 16 links chosen among 100, and 200 slots in view.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest

from amberlog import SessionMemory, SessionStore
from amberlog.embedding import StaticEmbedder
from benches.sentences import questions, sentences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from benches.conftest import Benchmark

SIZES = {"smoke": 300, "quick": 3_000, "full": 10_000, "long": 100_000}
SIZE = SIZES[os.environ.get("AMBERLOG_BENCH", "full")]
NEAREST = 10
ASKED = 100
ROUNDS = 5
AT_ONCE = 2_000
WHO = ["semantic", "hybrid", "one in a hundred", "hnsw", "one in a hundred, hnsw"]
WHO += ["numpy", "hnswlib"]


class PeersGraph(Protocol):
    """The part of `hnswlib`'s graph that answers."""

    def knn_query(
        self, row: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32]]: ...


class Asked:
    """A session with vectors, the same vectors for numpy, and queries."""

    def __init__(self, directory: Path) -> None:
        self.embedder = StaticEmbedder()
        texts = sentences(SIZE)
        self.store = SessionStore(directory / "s.kohakutr")
        for at in range(0, SIZE, AT_ONCE):
            events = [
                ("user_input" if number % 100 else "trigger_fired", {"content": text})
                for number, text in enumerate(texts[at : at + AT_ONCE])
            ]
            self.store.append_events("alice", events)
        self.memory = SessionMemory(self.store, self.embedder)
        self.memory.index()
        self.graph = SessionMemory(self.store, self.embedder, engine="hnsw")
        self.rows = unit(np.asarray(self.embedder.encode(texts)))
        self.texts = texts
        self.queries = questions(ASKED)
        self.vectors = unit(np.asarray(self.embedder.encode(self.queries)))

    def find(
        self, number: int, mode: str, kind: str | None = None, engine: str = "scan"
    ) -> list[str]:
        """Asks without the embedder's part."""
        hits = self.store._bundle.memory_find(  # noqa: SLF001  # the query is embedded already
            self.queries[number],
            mode,
            NEAREST,
            vector=self.vectors[number].tobytes(),
            model=self.embedder.model_id,
            engine=engine,
            kinds=None if kind is None else [kind],
        )
        return [hit.content for hit in hits]


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; those of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
    return scaled


@pytest.fixture(scope="module", name="asked")
def session_with_vectors(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Returns one session for all benches of this file."""
    return Asked(tmp_path_factory.mktemp("vectors"))


@pytest.mark.parametrize("who", ["hnsw", "hnswlib"])
def test_building(benchmark: Benchmark, asked: Asked, who: str) -> None:
    """Makes the graph of all vectors, by all processors; ours is kept in the file as well."""
    if who == "hnswlib":
        pytest.importorskip("hnswlib")

    def build() -> None:
        began = time.process_time()
        if who == "hnsw":
            asked.graph.index()
        else:
            peers_graph(asked)
        benchmark.extra_info["cpu_s"] = time.process_time() - began

    benchmark.group = f"a graph of {SIZE}"
    benchmark.pedantic(build, setup=None, rounds=1)


@pytest.mark.parametrize("who", WHO)
def test_query(benchmark: Benchmark, asked: Asked, who: str) -> None:
    """Asks a hundred questions, one at a time."""
    exact = np.argsort(-(asked.vectors @ asked.rows.T), axis=1, kind="stable")[:, :NEAREST]
    ask = contestant(asked, who)
    took: list[float] = []

    def all_of_them() -> None:
        for number in range(ASKED):
            began = time.perf_counter()
            ask(number)
            took.append(time.perf_counter() - began)

    benchmark.group = f"ten nearest of {SIZE}"
    benchmark.pedantic(all_of_them, setup=None, rounds=ROUNDS)
    benchmark.extra_info["p50_us"] = 1e6 * median(took)
    if who in ("semantic", "hnsw", "hnswlib", "numpy"):
        benchmark.extra_info["recall"] = recall(asked, ask, exact)


def contestant(asked: Asked, who: str) -> Callable[[int], list[str]]:
    """Returns what answers a question by its number with texts."""
    if who == "numpy":
        return lambda number: by_numpy(asked, number)
    if who == "hnswlib":
        graph = peers_graph(asked)
        return lambda number: [
            asked.texts[row] for row in graph.knn_query(asked.vectors[number], NEAREST)[0][0]
        ]
    if who.endswith("hnsw"):
        asked.graph.index()
        kind = None if who == "hnsw" else "trigger"
        return lambda number: asked.find(number, "semantic", kind, "hnsw")
    if who == "one in a hundred":
        return lambda number: asked.find(number, "semantic", "trigger")
    return lambda number: asked.find(number, who)


def peers_graph(asked: Asked) -> PeersGraph:
    """Returns `hnswlib`'s graph of the same vectors."""
    library = pytest.importorskip("hnswlib")
    made = library.Index("ip", asked.rows.shape[1])
    made.init_index(SIZE, M=16, ef_construction=100)
    made.add_items(asked.rows)
    made.set_ef(200)
    made.set_num_threads(1)
    graph: PeersGraph = made
    return graph


def by_numpy(asked: Asked, number: int) -> list[str]:
    """The exact answer, one query at a time."""
    scores = asked.rows @ asked.vectors[number]
    some = np.argpartition(-scores, NEAREST)[:NEAREST]
    return [asked.texts[row] for row in some[np.argsort(-scores[some])]]


def recall(asked: Asked, ask: Callable[[int], list[str]], exact: NDArray[np.int64]) -> float:
    """The part of what is among the ten nearest, where one as near as the tenth counts."""
    place = {text: row for row, text in enumerate(asked.texts)}
    found = 0
    for number in range(ASKED):
        scores = asked.rows @ asked.vectors[number]
        bar = scores[exact[number, -1]] - 1e-5
        rows = [row for text in ask(number) if (row := place.get(told(text))) is not None]
        found += sum(scores[row] >= bar for row in rows)
    return found / (ASKED * NEAREST)


def told(text: str) -> str:
    """A text without what a trigger's block says before it."""
    return text.removeprefix("[trigger:] ").strip()

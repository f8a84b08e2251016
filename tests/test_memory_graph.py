"""Memory search by meaning through a graph: what is found, what is kept, and what may go wrong."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from contextlib import closing
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from amberlog import SearchResult, SessionMemory, SessionStore
from support.word_embedder import WordEmbedder, cosine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DIMENSIONS = 16
NEAREST = 10
TEXTS = tuple(f"text number {n}" for n in range(600))
QUERIES = tuple(f"query number {n}" for n in range(20))


def text_vector(text: str) -> list[float]:
    """Sixteen numbers that look drawn by lot, the same for the same text."""
    shorts = struct.unpack("<16h", hashlib.sha256(text.encode()).digest())
    return [short / 32768 for short in shorts]


def embedder() -> WordEmbedder:
    return WordEmbedder("drawn", text_vector, DIMENSIONS)


def record(store: SessionStore, texts: Sequence[str] = TEXTS, agent: str = "alice") -> None:
    store.append_events(agent, [("user_input", {"content": text}) for text in texts])


def written(path: Path, texts: Sequence[str] = TEXTS) -> Path:
    """A session with vectors and their graph."""
    with SessionStore(path) as store:
        record(store, texts)
        with SessionMemory(store, embedder(), engine="hnsw") as memory:
            memory.index()
    return path


def nearest(query: str, texts: Sequence[str]) -> list[str]:
    """A plain model: the nearest of all texts by their cosine."""
    asked = text_vector(query)
    return sorted(texts, key=lambda text: -cosine(asked, text_vector(text)))[:NEAREST]


def found_of(memory: SessionMemory, texts: Sequence[str]) -> float:
    """The part of the nearest that a search finds, whose every score must be right."""
    met = 0
    for query in QUERIES:
        hits = memory.search(query, "semantic", k=NEAREST)
        check_scores(query, hits)
        assert len(hits) == NEAREST
        met += len({hit.content for hit in hits} & set(nearest(query, texts)))
    return met / (NEAREST * len(QUERIES))


def check_scores(query: str, hits: Sequence[SearchResult]) -> None:
    for hit in hits:
        expected = cosine(text_vector(query), text_vector(hit.content))
        assert hit.score == pytest.approx(expected, abs=1e-5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def kept(path: Path) -> bytes:
    """What the file holds of graphs."""
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'amber_graph'").fetchall():
            return b""
        return b"".join(body for (body,) in db.execute("SELECT body FROM amber_graph ORDER BY id"))


def linked(path: Path) -> int:
    """How many vectors the graph in the file says that it links."""
    (count,) = struct.unpack_from("<Q", kept(path))
    return int(count)


def test_a_graph_finds_almost_all_of_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")

    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        part = found_of(memory, TEXTS)

    assert part >= 0.95
    assert linked(path) == len(TEXTS)


def test_a_scan_finds_all_of_the_nearest_and_makes_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    for engine in ("scan", "auto"):
        with SessionMemory(path, embedder(), engine=engine) as memory:
            memory.index_events(
                "alice", [{"type": "user_input", "content": text} for text in TEXTS]
            )

            assert found_of(memory, TEXTS) == 1.0

    assert kept(path) == b""


def test_an_unknown_engine_is_named(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        with pytest.raises(ValueError, match="unknown engine 'sqlite': it is one of auto, scan"):
            SessionMemory(store, engine="sqlite")  # type: ignore[arg-type]

        bundle = store._bundle  # noqa: SLF001  # what is refused below the Python side
        with pytest.raises(ValueError, match="unknown engine 'faiss': it is one of auto, scan"):
            bundle.memory_find("token", "fts", 3, engine="faiss")


def test_a_first_search_makes_the_graph_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    with SessionStore(path) as store:
        record(store)
        with SessionMemory(store, embedder()) as memory:
            memory.index()
    assert kept(path) == b""

    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        memory.search("query number 1", "semantic")
        assert linked(path) == len(TEXTS)
        first = kept(path)
        memory.search("query number 2", "semantic")

    assert kept(path) == first


def test_what_may_only_be_read_gets_its_graph_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    with SessionStore(path) as store:
        record(store)
        with SessionMemory(store, embedder()) as memory:
            memory.index()
    before = path.read_bytes()

    with (
        SessionStore.open_readonly(path) as store,
        SessionMemory(store, embedder(), engine="hnsw") as memory,
    ):
        part = found_of(memory, TEXTS)

    assert part >= 0.95
    assert path.read_bytes() == before


def test_new_vectors_are_found_at_once_and_kept_when_they_are_many(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr", TEXTS[:500])

    with SessionStore(path) as store, SessionMemory(store, embedder(), engine="hnsw") as memory:
        record(store, TEXTS[500:510])
        memory.index()
        few = linked(path)
        one = memory.search(TEXTS[505], "semantic", k=1)
        record(store, TEXTS[510:])
        memory.index()
        part = found_of(memory, TEXTS)

    assert [hit.content for hit in one] == [TEXTS[505]]
    assert (few, linked(path)) == (500, 600)
    assert part >= 0.95


def problems(path: Path) -> list[str]:
    """The tables that are found to be damaged."""
    with SessionStore.open_readonly(path) as store:
        return [problem.table for problem in store.verify().problems]


DAMAGE = {
    "a bit": "UPDATE amber_graph SET body = CAST(substr(body, 1, 20000) || x'77' ||"
    " substr(body, 20002) AS BLOB)",
    "the end": "UPDATE amber_graph SET body = substr(body, 1, 999)",
    "all": "UPDATE amber_graph SET body = x''",
    "text": "UPDATE amber_graph SET body = 'no graph'",
    "a part": "UPDATE amber_graph SET part = 1, body = substr(body, 9)",
}


@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_a_damaged_graph_is_noticed_and_made_anew(tmp_path: Path, what: str) -> None:
    path = written(tmp_path / "s.kohakutr")
    whole = problems(path)
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(DAMAGE[what]).rowcount == 1

    damaged = problems(path)
    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        part = found_of(memory, TEXTS)

    assert whole == []
    assert damaged == ["amber_graph"]
    assert part >= 0.95
    assert linked(path) == len(TEXTS)
    assert problems(path) == []


def test_a_graph_of_other_vectors_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")
    other = kept(written(tmp_path / "other.kohakutr", [f"another {n}" for n in range(600)]))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE amber_graph SET body = ?", (other,))

    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        part = found_of(memory, TEXTS)

    assert part >= 0.95
    assert kept(path) != other


def test_what_was_rewritten_is_not_found_by_the_old_graph(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")
    gone = TEXTS[100:200]
    rewrite(path, [(text.encode(), text.replace("text", "node").encode()) for text in gone])
    now = [text.replace("text", "node") if text in gone else text for text in TEXTS]

    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        old = memory.search(gone[50], "semantic", k=1)
        memory.index()
        part = found_of(memory, now)
        new = memory.search("node number 150", "semantic", k=1)

    assert old[0].content != gone[50]
    assert [hit.content for hit in new] == ["node number 150"]
    assert part >= 0.95


def test_a_store_that_is_open_forgets_what_another_program_rewrites(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")
    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        before = memory.search(TEXTS[42], "semantic", k=1)
        rewrite(path, [(b"text number 42", b"node number 42")])

        after = memory.search(TEXTS[42], "semantic")
        memory.index()
        new = memory.search("node number 42", "semantic", k=1)

    assert [hit.content for hit in before] == [TEXTS[42]]
    assert TEXTS[42] not in [hit.content for hit in after]
    check_scores(TEXTS[42], after)
    assert [hit.content for hit in new] == ["node number 42"]


def rewrite(path: Path, changes: Sequence[tuple[bytes, bytes]]) -> None:
    """Another program changes rows: without our checksum, as the peer writes them."""
    with closing(sqlite3.connect(path)) as db, db:
        rows = db.execute("SELECT rowid, value FROM events").fetchall()
        for old, new in changes:
            quoted = [
                (rowid, value) for rowid, value in rows if bytes([0xA0 | len(old)]) + old in value
            ]
            for rowid, value in quoted:
                db.execute(
                    "UPDATE events SET value = ? WHERE rowid = ?",
                    (value[:-10].replace(old, new), rowid),
                )
            assert len(quoted) == 1


def test_a_filter_of_one_in_a_hundred_finds_all(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    rare = [f"rare number {n}" for n in range(6)]
    with SessionStore(path) as store:
        record(store, TEXTS)
        record(store, rare, agent="bob")
        with SessionMemory(store, embedder(), engine="hnsw") as memory:
            memory.index()

            for query in QUERIES:
                hits = memory.search(query, "semantic", k=NEAREST, agent="bob")
                assert [hit.content for hit in hits] == nearest(query, rare)
                check_scores(query, hits)


def test_each_model_has_a_graph_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")
    turned = WordEmbedder("turned", lambda text: text_vector(text)[::-1], DIMENSIONS)

    for one in (turned, embedder()):
        with SessionMemory(path, one, engine="hnsw") as memory:
            memory.index()
            assert found_of(memory, TEXTS) >= 0.95

    with closing(sqlite3.connect(path)) as db:
        models = db.execute("SELECT model FROM amber_graph GROUP BY model").fetchall()
    assert len(models) == 2


def test_a_graph_that_was_dropped_is_made_again(tmp_path: Path) -> None:
    path = written(tmp_path / "s.kohakutr")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE amber_graph")

    with SessionMemory(path, embedder(), engine="hnsw") as memory:
        part = found_of(memory, TEXTS)

    assert part >= 0.95
    assert linked(path) == len(TEXTS)


def test_appends_and_searches_go_on_while_a_graph_is_made(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    texts = [f"text number {n}" for n in range(4_000)]
    with SessionStore(path) as store:
        record(store, texts)
        with SessionMemory(store, embedder()) as memory:
            memory.index()
        with SessionMemory(store, embedder(), engine="hnsw") as memory:
            linker = Thread(target=memory.index)
            linker.start()
            for number in range(20):
                record(store, [f"said meanwhile {number}"], agent="bob")
                hits = SessionMemory(store, embedder()).search(texts[7], "semantic", k=1)
                assert [hit.content for hit in hits] == [texts[7]]
            linker.join()

            assert len(store.get_events("bob")) == 20
            assert linked(path) >= len(texts)

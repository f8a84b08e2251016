"""Vectors that the peer made: read without its extension, with the results that the peer had."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, TypedDict, cast

import pytest

from amberlog import SessionMemory, SessionStore
from support.kohaku import BY_NAME, contents
from support.word_embedder import WordEmbedder, cosine, word_vector

if TYPE_CHECKING:
    from pathlib import Path

VECTORS = BY_NAME["vectors"]


class PeersHit(TypedDict):
    """A hit as the peer tells it."""

    content: str
    score: float
    block_type: str
    round_num: int
    block_num: int


def peers(mode: str) -> dict[str, list[PeersHit]]:
    """The peer's own answers by query."""
    found = cast(dict[str, list[PeersHit]], VECTORS.expected("memory", "search"))
    return {
        query: hits
        for (asked, query), hits in ((key.split("|", 1), hits) for key, hits in found.items())
        if asked == mode
    }


def described(hit: PeersHit) -> tuple[str, str, int, int]:
    return hit["content"], hit["block_type"], hit["round_num"], hit["block_num"]


@pytest.mark.parametrize("query", [query for query in peers("semantic") if query.strip()])
@pytest.mark.parametrize("source", ["its own vectors", "the peer's vectors"])
def test_meaning_finds_what_the_peer_finds(tmp_path: Path, query: str, source: str) -> None:
    path = VECTORS.unpack(tmp_path)
    expected = peers("semantic")[query]

    with SessionMemory(path, WordEmbedder()) as memory:
        if source == "its own vectors":
            memory.index()
        hits = memory.search(query, "semantic", k=len(expected))

    # Equally near blocks have no order at the peer: which of two agents is told is open.
    assert [(hit.content, hit.block_type, hit.round_num, hit.block_num) for hit in hits] == [
        described(hit) for hit in expected
    ]
    assert [hit.score for hit in hits] == pytest.approx(
        [hit["score"] for hit in expected], abs=1e-6
    )


@pytest.mark.parametrize("query", [query for query in peers("hybrid") if query.strip()])
@pytest.mark.parametrize("mode", ["hybrid", "auto"])
def test_both_together_find_what_the_peer_finds_first(
    tmp_path: Path, query: str, mode: str
) -> None:
    path = VECTORS.unpack(tmp_path)
    expected = peers(mode)[query]

    with SessionMemory(path, WordEmbedder()) as memory:
        hits = memory.search(query, mode, k=20)  # type: ignore[arg-type]

    if expected:
        assert expected[0]["content"] in {hit.content for hit in hits[:4]}
        assert {hit["content"] for hit in expected} <= {hit.content for hit in hits}
    for hit in hits:
        assert hit.keyword_rank is not None or hit.vector_rank is not None


def test_the_peers_vectors_serve_until_there_are_own_ones(tmp_path: Path) -> None:
    path = VECTORS.unpack(tmp_path)
    turned = WordEmbedder("turned", lambda text: word_vector(text)[::-1])

    with SessionMemory(path, turned) as memory:
        before = {hit.content: hit.score for hit in memory.search("backups", "semantic", k=50)}
        count = memory.get_stats()["vec_blocks"]
        memory.index()
        after = {hit.content: hit.score for hit in memory.search("backups", "semantic", k=50)}

    assert count == 18
    for text, score in before.items():
        expected = cosine(word_vector("backups")[::-1], word_vector(text))
        assert score == pytest.approx(expected, abs=1e-6)
    for text, score in after.items():
        assert score == pytest.approx(cosine(word_vector("backups"), word_vector(text)), abs=1e-6)


def test_a_block_that_says_something_else_now_has_no_vector_of_the_peers(tmp_path: Path) -> None:
    path = VECTORS.unpack(tmp_path)
    with SessionStore(path) as store:
        assert store.get_events("alice")
    replace(path, b"Backups run nightly at two.", b"Backups ran nightly at one.")

    with SessionMemory(path, WordEmbedder()) as memory:
        hits = memory.search("nightly", "semantic", k=50)

    assert len(hits) == 16
    assert not any("nightly" in hit.content for hit in hits)


def replace(path: Path, old: bytes, new: bytes) -> None:
    db = sqlite3.connect(path)
    with db:
        for rowid, value in db.execute("SELECT rowid, value FROM events").fetchall():
            if old in value:
                db.execute(
                    "UPDATE events SET value = ? WHERE rowid = ?", (value.replace(old, new), rowid)
                )
    db.close()


def test_reading_by_meaning_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    path = VECTORS.unpack(tmp_path)
    before = contents(tmp_path)

    with SessionStore.open_readonly(path) as store, SessionMemory(store, WordEmbedder()) as memory:
        hits = memory.search("login token", "semantic")
        both = memory.search("login token", "auto")

    assert hits
    assert both
    assert contents(tmp_path) == before

"""Memory search by meaning: what is found, what is kept, and what may go wrong."""

from __future__ import annotations

import math
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from amberlog import (
    EmbedderFailedError,
    EmbeddingError,
    NoVectorsError,
    SessionMemory,
    SessionStore,
)
from support.word_embedder import WordEmbedder, cosine, word_vector

SAID = (
    "rotate the login token",
    "nightly backups of the database",
    "the cache is warm",
    "deploy behind a flag",
    "token of the login page",
    "a queue that grows",
)


def record(store: SessionStore, texts: tuple[str, ...] = SAID, agent: str = "alice") -> None:
    store.append_events(agent, [("user_input", {"content": text}) for text in texts])


def nearest(query: str, texts: tuple[str, ...] = SAID) -> list[str]:
    """A plain model: all texts by their cosine, ties in their order."""
    return sorted(texts, key=lambda text: -cosine(word_vector(query), word_vector(text)))


def test_meaning_finds_what_is_nearest(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, WordEmbedder()) as memory:
            assert memory.index() == len(SAID)

            hits = memory.search("login token", "semantic", k=4)

    assert [hit.content for hit in hits] == nearest("login token")[:4]
    for rank, hit in enumerate(hits):
        expected = cosine(word_vector("login token"), word_vector(hit.content))
        assert hit.score == pytest.approx(expected, abs=1e-6)
        assert (hit.vector_rank, hit.keyword_rank) == (rank, None)


def test_there_are_as_many_hits_as_vectors_at_most(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store, SAID[:3])
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()

            assert len(memory.search("token", "semantic", k=10)) == 3
            assert memory.search("token", "semantic", k=0) == []
            assert memory.search("  ", "semantic") == []


def test_a_filter_takes_no_place_of_a_hit(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        record(store, ("rotate the token of bob",), agent="bob")
        store.append_event("bob", "tool_call", {"name": "bash", "args": {"command": "rotate"}})
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()

            of_bob = memory.search(
                "a queue that grows", "semantic", k=1, agent="bob", kinds=["user"]
            )
            of_bash = memory.search("a queue that grows", "semantic", k=1, tool="bash")
            nobody = memory.search("a queue that grows", "semantic", agent="carol")
            late = memory.search("token", "semantic", since=9e12)

    assert [hit.content for hit in of_bob] == ["rotate the token of bob"]
    assert [hit.tool_name for hit in of_bash] == ["bash"]
    assert nobody == []
    assert late == []


def test_only_what_is_new_is_embedded(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, embedder) as memory:
            memory.index()
            memory.index()
            store.append_event("alice", "user_input", {"content": "one more"})
            memory.index()
    with SessionMemory(tmp_path / "s.kohakutr", embedder) as memory:
        memory.index()
        stats = memory.get_stats()

    assert embedder.asked == [list(SAID), ["one more"]]
    assert stats == {"fts_blocks": 7, "vec_blocks": 7, "has_vectors": True, "dimensions": 8}


def test_progress_is_told_up_to_the_last_block(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store, tuple(f"text number {n}" for n in range(600)))
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index(progress=lambda done, total: told.append((done, total)))

    assert told == [(256, 600), (512, 600), (600, 600)]


def test_models_stand_side_by_side_and_never_mix(tmp_path: Path) -> None:
    turned = WordEmbedder("turned", lambda text: word_vector(text)[::-1])
    narrow = WordEmbedder("words", lambda text: word_vector(text)[:4], dimensions=4)
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        for embedder in (WordEmbedder(), turned, narrow):
            with SessionMemory(store, embedder) as memory:
                memory.index()

        found = {}
        for embedder in (WordEmbedder(), turned, narrow):
            with SessionMemory(store, embedder) as memory:
                found[embedder.model_id, embedder.dimensions] = [
                    (hit.content, hit.score) for hit in memory.search("login token", "semantic")
                ]

    assert turned.asked[0] == narrow.asked[0] == list(SAID)
    assert [text for text, _ in found["words", 8]] == nearest("login token")
    assert dict(found["turned", 8]) == pytest.approx(dict(found["words", 8]), abs=1e-6)
    for text, score in found["words", 4]:
        expected = cosine(word_vector("login token")[:4], word_vector(text)[:4])
        assert score == pytest.approx(expected, abs=1e-6)


def test_a_regenerate_leaves_what_it_replaced(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        store.append_event(
            "alice", "user_input", {"content": "rotate it"}, turn_index=1, branch_id=1
        )
        store.append_event(
            "alice", "text_chunk", {"content": "first answer"}, turn_index=1, branch_id=1
        )
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()
            before = [hit.content for hit in memory.search("first answer", "semantic")]
            store.append_event(
                "alice", "user_input", {"content": "rotate it"}, turn_index=1, branch_id=2
            )
            store.append_event(
                "alice", "text_chunk", {"content": "second answer"}, turn_index=1, branch_id=2
            )
            memory.index()

            live = [hit.content for hit in memory.search("first answer", "semantic")]
            everything = [
                hit.content for hit in memory.search("first answer", "semantic", all_branches=True)
            ]

    assert before[0] == "first answer"
    assert "first answer" not in live
    assert "second answer" in live
    assert everything[0] == "first answer"


def test_a_text_that_was_rewritten_loses_its_vector(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    embedder = WordEmbedder()
    with SessionStore(path) as store:
        record(store)
        with SessionMemory(store, embedder) as memory:
            memory.index()
    rewrite(path, b"rotate the login token", b"rotate the loxxx token")

    with SessionMemory(path, embedder) as memory:
        unseen = [hit.content for hit in memory.search("rotate the login token", "semantic")]
        memory.index()
        after = memory.search("rotate the loxxx token", "semantic", k=1)

    assert sorted(unseen) == sorted(SAID[1:])
    assert [hit.content for hit in after] == ["rotate the loxxx token"]
    assert embedder.asked[2:3] == [["rotate the loxxx token"]]


def rewrite(path: Path, old: bytes, new: bytes) -> None:
    """Another program changes a row: without our checksum, as the peer writes it."""
    with closing(sqlite3.connect(path)) as db, db:
        for rowid, value in db.execute("SELECT rowid, value FROM events").fetchall():
            if old in value:
                db.execute(
                    "UPDATE events SET value = ? WHERE rowid = ?",
                    (value[:-10].replace(old, new), rowid),
                )


def test_a_vector_of_zeros_is_never_found_and_not_asked_for_again(tmp_path: Path) -> None:
    embedder = WordEmbedder(make=lambda text: [0.0] * 8 if text == SAID[0] else word_vector(text))
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, embedder) as memory:
            memory.index()
            memory.index()

            hits = memory.search("login token", "semantic")
            nothing = memory.search(SAID[0], "semantic")

    assert sorted(hit.content for hit in hits) == sorted(SAID[1:])
    assert nothing == []
    assert embedder.asked[0] == list(SAID)
    assert [batch for batch in embedder.asked[1:] if len(batch) > 1] == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_vector_is_refused_and_everything_else_stays(tmp_path: Path, bad: float) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, WordEmbedder(make=lambda _: [bad] * 8)) as memory:
            with pytest.raises(EmbeddingError, match="NaN or an infinity"):
                memory.index()

            assert memory.get_stats()["vec_blocks"] == 0
            assert len(memory.search("token")) == 2
        bundle = store._bundle  # noqa: SLF001  # what is refused below the Python side
        (block, _), *_ = bundle.memory_pending("raw", 2, 10)
        with pytest.raises(ValueError, match="NaN or an infinity"):
            bundle.memory_put_vectors("raw", 2, [block], floats(bad, 1.0))
        with pytest.raises(ValueError, match="are not 1 vectors of 2"):
            bundle.memory_put_vectors("raw", 2, [block], floats(1.0))
        with pytest.raises(ValueError, match="1 to 32768 numbers, not 0"):
            bundle.memory_pending("raw", 0, 10)


def floats(*numbers: float) -> bytes:
    return struct.pack(f"={len(numbers)}f", *numbers)


def test_an_embedder_that_raises_loses_nothing(tmp_path: Path) -> None:
    def refuse(text: str) -> list[float]:
        raise OSError(f"no model for {text}")

    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()
        with SessionMemory(store, WordEmbedder(make=refuse)) as memory:
            store.append_event("alice", "user_input", {"content": "the token again"})
            with pytest.raises(EmbedderFailedError, match="no model for") as raised:
                memory.index()
            with pytest.raises(EmbedderFailedError):
                memory.search("token", "semantic")

            for mode in ("auto", "hybrid"):
                assert len(memory.search("token", mode)) == 3
                assert memory.notice is not None
                assert "no model for token" in memory.notice
            assert len(memory.search("token", "fts")) == 3
            assert memory.notice is None

        assert isinstance(raised.value.__cause__, OSError)
        assert len(store.get_events("alice")) == 7


def test_a_query_of_another_size_is_an_error_or_a_notice(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store, SAID[:3])
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()
        other = WordEmbedder("other", lambda text: word_vector(text)[:5], dimensions=5)
        with SessionMemory(store, other) as memory:
            with pytest.raises(NoVectorsError, match=r"other \(5 numbers\), only of words \(8"):
                memory.search("token", "semantic")

            hits = memory.search("token", "auto")

            assert [hit.content for hit in hits] == [SAID[0]]
            assert memory.notice is not None
            assert "words alone" in memory.notice


def test_auto_goes_by_words_until_there_are_vectors(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store, embedder) as memory:
            before = memory.search("login token")
            asked = len(embedder.asked)
            memory.index()
            after = memory.search("login token")

    assert asked == 0
    assert [(hit.keyword_rank, hit.vector_rank) for hit in before] == [(0, None), (1, None)]
    assert len(after) == len(SAID)
    assert after[0].keyword_rank is not None
    assert after[0].vector_rank is not None


def test_modes_that_need_an_embedder_say_so(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)
        with SessionMemory(store) as memory:
            with pytest.raises(ValueError, match="needs an embedder"):
                memory.search("token", "semantic")

            assert len(memory.search("token", "hybrid")) == 2
            assert not memory.has_vectors


def test_appends_go_on_while_texts_are_embedded(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        record(store)

        def write(text: str) -> list[float]:
            if text == SAID[2]:
                store.append_event("alice", "user_input", {"content": "said meanwhile"})
                with SessionStore.open_readonly(tmp_path / "s.kohakutr") as other:
                    assert len(other.get_events("alice")) == 7
            return word_vector(text)

        with SessionMemory(store, WordEmbedder(make=write)) as memory:
            memory.index()

            assert memory.get_stats()["vec_blocks"] == 7


def test_a_second_store_sees_the_vectors_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    with SessionStore(path) as writer, SessionStore(path) as reader:
        record(writer, SAID[:2])
        with (
            SessionMemory(writer, WordEmbedder()) as one,
            SessionMemory(reader, WordEmbedder()) as other,
        ):
            one.index()
            first = other.search("token", "semantic")
            record(writer, SAID[2:])
            one.index()
            second = other.search("token", "semantic")

    assert (len(first), len(second)) == (2, 6)


def test_what_may_only_be_read_is_searched_by_meaning(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    with SessionStore(path) as store:
        record(store)
        with SessionMemory(store, WordEmbedder()) as memory:
            memory.index()
    rewrite(path, b"nightly backups", b"nightly buckets")

    with SessionStore.open_readonly(path) as store, SessionMemory(store, WordEmbedder()) as memory:
        hits = memory.search("login token", "semantic")

    wanted = [text for text in nearest("login token") if text != SAID[1]]
    assert [hit.content for hit in hits] == wanted


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
from amberlog import SessionMemory
from support.word_embedder import WordEmbedder, word_vector

embedder = WordEmbedder()
def make(text):
    if len(embedder.asked) == 3 and text.endswith(" 600"):
        os.kill(os.getpid(), 9)
    return word_vector(text)
embedder.make = make
SessionMemory(sys.argv[1], embedder).index()
"""


def test_a_kill_between_batches_leaves_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    texts = tuple(f"text number {n}" for n in range(700))
    with SessionStore(path) as store:
        record(store, texts)
    support = str(Path(__file__).parent)

    run = subprocess.run([sys.executable, "-c", KILLED, str(path), support], check=False)

    assert run.returncode == -9
    embedder = WordEmbedder()
    with SessionMemory(path, embedder) as memory:
        assert memory.get_stats()["vec_blocks"] == 512
        memory.index()
        assert memory.get_stats()["vec_blocks"] == 700
    assert embedder.asked == [list(texts[512:])]


def test_events_that_the_log_does_not_hold_lose_their_vectors_with_their_text(
    tmp_path: Path,
) -> None:
    with SessionMemory(tmp_path / "s.kohakutr", WordEmbedder()) as memory:
        memory.index_events("guest", [{"type": "user_input", "content": "rotate the token"}])
        first = memory.search("rotate the token", "semantic")
        memory.index_events("guest", [{"type": "user_input", "content": "nightly backups"}])
        second = memory.search("rotate the token", "semantic")

    assert [hit.content for hit in first] == ["rotate the token"]
    assert [hit.content for hit in second] == ["nightly backups"]
    assert second[0].score == pytest.approx(
        cosine(word_vector("rotate the token"), word_vector("nightly backups")), abs=1e-6
    )

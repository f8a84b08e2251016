"""Memory search and embedders under the peer's names, without the peer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest

from amberlog import SessionStore
from amberlog.compat.kohakuterrarium.session import embedding, memory_async
from amberlog.compat.kohakuterrarium.session.memory import SearchResult, SessionMemory
from amberlog.embedding import StaticEmbedder
from amberlog.embedding.presets import MODEL2VEC_PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """Yields an open session with two agents."""
    with SessionStore(tmp_path / "task.kohakutr") as store:
        for agent in ("alice", "bob"):
            store.append_event(agent, "user_input", {"content": "Fix the auth bug"})
        yield store


def test_vectors_are_arrays_of_numpy() -> None:
    made = embedding.create_embedder({"provider": "static", "dimensions": 64})

    many, one = made.encode(["hello", "world"]), made.encode_one("world")

    wanted = np.asarray(StaticEmbedder(dimensions=64).encode(["hello", "world"]))
    assert (str(many.dtype), many.shape, one.shape) == ("float32", (2, 64), (64,))
    np.testing.assert_array_equal(many, wanted)
    np.testing.assert_array_equal(one, wanted[1])
    many[0] = 0  # the caller's own


@pytest.mark.parametrize("settings", [None, {}, {"provider": "none"}, {"provider": "bogus"}])
def test_what_is_not_configured_or_not_known_is_none(settings: Mapping[str, object]) -> None:
    made = embedding.create_embedder(settings)

    assert isinstance(made, embedding.NullEmbedder)
    assert made.dimensions == 0
    with pytest.raises(RuntimeError, match="No embedding model configured"):
        made.encode(["x"])


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="api_key"):
        embedding.create_embedder({"provider": "api", "api_key": "", "api_key_env": "NO_SUCH_KEY"})


def test_presets_are_listed_by_provider() -> None:
    listed = embedding.list_embedding_presets()

    assert listed["model2vec"]["base"] == {"model": MODEL2VEC_PRESETS["base"]}
    assert set(listed) == {"model2vec", "sentence-transformer"}


def test_a_result_is_made_as_by_the_peer() -> None:
    result = SearchResult(
        content="x", round_num=1, block_num=0, agent="a", block_type="text", score=1.0
    )

    assert (result.ts, result.tool_name, result.block_id, result.age_str) == (0.0, "", "", "")


def test_events_that_no_file_holds_are_searched(tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        {"type": "user_input", "content": "Fix the auth bug", "ts": 1000.0},
        {"type": "text", "content": "Looking at it.", "ts": 1001.0},
    ]
    memory = SessionMemory(str(tmp_path / "empty.kohakutr"))

    counts = [memory.index_events("alice", events) for _ in range(2)]

    found = memory.search("auth bug", mode="fts", k=5)
    memory.close()
    assert counts == [2, 0]
    assert [(hit.content, hit.agent, hit.ts) for hit in found] == [
        ("Fix the auth bug", "alice", 1000.0)
    ]


def test_without_an_embedder_words_answer_without_a_warning(store: SessionStore) -> None:
    live = memory_async.live_memory_for_store(store)

    hits, warning = asyncio.run(
        live.search(
            "auth",
            names=["alice"],
            config=None,
            create_embedder=embedding.create_embedder,
            agent="bob",
        )
    )

    assert [hit.agent for hit in hits] == ["bob"]
    assert warning is None
    assert memory_async.live_memory_for_store(store) is live


def test_a_closed_session_is_not_searched(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "task.kohakutr") as store:
        live = memory_async.live_memory_for_store(store)

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(
            live.search("x", names=[], config=None, create_embedder=embedding.create_embedder)
        )

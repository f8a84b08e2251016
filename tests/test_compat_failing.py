"""A session is searched under the peer's names with an embedder that fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from amberlog.compat.kohakuterrarium.session import embedding, memory_async
from amberlog.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from amberlog.compat.kohakuterrarium.session.embedding import Array


class Failing(embedding.BaseEmbedder):
    """An embedder that raises what nobody expects."""

    dimensions = 4

    def encode(self, texts: list[str]) -> Array:
        """Raises."""
        raise ZeroDivisionError(f"the model cannot take {len(texts)} texts")


def failing(settings: Mapping[str, object] | None) -> embedding.BaseEmbedder:
    """Returns one that fails."""
    del settings
    return Failing()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """Yields an open session with two agents."""
    with SessionStore(tmp_path / "task.kohakutr") as store:
        for agent in ("alice", "bob"):
            store.append_event(agent, "user_input", {"content": "Fix the auth bug"})
        yield store


@pytest.mark.parametrize("mode", ["auto", "hybrid"])
def test_words_answer_where_a_model_raises_anything(store: SessionStore, mode: str) -> None:
    live = memory_async.live_memory_for_store(store)

    hits, warning = asyncio.run(
        live.search("auth", names=["alice"], config={}, create_embedder=failing, mode=mode)
    )

    assert {hit.agent for hit in hits} == {"alice", "bob"}
    assert warning is not None
    assert warning.startswith("Embedding unavailable; using keyword search: ")
    assert "cannot take" in warning


def test_only_meaning_raises_unless_words_may_stand_in(store: SessionStore) -> None:
    live = memory_async.live_memory_for_store(store)

    async def ask(*, semantic_fallback: bool) -> int:
        hits, _ = await live.search(
            "auth",
            names=["alice"],
            config={},
            create_embedder=failing,
            mode="semantic",
            semantic_fallback=semantic_fallback,
        )
        return len(hits)

    with pytest.raises(SessionError, match="cannot take"):
        asyncio.run(ask(semantic_fallback=False))
    assert asyncio.run(ask(semantic_fallback=True)) == 2

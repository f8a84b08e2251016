"""Searching a session while it is recorded, under the peer's contract."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from amberlog._asking import Question, ask
from amberlog.compat.kohakuterrarium.session.embedding import NullEmbedder
from amberlog.compat.kohakuterrarium.session.memory import NamedEmbedder
from amberlog.errors import SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amberlog._asking import Answer
    from amberlog.compat.kohakuterrarium.session.memory import PeersEmbedder
    from amberlog.embedding import MatrixLike
    from amberlog.memory import SearchResult
    from amberlog.session import SessionStore

    Create = Callable[[Mapping[str, object] | None], PeersEmbedder]

EMBEDDING_TIMEOUT = 30.0
"""How many seconds a model may take for one call."""


class LiveSessionMemory:
    """Searches an open store, whatever its agent does meanwhile.

    A model is asked on a thread of its own, one call at a time, and is not waited for longer than
    `EMBEDDING_TIMEOUT`.

    Args:
        store: The open session; closing it closes this.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._embedder: PeersEmbedder | None = None
        self._making = threading.Lock()
        self._is_closed = False
        store.register_companion_closer(self.close)

    def close(self) -> None:
        """Ends it; a search that comes later is refused."""
        self._is_closed = True

    async def search(
        self,
        query: str,
        *,
        names: Sequence[str],
        config: Mapping[str, object] | None,
        create_embedder: Create,
        mode: str = "auto",
        k: int = 10,
        agent: str | None = None,
        semantic_fallback: bool = False,
    ) -> tuple[list[SearchResult], str | None]:
        """Returns the hits, and a warning where keywords had to do.

        Args:
            query: What to look for.
            names: Without effect: what any agent said is indexed.
            config: The settings of the embedder.
            create_embedder: Makes it of them, at the first search that needs it.
            mode: `auto`, `fts`, `semantic` or `hybrid`.
            k: At most this many.
            agent: Only what this agent has.
            semantic_fallback: Whether keywords answer where only meaning was asked for.

        Raises:
            ValueError: There is no such mode, or only meaning was asked for without an embedder.
        """
        del names
        if self._is_closed:
            raise SessionClosedError("the session is closed", path=self._store.path)
        question = Question(query, mode, k, agent)
        answer = await asyncio.to_thread(
            self._answer, question, config, create_embedder, semantic_fallback
        )
        return list(answer.hits), answer.notice

    def _answer(
        self,
        question: Question,
        config: Mapping[str, object] | None,
        create: Create,
        falls_back: bool,  # noqa: FBT001  # a thread is passed no keywords
    ) -> Answer:
        by_words = replace(question, mode="fts")
        if question.mode == "fts":
            return ask(self._store, question)
        try:
            embedder = self._made(config, create)
        except Exception as error:  # what a model raises as it is loaded
            if question.mode == "semantic" and not falls_back:
                raise
            told = str(error) or type(error).__name__
            notice = f"Embedding unavailable; using keyword search: {told}"
            return replace(ask(self._store, by_words), notice=notice)
        if isinstance(embedder, NullEmbedder):
            if question.mode == "semantic" and not falls_back:
                raise ValueError("semantic search needs an embedding model")
            return ask(self._store, by_words)
        return ask(
            self._store,
            question,
            embedder=NamedEmbedder(_Patient(embedder)),
            falls_back=falls_back,
        )

    def _made(self, config: Mapping[str, object] | None, create: Create) -> PeersEmbedder:
        with self._making:
            if self._embedder is None:
                self._embedder = create(config)
            return self._embedder


class _Patient:
    """An embedder that is waited for only so long; one that hangs is not asked a second time."""

    def __init__(self, embedder: PeersEmbedder) -> None:
        self._embedder = embedder
        self.dimensions = embedder.dimensions

    @property
    def model_id(self) -> str:
        return NamedEmbedder(self._embedder).model_id

    def encode(self, texts: list[str]) -> MatrixLike:
        future: Future[MatrixLike] = Future()

        def work() -> None:
            try:
                future.set_result(self._embedder.encode(texts))
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                future.set_exception(error)

        threading.Thread(target=work, name="amberlog-embedding", daemon=True).start()
        return future.result(EMBEDDING_TIMEOUT)


_adding = threading.Lock()


def live_memory_for_store(store: SessionStore) -> LiveSessionMemory:
    """Returns the memory of an open store, the same one each time."""
    with _adding:
        kept = vars(store)
        if "_live_memory" not in kept:
            kept["_live_memory"] = LiveSessionMemory(store)
        return cast("LiveSessionMemory", kept["_live_memory"])


__all__ = ["EMBEDDING_TIMEOUT", "LiveSessionMemory", "live_memory_for_store"]

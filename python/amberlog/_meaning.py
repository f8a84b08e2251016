"""The side of memory search that goes by meaning: an embedder, and the vectors of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog.embedding import encode_checked
from amberlog.errors import EmbedderFailedError, NoVectorsError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amberlog._core import Bundle
    from amberlog._null import NullBundle
    from amberlog.embedding import Embedder, Matrix

TEXTS_AT_ONCE = 256


class Meaning:
    """Vectors of one embedder in one session.

    Args:
        bundle: The session's core.
        embedder: Makes the vectors.
    """

    __slots__ = ("_bundle", "_embedder")

    def __init__(self, bundle: Bundle | NullBundle, embedder: Embedder) -> None:
        self._bundle = bundle
        self._embedder = embedder

    @property
    def model(self) -> str:
        """What tells vectors of this embedder from others.

        The peer's embedders do not say: they go by their class.
        """
        named = getattr(self._embedder, "model_id", None)
        kind = type(self._embedder)
        return str(named) if named else f"{kind.__module__}.{kind.__qualname__}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._embedder.dimensions

    @property
    def has_vectors(self) -> bool:
        """Whether blocks have vectors that a query of this embedder can be compared with."""
        return self._bundle.memory_has_vectors(self.model, self.dimensions)

    @property
    def is_full(self) -> bool:
        """Whether every live block has a vector."""
        counts = self._bundle.memory_stats(*self._size)
        return counts["vectors"] >= counts["blocks"]

    def count(self) -> int:
        """How many live blocks are found by meaning."""
        return self._bundle.memory_stats(self.model, self.dimensions)["vectors"]

    def fill(self, progress: Callable[[int, int], object] | None = None) -> int:
        """Embeds every block that has no vector yet; returns how many.

        Each batch is kept before the next one is embedded, and appends go on meanwhile.

        Raises:
            EmbedderFailedError: The embedder raised; what it made before is kept.
            EmbeddingError: It made what are no vectors.
        """
        total = 0 if progress is None else self._bundle.memory_pending_count(*self._size)
        done = 0
        while pending := self._bundle.memory_pending(*self._size, TEXTS_AT_ONCE):
            vectors = self._encode([text for _, text in pending])
            ids = [block for block, _ in pending]
            self._bundle.memory_put_vectors(*self._size, ids, vectors.data)
            done += len(pending)
            if progress is not None:
                progress(done, max(total, done))
        return done

    def link(self, engine: str) -> None:
        """Makes the graph that a search by an engine would go by level with the vectors."""
        self._bundle.memory_link(*self._size, engine)

    def vector(self, query: str) -> bytes:
        """Returns the vector of a query, as the core takes it.

        Raises:
            EmbedderFailedError: The embedder raised.
            EmbeddingError: It made what is no vector.
        """
        return self._encode([query]).data

    def refuse_others(self) -> None:
        """Raises `NoVectorsError` where the session has vectors, but none of this embedder."""
        others = [
            f"{name or 'an unnamed model'} ({size} numbers)"
            for name, size in self._bundle.memory_models()
        ]
        if others and not self.has_vectors:
            raise NoVectorsError(
                f"no block has a vector of {self.model} ({self.dimensions} numbers), only of "
                f"{', '.join(others)}: index the session with this embedder first"
            )

    @property
    def _size(self) -> tuple[str, int]:
        return self.model, self.dimensions

    def _encode(self, texts: list[str]) -> Matrix:
        try:
            return encode_checked(self._embedder, texts)
        except SessionError:
            raise
        except Exception as error:
            raise EmbedderFailedError(
                f"the embedder {self.model} failed on {len(texts)} texts: {error!r}"
            ) from error


__all__ = ["Meaning"]

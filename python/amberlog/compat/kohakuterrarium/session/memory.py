"""Memory search under the peer's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import amberlog.memory
from amberlog.compat.kohakuterrarium.session.embedding import NullEmbedder
from amberlog.memory import SearchResult

if TYPE_CHECKING:
    import os

    from typing_extensions import Self

    from amberlog.embedding import MatrixLike
    from amberlog.session import SessionStore


class PeersEmbedder(Protocol):
    """What the peer takes for an embedder: it says nothing of its model."""

    dimensions: int

    def encode(self, texts: list[str]) -> MatrixLike:
        """Returns one row of floats for each text."""


class NamedEmbedder:
    """An embedder of the peer's kind, with a name for its vectors.

    Where it has no `model_id` it is named by its class: the peer tells vectors apart by their size.

    Args:
        embedder: The embedder.
    """

    def __init__(self, embedder: PeersEmbedder) -> None:
        self._embedder = embedder

    @property
    def model_id(self) -> str:
        """The name."""
        kind = type(self._embedder)
        named = getattr(self._embedder, "model_id", None)
        return str(named or f"{kind.__module__}.{kind.__qualname__}/{self.dimensions}")

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._embedder.dimensions

    def encode(self, texts: list[str]) -> MatrixLike:
        """Returns one row of floats for each text."""
        return self._embedder.encode(texts)


class SessionMemory(amberlog.memory.SessionMemory):
    """`amberlog.SessionMemory` for embedders of the peer's kind.

    Args:
        db_path: The session's file, or an open store.
        embedder: Makes vectors; a `NullEmbedder`, or None, makes none.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] | SessionStore,
        embedder: PeersEmbedder | None = None,
    ) -> None:
        self._embeds = embedder is not None and not isinstance(embedder, NullEmbedder)
        super().__init__(db_path, NamedEmbedder(embedder) if embedder and self._embeds else None)

    @property
    def has_vectors(self) -> bool:
        """Whether there is an embedder, or vectors from an earlier one."""
        return self._embeds or bool(self.models())

    @property
    def _vec(self) -> Self | None:
        return self if self.has_vectors else None

    def _set_indexed_count(self, agent: str, count: int) -> None:
        # The peer's forced build sets it to 0 before it indexes.
        del agent
        if count == 0:
            self.rebuild()

    def _clear_fts(self, agent: str) -> None:
        """Does nothing: what is made anew is cleared then."""


__all__ = ["SearchResult", "SessionMemory"]

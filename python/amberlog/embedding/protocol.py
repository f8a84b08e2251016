"""What an embedder is, and how one is asked so that nothing wrong gets further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from amberlog.embedding._matrix import Matrix, MatrixLike, as_matrix
from amberlog.errors import NoEmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts. Anything with these three names is one.

    A row of zeros means that a text has nothing to compare: it is not found by meaning.
    """

    @property
    def model_id(self) -> str:
        """What tells the vectors of one model from those of another; the same on every machine."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def encode(self, texts: list[str], /) -> MatrixLike:
        """Returns one row of floats for each text, in their order."""


class NullEmbedder:
    """No embedder: sessions are searched by keyword alone."""

    __slots__ = ()

    @property
    def model_id(self) -> str:
        """`none`."""
        return "none"

    @property
    def dimensions(self) -> int:
        """0."""
        return 0

    def encode(self, texts: list[str]) -> Matrix:
        """Raises `NoEmbedderError`: there is nothing to encode with."""
        raise NoEmbedderError(
            f"cannot embed {len(texts)} texts: no embedder is configured; search by keyword, or "
            "configure a provider, such as `static`"
        )


def encode_checked(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Returns the vectors of texts, from any embedder, as a matrix that is safe to store.

    What the embedder raises, this raises.

    Raises:
        EmbeddingError: The embedder returned another number of vectors than texts, vectors of
            another size than its `dimensions`, NaN, an infinity, or no floats at all.
    """
    given = list(texts)
    if not given:
        return Matrix(b"", 0, embedder.dimensions)
    return as_matrix(embedder.encode(given), rows=len(given), dimensions=embedder.dimensions)


__all__ = ["Embedder", "NullEmbedder", "encode_checked"]

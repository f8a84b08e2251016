"""A lexical fallback with the form of an embedder: texts are alike that share words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog._core import hashed_vectors
from amberlog.embedding._matrix import Matrix
from amberlog.embedding.static import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT = 256
_MOST = 65_536


class HashEmbedder:
    """Vectors of the hashed words of texts, and of parts of these words.

    It knows no meanings: `car` and `automobile` have nothing in common. It is for tests, and for
    callers that need vectors of any kind; `auto` never takes it. Vectors are the same to the bit in
    every process and on every platform.

    Args:
        dimensions: The size of the vectors, 1 to 65536.

    Raises:
        ValueError: `dimensions` is out of these bounds.
    """

    __slots__ = ("_dimensions",)

    def __init__(self, *, dimensions: int = _DEFAULT) -> None:
        if not 1 <= dimensions <= _MOST:
            raise ValueError(f"dimensions: {dimensions} is not between 1 and {_MOST}")
        self._dimensions = dimensions

    @property
    def model_id(self) -> str:
        """The rule by which words are hashed, and the size of the vectors."""
        return f"hash/1/{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row of length 1 for each text, zeros for one without a word."""
        given = listed(texts)
        return Matrix(hashed_vectors(given, self._dimensions), len(given), self._dimensions)

    def __repr__(self) -> str:
        return f"HashEmbedder(dimensions={self._dimensions})"


__all__ = ["HashEmbedder"]

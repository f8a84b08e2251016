"""A matrix of vectors: what embedders return, without numpy and ready for it."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast, runtime_checkable

from amberlog._core import check_vectors, single_precision
from amberlog.errors import EmbeddingError

_TYPE = "<f4" if sys.byteorder == "little" else ">f4"
_SIZE = 4


@runtime_checkable
class SupportsArray(Protocol):
    """What numpy takes for an array, such as a tensor on the CPU."""

    def __array__(self) -> object:
        """Returns itself as an array of numpy."""


MatrixLike: TypeAlias = "Matrix | SupportsArray | Sequence[Sequence[float]]"
"""What an embedder may return: a `Matrix`, an array of numpy, a tensor, or lists of numbers."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Vectors of 32-bit floats, one a row; never changed once made.

    `numpy.asarray(matrix)` looks at the same memory, without a copy. Without numpy, `matrix[2][5]`,
    iteration and `tolist()` read it.

    Attributes:
        data: The numbers, row after row, in the byte order of the machine.
        rows: How many vectors there are.
        dimensions: How many numbers each of them has.
    """

    data: bytes
    rows: int
    dimensions: int

    def __post_init__(self) -> None:
        if len(self.data) != self.rows * self.dimensions * _SIZE:
            raise EmbeddingError(
                f"{len(self.data)} bytes are not {self.rows} vectors of {self.dimensions} floats"
            )

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> memoryview[float]:
        """Returns one vector as a view of floats."""
        place = row + self.rows if row < 0 else row
        if not 0 <= place < self.rows:
            raise IndexError(f"there is no vector {row} among {self.rows}")
        length = self.dimensions * _SIZE
        return memoryview(self.data)[place * length : (place + 1) * length].cast("f")

    def __iter__(self) -> Iterator[memoryview[float]]:
        return (self[row] for row in range(self.rows))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimensions."""
        return self.rows, self.dimensions

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {"version": 3, "shape": self.shape, "typestr": _TYPE, "data": self.data}

    def tolist(self) -> list[list[float]]:
        """Returns the numbers as lists."""
        return [list(row) for row in self]


def as_matrix(value: object, *, rows: int, dimensions: int | None = None) -> Matrix:
    """Returns what an embedder returned as a checked matrix; copies unless it is one already.

    Args:
        value: A `Matrix`; an array of numpy or a tensor, of 16-, 32- or 64-bit floats; or lists.
        rows: How many texts were embedded.
        dimensions: How many numbers each vector must have. None: at least one.

    Raises:
        EmbeddingError: It is none of these, has another shape, or holds NaN or an infinity.
    """
    matrix = value if isinstance(value, Matrix) else _copied(value, dimensions)
    if matrix.rows != rows:
        raise EmbeddingError(f"the embedder made {matrix.rows} vectors of {rows} texts")
    if rows and (matrix.dimensions < 1 or dimensions not in (None, matrix.dimensions)):
        raise EmbeddingError(
            f"the embedder made vectors of {matrix.dimensions} numbers, not of {dimensions or 1}"
        )
    try:
        check_vectors(matrix.data, matrix.dimensions)
    except ValueError as error:
        raise EmbeddingError(str(error)) from error
    return matrix


def _copied(value: object, dimensions: int | None) -> Matrix:
    view = _view(value)
    if view is None and isinstance(value, SupportsArray):
        view = _view(value.__array__())
    if view is not None:
        return _from_view(view, dimensions)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return _from_lists(value, dimensions)
    raise EmbeddingError(f"an embedder returns a matrix of floats, not {type(value).__name__}")


def _view(value: object) -> memoryview | None:
    if isinstance(value, bytes | bytearray):
        return None
    try:
        return memoryview(value)  # type: ignore[arg-type]  # whether it is a buffer is the question
    except (TypeError, ValueError, BufferError):
        # The latter two: an array whose numbers no buffer can describe.
        return None


def _from_view(view: memoryview, dimensions: int | None) -> Matrix:
    # An array without rows may have lost its second dimension on the way.
    empty = view.nbytes == 0 and view.shape is not None and view.shape[0] == 0
    if not empty and view.ndim != 2:  # noqa: PLR2004  # a matrix has rows and columns
        raise EmbeddingError(f"the embedder made an array of {view.ndim} dimensions, not of 2")
    code = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
    if code not in ("e", "f", "d"):
        raise EmbeddingError(f"the embedder made numbers of the form {view.format!r}, not floats")
    if empty:
        return Matrix(b"", 0, dimensions or 0)
    numbers = view.tobytes()
    shape = view.shape or (0, 0)
    return Matrix(numbers if code == "f" else single_precision(numbers, code), *shape)


def _from_lists(value: Iterable[object], dimensions: int | None) -> Matrix:
    try:
        vectors = [array("f", cast(Iterable[float], row)) for row in value]
    except (TypeError, OverflowError) as error:
        raise EmbeddingError(f"an embedder returns rows of floats: {error}") from error
    widths = {len(vector) for vector in vectors}
    if len(widths) > 1:
        raise EmbeddingError(f"the embedder made vectors of {sorted(widths)} numbers")
    width = widths.pop() if widths else dimensions or 0
    numbers = b"".join(vector.tobytes() for vector in vectors)
    return Matrix(numbers, len(vectors), width)


__all__ = ["Matrix", "MatrixLike", "SupportsArray", "as_matrix"]

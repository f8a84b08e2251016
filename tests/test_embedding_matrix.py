"""What embedders return, and what of it is refused."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from amberlog.embedding import (
    Embedder,
    Matrix,
    MatrixLike,
    StaticEmbedder,
    as_matrix,
    encode_checked,
)
from amberlog.errors import EmbeddingError, SessionError

ROWS = [[0.0, 1.5, -2.0], [0.25, 3.0, 1.0]]


class Scripted:
    """An embedder of a user, which returns what it was given."""

    model_id = "scripted"
    dimensions = 3

    def __init__(self, answer: MatrixLike) -> None:
        self.answer = answer

    def encode(self, texts: list[str]) -> MatrixLike:
        del texts
        return self.answer


class Tensor:
    """What a tensor has: no buffer, but a way to become an array."""

    def __array__(self) -> object:
        return np.array(ROWS, dtype=np.float32)


def test_numpy_looks_at_the_same_memory() -> None:
    matrix = StaticEmbedder().encode(["one", "two"])

    array = np.asarray(matrix)

    assert array.dtype == np.float32
    assert array.shape == (2, 256)
    assert np.shares_memory(array, np.frombuffer(matrix.data, np.float32))
    assert array.tolist() == matrix.tolist()


def test_a_matrix_is_read_without_numpy() -> None:
    matrix = as_matrix(ROWS, rows=2)

    assert matrix[1][1] == 3.0
    assert list(matrix[-2]) == ROWS[0]
    assert [list(row) for row in matrix] == ROWS
    assert (len(matrix), matrix.shape) == (2, (2, 3))
    with pytest.raises(IndexError):
        matrix[2]
    with pytest.raises(IndexError):
        matrix[-3]


@pytest.mark.parametrize(
    "value",
    [
        np.array(ROWS, dtype=np.float32),
        np.array(ROWS, dtype=np.float64),
        np.array(ROWS, dtype=np.float16),
        np.array(ROWS, dtype="<f4"),
        np.asfortranarray(ROWS, dtype=np.float32),
        np.array([row * 2 for row in ROWS], dtype=np.float32)[:, :3],
        memoryview(array("f", [*ROWS[0], *ROWS[1]])).cast("B").cast("f", (2, 3)),
        Tensor(),
        ROWS,
        tuple(map(tuple, ROWS)),
        [np.array(row) for row in ROWS],
        [[0, 1.5, -2], [0.25, 3, 1]],
        as_matrix(ROWS, rows=2),
    ],
)
def test_arrays_tensors_and_lists_are_taken(value: MatrixLike) -> None:
    matrix = encode_checked(Scripted(value), ["one", "two"])

    assert isinstance(matrix, Matrix)
    assert matrix.tolist() == ROWS


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e39])
@pytest.mark.parametrize("form", [np.float32, np.float64, list])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_numbers_that_are_not_finite_are_refused_by_their_place(bad: float, form: type) -> None:
    rows = [ROWS[0], [1.0, bad, 2.0]]
    value: MatrixLike = rows if form is list else np.array(rows, dtype=form)

    with pytest.raises(EmbeddingError, match=r"text 1 .* place 1"):
        encode_checked(Scripted(value), ["one", "two"])


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (ROWS[:1], "1 vectors of 2 texts"),
        ([*ROWS, ROWS[0]], "3 vectors of 2 texts"),
        ([], "0 vectors of 2 texts"),
        ([[1.0, 2.0]] * 2, "of 2 numbers, not of 3"),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], r"of \[2, 3\] numbers"),
        ([[], []], "of 0 numbers, not of 3"),
        (np.zeros((2, 4), np.float32), "of 4 numbers, not of 3"),
        (np.zeros(6, np.float32), "1 dimensions, not of 2"),
        (np.zeros((2, 1, 3), np.float32), "3 dimensions, not of 2"),
        (np.zeros((2, 3), np.int8), "not floats"),
        (np.zeros((2, 3), ">f4"), "not floats"),
        (np.zeros((2, 3), np.complex64), "not floats"),
        (np.array([["a"] * 3] * 2, dtype=object), "not floats"),
        (np.zeros((2, 3), "M8[s]"), "rows of floats"),
        ([["a", "b", "c"]] * 2, "rows of floats"),
        ([1.0, 2.0], "rows of floats"),
        ("ab", "not str"),
        (b"abcdabcdabcdabcdabcdabcd", "rows of floats"),
        (None, "not NoneType"),
        (7, "not int"),
    ],
)
def test_what_is_no_matrix_for_the_texts_is_refused(value: MatrixLike, what: str) -> None:
    with pytest.raises(EmbeddingError, match=what) as caught:
        encode_checked(Scripted(value), ["one", "two"])

    assert isinstance(caught.value, SessionError)
    assert isinstance(caught.value, ValueError)


def test_what_an_embedder_raises_is_raised() -> None:
    class Broken(Scripted):
        def encode(self, texts: list[str]) -> MatrixLike:
            raise OSError(f"no model for {len(texts)} texts")

    with pytest.raises(OSError, match="no model for 1 texts"):
        encode_checked(Broken(ROWS), ["one"])


def test_no_texts_do_not_reach_the_embedder() -> None:
    matrix = encode_checked(Scripted("never looked at"), [])  # type: ignore[arg-type]  # on purpose

    assert matrix.shape == (0, 3)


def test_anything_with_the_three_names_is_an_embedder() -> None:
    assert isinstance(Scripted(ROWS), Embedder)
    assert isinstance(StaticEmbedder(), Embedder)
    assert not isinstance(object(), Embedder)


def test_bytes_of_another_size_make_no_matrix() -> None:
    with pytest.raises(EmbeddingError):
        Matrix(b"1234567", 1, 2)

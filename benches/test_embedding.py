"""Embedding of short texts: the built-in table, the lexical one, and numpy on the same table.

numpy is given the word pieces, so that it has the sums alone to make; `model2vec` reads text, with
the tokenizer of its library, from a model that is the same table.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from struct import unpack_from
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest

import amberlog.embedding
from amberlog.embedding import HashEmbedder, StaticEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.conftest import Benchmark

pytestmark = pytest.mark.filterwarnings("default")

Encode: TypeAlias = "Callable[[list[str]], object]"

COUNTS = {"smoke": 50, "quick": 5_000, "full": 20_000, "long": 100_000}
COUNT = COUNTS[os.environ.get("AMBERLOG_BENCH", "full")]
WORDS_A_TEXT = 12
ROUNDS = 5
TABLE = Path(amberlog.embedding.__file__).parent / "static.table"
WORDS = """
    the a to of and in is it for on with that please can you we should fix run test build deploy
    database migration billing service failed error timeout retry config token session store
    index search query user login page file path branch commit merge review python rust typing
    snake_case refactored kubernetes observability don't 2026-11-30 v1.2.3
"""


def short_texts(count: int) -> list[str]:
    """Returns sentences of a dozen words, the same each time."""
    draw = random.Random(20_26)
    words = WORDS.split()
    return [" ".join(draw.choices(words, k=WORDS_A_TEXT)) + "." for _ in range(count)]


def ours(texts: list[str]) -> Encode:
    del texts
    return StaticEmbedder().encode


def hashed(texts: list[str]) -> Encode:
    del texts
    return HashEmbedder().encode


def summed(texts: list[str]) -> Encode:
    """Means by numpy, of word pieces that were found before the clock runs."""
    vectors = table()
    static = StaticEmbedder()
    pieces = [np.array(static.pieces(text)) for text in texts]

    def encode(texts: list[str]) -> object:
        del texts
        means = np.stack([vectors[row].mean(axis=0) for row in pieces])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    return encode


def model2vec(texts: list[str]) -> Encode:
    del texts
    library = pytest.importorskip("model2vec")
    source = os.environ.get("AMBERLOG_TOKENIZER")
    if source is None:
        pytest.skip("AMBERLOG_TOKENIZER names no tokenizer.json of all-MiniLM-L6-v2")
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(source)
    model = library.StaticModel(table(), tokenizer, normalize=True)

    def encode(texts: list[str]) -> object:
        return model.encode(texts, use_multiprocessing=False)

    return encode


def table() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    packed = TABLE.read_bytes()
    count, width, name, lines = unpack_from("<4I", packed, 8)
    at = 24 + name + lines
    scales = np.frombuffer(packed, "<f4", count, at)
    rows = np.frombuffer(packed, np.int8, count * width, at + 4 * count).reshape(count, width)
    vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = rows * scales[:, None]
    return vectors


@pytest.mark.parametrize("make", [ours, hashed, summed, model2vec])
def test_embed_short_texts(benchmark: Benchmark, make: Callable[[list[str]], Encode]) -> None:
    texts = short_texts(COUNT)
    encode = make(texts)
    benchmark.group = f"embed {COUNT} texts of {WORDS_A_TEXT} words"

    benchmark.pedantic(lambda: encode(texts), setup=None, rounds=ROUNDS)


@pytest.mark.parametrize("make", [ours])
def test_embed_one_query(benchmark: Benchmark, make: Callable[[list[str]], Encode]) -> None:
    encode = make([])
    benchmark.group = "embed one query"

    benchmark.pedantic(
        lambda: encode(["why did the billing migration fail"]), setup=None, rounds=100
    )

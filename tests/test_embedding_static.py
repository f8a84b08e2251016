"""The built-in embedder and the lexical one, against other programs and a plain computation."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from struct import pack, unpack_from

import numpy as np
import pytest

import amberlog.embedding
from amberlog.embedding import HashEmbedder, Matrix, StaticEmbedder
from amberlog.errors import SessionDamagedError, SessionNotFoundError

FIXTURE = json.loads(
    (Path(__file__).parent / "fixtures/embedding/pieces.json").read_text(encoding="utf-8")
)
TABLE = Path(amberlog.embedding.__file__).parent / "static.table"
HARD = (
    "",
    " \n\t",
    "abc\ud83d",
    "\udc00",
    "abc\0hidden tail",
    "\U0001f680",
    "明天下午三点开项目评审会议",
    "naïve café",
    "x" * 100_000,
    "word " * 100_000,
    "\u0301" * 1000,
)


@pytest.fixture(scope="module", name="static")
def built_in() -> StaticEmbedder:
    """Returns the built-in embedder."""
    return StaticEmbedder()


def likeness(matrix: Matrix, one: int, other: int) -> float:
    return sum(x * y for x, y in zip(matrix[one], matrix[other], strict=True))


class PlainTable:
    """The table, read as its format says, in numpy alone."""

    def __init__(self, packed: bytes) -> None:
        count, width, name, lines = unpack_from("<4I", packed, 8)
        at = 24 + name + lines
        self.scales = np.frombuffer(packed, "<f4", count, at)
        self.rows = np.frombuffer(packed, np.int8, count * width, at + 4 * count).reshape(count, -1)

    def vector(self, pieces: list[int]) -> list[float]:
        whole = self.rows[pieces].astype(np.float64) * self.scales[pieces, None].astype(np.float64)
        mean = whole.mean(axis=0) if pieces else np.zeros(self.rows.shape[1])
        length = np.linalg.norm(mean)
        vector: list[float] = (mean / length if length else mean).tolist()
        return vector


@pytest.mark.parametrize(("text", "ids"), FIXTURE["texts"], ids=range(len(FIXTURE["texts"])))
def test_word_pieces_are_those_of_the_reference(
    static: StaticEmbedder, text: str, ids: list[int]
) -> None:
    found = static.pieces(text)

    assert found == ids


def test_every_character_is_cut_and_folded_as_by_the_reference(static: StaticEmbedder) -> None:
    digests = []
    for begin in range(0, 0x110000, 4096):
        digest = hashlib.sha256()
        for code in range(begin, begin + 4096):
            if not 0xD800 <= code < 0xE000:
                found = static.pieces(f"x{chr(code)}y")
                digest.update(pack(f"<{len(found)}HH", *found, 0xFFFF))
        digests.append(digest.hexdigest()[:16])

    assert digests == FIXTURE["characters"]


def test_vectors_are_the_mean_of_the_rows_of_the_table(static: StaticEmbedder) -> None:
    plain = PlainTable(TABLE.read_bytes())
    texts = [text for text, _ in FIXTURE["texts"]]
    expected = [plain.vector(ids) for _, ids in FIXTURE["texts"]]

    matrix = static.encode(texts)

    assert np.allclose(np.asarray(matrix), expected, atol=2e-6)


def test_texts_of_like_meaning_are_closer_than_others(static: StaticEmbedder) -> None:
    texts = ["the car broke down", "our automobile needs repair", "a recipe for apple pie"]

    matrix = static.encode(texts)

    assert likeness(matrix, 0, 1) > likeness(matrix, 0, 2) + 0.2


@pytest.mark.parametrize("embedder", [StaticEmbedder(), HashEmbedder()], ids=["static", "hash"])
def test_hard_texts_have_vectors_of_length_one_or_zeros(
    embedder: StaticEmbedder | HashEmbedder,
) -> None:
    matrix = embedder.encode(HARD)

    lengths = [math.sqrt(sum(x * x for x in row)) for row in matrix]
    assert matrix.shape == (len(HARD), 256)
    assert all(length == 0 or abs(length - 1) < 1e-5 for length in lengths)
    assert lengths[:2] == [0, 0]
    assert min(lengths[2], lengths[4], lengths[6], lengths[7], lengths[9]) > 0


def test_a_lone_surrogate_is_passed_over(static: StaticEmbedder) -> None:
    matrix = static.encode(["abc\ud83d", "abc"])

    assert matrix[0] == matrix[1]


def test_texts_are_embedded_alike_alone_and_together(static: StaticEmbedder) -> None:
    texts = [text for text, _ in FIXTURE["texts"]]

    together = static.encode(texts)

    assert [static.encode([text]).data for text in texts] == [row.tobytes() for row in together]


def test_a_shorter_vector_is_the_beginning_of_the_whole_one(static: StaticEmbedder) -> None:
    short = StaticEmbedder(dimensions=64)
    head = np.asarray(static.encode(["the login page"]))[:, :64]

    matrix = np.asarray(short.encode(["the login page"]))

    assert short.dimensions == 64
    assert short.model_id != static.model_id
    assert np.allclose(matrix, head / np.linalg.norm(head), atol=1e-6)


@pytest.mark.parametrize("dimensions", [0, -1, 257])
def test_a_size_that_the_table_does_not_have_is_refused(dimensions: int) -> None:
    with pytest.raises(ValueError, match="dimensions"):
        StaticEmbedder(dimensions=dimensions)


def test_no_texts_are_a_matrix_without_rows(static: StaticEmbedder) -> None:
    matrix = static.encode([])

    assert matrix.shape == (0, 256)
    assert matrix.tolist() == []
    assert np.asarray(matrix).shape == (0, 256)


@pytest.mark.parametrize("texts", ["one text", [b"bytes"], [1], ["a", None]])
def test_what_is_no_list_of_texts_is_refused(static: StaticEmbedder, texts: list[str]) -> None:
    with pytest.raises(TypeError, match=r"texts"):
        static.encode(texts)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "t.table"
    packed = bytearray(TABLE.read_bytes())
    packed[len(packed) // 2] ^= 1
    damaged.write_bytes(packed)

    with pytest.raises(SessionDamagedError, match="checksum") as caught:
        StaticEmbedder(table=damaged)

    assert caught.value.path == str(damaged)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        StaticEmbedder(table=tmp_path / "none.table")


# What these rules made when they were written: on another platform, or by another version, the
# vectors that lie in sessions would no longer be comparable.
DIGESTS = {
    "static": "static/minilm-l6-v2.1@bcf9093d/256 f0325b7ca4a21209",
    "hash": "hash/1/256 d3413206b27ca08b",
}
SCRIPT = """
import hashlib, sys
from amberlog.embedding import create_embedder
embedder = create_embedder({"provider": sys.argv[1]})
texts = ["Migrate the billing database.", "naïve café", "明天 snake_case CamelCase", "", "don't!"]
print(embedder.model_id, hashlib.sha256(embedder.encode(texts).data).hexdigest()[:16])
"""


@pytest.mark.skipif(sys.byteorder == "big", reason="the digest is of little-endian numbers")
@pytest.mark.parametrize("provider", ["static", "hash"])
def test_vectors_are_the_same_in_every_process_and_on_every_platform(provider: str) -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, provider],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert outputs == {DIGESTS[provider]}


def test_threads_share_one_table(static: StaticEmbedder) -> None:
    texts = [text for text, _ in FIXTURE["texts"]]
    expected = static.encode(texts)
    made: list[Matrix] = []

    threads = [
        threading.Thread(target=lambda: made.append(StaticEmbedder().encode(texts)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == [expected] * 4


def test_the_lexical_embedder_knows_words_and_no_meanings() -> None:
    texts = ["migrate the database", "Database migrations", "a car", "an automobile"]

    matrix = HashEmbedder(dimensions=4096).encode(texts)

    assert likeness(matrix, 0, 1) > 0.5
    assert abs(likeness(matrix, 2, 3)) < 0.2


@pytest.mark.parametrize("dimensions", [0, -5, 65_537])
def test_a_lexical_vector_has_a_sensible_size(dimensions: int) -> None:
    with pytest.raises(ValueError, match="dimensions"):
        HashEmbedder(dimensions=dimensions)

"""From the vectors of word pieces to the table that ships: fewer dimensions, weights, bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from collections.abc import Sequence

Doubles: TypeAlias = NDArray[np.float64]

MAGIC = b"AMBRVEC1"
LEVELS = 127
# How fast a piece loses weight as it gets common: Arora et al., 2017, call it a.
COMMON = 3e-4


class Table(NamedTuple):
    """Pieces, and for each a row of levels and the scale that makes numbers of them."""

    name: str
    pieces: Sequence[str]
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The numbers that the levels stand for."""
        out: NDArray[np.float32] = self.rows.astype(np.float32) * self.scales[:, None]
        return out

    def packed(self) -> bytes:
        """Returns the bytes of the file, as `rust/core/src/recall/embed/table.rs` describes it."""
        name, lines = self.name.encode(), "\n".join(self.pieces).encode()
        sizes = (len(self.pieces), self.rows.shape[1], len(name), len(lines))
        head = MAGIC + struct.pack("<4I", *sizes) + name + lines
        body = head + self.scales.astype("<f4").tobytes() + self.rows.tobytes()
        return body + struct.pack("<Q", xxh3_64_intdigest(body))

    @classmethod
    def unpacked(cls, packed: bytes) -> Table:
        """Reads what `packed` wrote."""
        count, width, name, lines = struct.unpack_from("<4I", packed, len(MAGIC))
        at = len(MAGIC) + 16
        text = packed[at : at + name + lines]
        at += name + lines
        scales = np.frombuffer(packed, "<f4", count, at).astype(np.float32)
        rows = np.frombuffer(packed, np.int8, count * width, at + 4 * count).reshape(count, width)
        return cls(text[:name].decode(), text[name:].decode().split("\n"), scales, rows)


def distilled(
    name: str, pieces: Sequence[str], vectors: NDArray[np.float32], dimensions: int
) -> Table:
    """Returns the table of pieces that are ordered as BERT's are: common ones first."""
    known = np.array([not is_mark(piece) for piece in pieces])
    whole = vectors[known].astype(np.float64)
    reduced = principal(whole, dimensions) * weights(len(whole))[:, None]
    scales = np.zeros(len(pieces))
    rows = np.zeros((len(pieces), dimensions), dtype=np.int8)
    largest = np.abs(reduced).max(axis=1) / LEVELS
    scales[known] = largest
    rows[known] = np.rint(reduced / largest[:, None]).astype(np.int8)
    return Table(name, pieces, scales.astype(np.float32), rows)


def is_mark(piece: str) -> bool:
    """Tells whether a piece stands for no text: `[CLS]`, `[unused7]`."""
    return len(piece) > 1 and piece.startswith("[") and piece.endswith("]")


def principal(vectors: Doubles, dimensions: int) -> Doubles:
    """Returns the components along which the vectors differ most, the first one most of all."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dimensions]
    # Which way an axis points is arbitrary, but must be the same each time.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dimensions)])
    out: Doubles = centred @ axes
    return out


def weights(count: int) -> Doubles:
    """Returns the weight of each piece by its rank, as if words followed Zipf's law."""
    share = 1 / np.arange(2, count + 2)
    share /= share.sum()
    out: Doubles = COMMON / (COMMON + share)
    return out

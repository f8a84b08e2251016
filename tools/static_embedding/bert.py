"""The encoder of all-MiniLM-L6-v2 in numpy: enough of it to run each word piece through once."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

Floats: TypeAlias = NDArray[np.float32]

CLS, SEP = 101, 102
HEADS = 12
EPSILON = 1e-12
BATCH = 256


class Encoder(NamedTuple):
    """The weights by their names, and the number of layers."""

    weights: Mapping[str, Floats]
    layers: int

    @classmethod
    def of(cls, safetensors: bytes, layers: int) -> Encoder:
        """Reads weights: eight bytes of length, a JSON header, the numbers."""
        (length,) = struct.unpack_from("<Q", safetensors)
        header = json.loads(safetensors[8 : 8 + length])
        weights = {}
        for name, entry in header.items():
            if entry.get("dtype") == "F32":
                begin, end = (8 + length + at for at in entry["data_offsets"])
                numbers = np.frombuffer(safetensors[begin:end], dtype="<f4")
                weights[name] = numbers.reshape(entry["shape"]).astype(np.float32)
        return cls(weights, layers)

    def pieces(self, count: int) -> Floats:
        """Returns the mean of the last layer over `[CLS] piece [SEP]`, for each piece."""
        rows = []
        for begin in range(0, count, BATCH):
            piece = np.arange(begin, min(begin + BATCH, count))
            ids = np.stack([np.full_like(piece, CLS), piece, np.full_like(piece, SEP)], axis=1)
            rows.append(self._forward(ids).mean(axis=1))
        return np.concatenate(rows).astype(np.float32)

    def _forward(self, ids: NDArray[np.int64]) -> Floats:
        count, length = ids.shape
        words = self.weights["embeddings.word_embeddings.weight"]
        places = self.weights["embeddings.position_embeddings.weight"]
        kinds = self.weights["embeddings.token_type_embeddings.weight"]
        x = (words[ids] + places[:length] + kinds[0]).reshape(count * length, -1)
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}."
            seen = self._attention(x, name + "attention.self.", (count, length))
            seen = self._linear(seen, name + "attention.output.dense")
            x = self._norm(seen + x, name + "attention.output.LayerNorm")
            wide = gelu(self._linear(x, name + "intermediate.dense"))
            x = self._norm(self._linear(wide, name + "output.dense") + x, name + "output.LayerNorm")
        return x.reshape(count, length, -1)

    def _attention(self, x: Floats, name: str, shape: tuple[int, int]) -> Floats:
        width = x.shape[1] // HEADS

        def heads(part: str) -> Floats:
            whole: Floats = self._linear(x, name + part).reshape(*shape, HEADS, width)
            turned: Floats = whole.transpose(0, 2, 1, 3)
            return turned

        query, key, value = (heads(part) for part in ("query", "key", "value"))
        scores = np.matmul(query, key.transpose(0, 1, 3, 2)) / np.float32(math.sqrt(width))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen: Floats = np.matmul(scores, value).transpose(0, 2, 1, 3).reshape(x.shape)
        return seen

    def _linear(self, x: Floats, name: str) -> Floats:
        out: Floats = x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]
        return out

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        out: Floats = centred / spread * self.weights[name + ".weight"]
        out += self.weights[name + ".bias"]
        return out


def gelu(x: Floats) -> Floats:
    """Returns x times the share of a normal distribution below it."""
    out: Floats = x * np.float32(0.5) * (1 + erf(x * np.float32(math.sqrt(0.5))))
    return out


def erf(x: Floats) -> Floats:
    """Returns the error function to 1.5e-7: numpy has none (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    powers = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        powers = powers * t + np.float32(factor)
    out: Floats = np.copysign(1 - powers * t * np.exp(-size * size), x).astype(np.float32)
    return out

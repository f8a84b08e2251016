"""Embedders for tests: the one that the fixture `vectors` was made with, and one that counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WORD_DIMENSIONS = 8


def word_vector(text: str) -> list[float]:
    """The vector of a text as the fixtures' README describes it."""
    vector = [0.0] * WORD_DIMENSIONS
    for word in text.lower().split():
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % WORD_DIMENSIONS] += 1 + digest[1] / 255
    return vector if any(vector) else [1.0] * WORD_DIMENSIONS


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors; 0 where one has no direction."""
    product = sum(a * b for a, b in zip(one, other, strict=True))
    length = sum(a * a for a in one) ** 0.5 * sum(b * b for b in other) ** 0.5
    return product / length if length else 0.0


@dataclass(slots=True)
class WordEmbedder:
    """Embeds by a function of one text; keeps what it was asked for.

    Attributes:
        model_id: Its name.
        make: The vector of a text; may raise.
        dimensions: How many numbers a vector has.
        asked: Every batch of texts.
    """

    model_id: str = "words"
    make: Callable[[str], list[float]] = word_vector
    dimensions: int = WORD_DIMENSIONS
    asked: list[list[str]] = field(default_factory=list)

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        self.asked.append(list(texts))
        return [self.make(text) for text in texts]

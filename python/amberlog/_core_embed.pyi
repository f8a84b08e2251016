"""The part of the compiled core that makes vectors of texts."""

from typing import final

@final
class PieceTable:
    """A table of word pieces and their vectors. Safe to share between threads."""

    @staticmethod
    def load(path: str) -> PieceTable:
        """Reads a table and checks it against its checksum."""

    @property
    def id(self) -> str:
        """The name of the table and the beginning of its checksum."""

    @property
    def dimensions(self) -> int:
        """How many numbers a whole vector has."""

    def pieces(self, text: str) -> list[int]:
        """Returns the numbers of the word pieces of a text."""

    def encode(self, texts: list[str], dimensions: int) -> bytes:
        """Returns the vectors of texts: 32-bit floats in the byte order of the machine."""

def hashed_vectors(texts: list[str], dimensions: int) -> bytes:
    """Returns the lexical vectors of texts: 32-bit floats in the byte order of the machine."""

def single_precision(numbers: bytes, code: str) -> bytes:
    """Returns floats of `e`, `f` or `d`, as `struct` has them, as 32-bit floats."""

def check_vectors(numbers: bytes, dimensions: int) -> None:
    """Raises `ValueError` where vectors hold NaN or an infinity."""

"""The embedder that is built in: a table of word pieces, read without a model or a network."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from amberlog._core import PieceTable
from amberlog.embedding._matrix import Matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

_TABLE = Path(__file__).parent / "static.table"
_tables: dict[Path, PieceTable] = {}
_loading = Lock()


class StaticEmbedder:
    """Vectors of texts as the mean of the vectors of their word pieces.

    The table was distilled from all-MiniLM-L6-v2. It knows English best, other languages of the
    Latin alphabet a little, and of scripts without spaces single characters. The order of words is
    not part of a vector. A text without a known piece (an emoji, say) has a row of zeros.

    The first one of a process reads the table, 8 MB, from the package; the others share it. Vectors
    are the same to the bit on every platform. Safe to share between threads: encoding releases the
    interpreter.

    Args:
        dimensions: The size of the vectors, up to that of the table (256). The first numbers say
            the most, so a shorter vector is a beginning of the whole one.
        table: Another table, made by `tools/static_embedding`.

    Raises:
        ValueError: `dimensions` is less than 1 or more than the table has.
        SessionDamagedError: The file is no table, or not as it was written.
    """

    __slots__ = ("_dimensions", "_table")

    def __init__(self, *, dimensions: int | None = None, table: Path | None = None) -> None:
        self._table = _shared(table or _TABLE)
        whole = self._table.dimensions
        if dimensions is not None and not 1 <= dimensions <= whole:
            raise ValueError(f"dimensions: {dimensions} is not between 1 and {whole}")
        self._dimensions = dimensions or whole

    @property
    def model_id(self) -> str:
        """The name of the table, a part of its checksum, and the size of the vectors."""
        return f"static/{self._table.id}/{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row of length 1 for each text; linear in the texts, which are never cut."""
        given = listed(texts)
        return Matrix(self._table.encode(given, self._dimensions), len(given), self._dimensions)

    def pieces(self, text: str) -> list[int]:
        """Returns the word pieces of a text, by the numbers of BERT's uncased models."""
        return self._table.pieces(text)

    def __repr__(self) -> str:
        return f"StaticEmbedder({self.model_id!r})"


def listed(texts: Sequence[str]) -> list[str]:
    """Returns texts as a list; a single text is not meant as its characters."""
    if isinstance(texts, str):
        raise TypeError("texts is a list of texts, not one text")
    return list(texts)


def _shared(path: Path) -> PieceTable:
    with _loading:
        if path not in _tables:
            _tables[path] = PieceTable.load(str(path))
        return _tables[path]


__all__ = ["StaticEmbedder"]

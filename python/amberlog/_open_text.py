"""Text that streams in and is not an event yet."""

from __future__ import annotations

import time

MIRROR_CHARS = 512
"""Characters that may come in before the text so far is stored."""
MIRROR_S = 0.5
"""Seconds after which the next piece has the text so far stored."""


class OpenText:
    """Collects the pieces of one text, and says when a copy of it is due.

    Whoever uses it stores the copy. What came in since the last one is lost with the process.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unsaved = 0
        self._saved_at = time.monotonic()
        self.is_mirrored = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        """All that came in since the last `clear`."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add(self, piece: str) -> bool:
        """Takes a piece and returns whether a copy of the text is due."""
        self._pieces.append(piece)
        self._unsaved += len(piece)
        late = time.monotonic() - self._saved_at >= MIRROR_S
        return late or self._unsaved >= MIRROR_CHARS

    def mirrored(self) -> None:
        """Notes that a copy of the text is stored."""
        self._unsaved = 0
        self._saved_at = time.monotonic()
        self.is_mirrored = True

    def clear(self) -> None:
        """Begins the next text."""
        self._pieces = []
        self._unsaved = 0
        self._saved_at = time.monotonic()
        self.is_mirrored = False

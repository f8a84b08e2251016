"""Chat sessions as rows of one SQLite database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._core import TranscriptStore
from amberlog.chat._conversations import (
    DEFAULT_CACHE_MAXSIZE,
    DEFAULT_LOCK_TIMEOUT,
    DEFAULT_MAX_MESSAGES,
    ChatDurability,
)
from amberlog.chat.store import DefaultSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from amberlog.chat._lenient import PersistFailure
    from amberlog.chat.protocols import SessionMirrorProtocol

IN_MEMORY = ":memory:"


class SqliteTranscriptStore(DefaultSessionStore):
    """Sessions of messages, each a row of one database that several processes may write.

    The table is that of `praisonaiagents`, whose processes may use it meanwhile. What is read,
    changed and written by a call is one transaction. No file is made for a session; a new database
    gets the JSON sessions beside it, all at once, which stay as they are.

    Listing, routes and agents are answered from indexes; `search` reads all sessions. The order of
    every list is that of the last write, the newest first.

    Args:
        session_dir: Where the database is, and where sessions are taken over from; `None` is
            `amberlog.config.chat_session_dir()`.
        db_path: The database, `~` allowed; `None` is `sessions.db` in `session_dir`, and
            `":memory:"` one that is gone with the store.
        max_messages: As in `DefaultSessionStore`, like all that follow.
        lock_timeout: Seconds that a write waits for other writers.
        retention: What happens to messages beyond the window.
        active_window: How many messages the window has.
        mirror: A second place for messages.
        cache_maxsize: How many sessions are kept in memory at most.
        durability: `power` or `process`.
        strict: Whether damage and failed writes raise. Otherwise a failed write returns `False`;
            there are no files in which a message could be spilled for it.
        on_failure: What is told of each failure when the store is not strict.

    Raises:
        SessionDamagedError: The file is no database.
        SessionWriteError: The database cannot be made.
    """

    def __init__(  # noqa: PLR0913  # the peer's signature, and what is ours by name
        self,
        session_dir: str | None = None,
        db_path: str | None = None,
        max_messages: int = DEFAULT_MAX_MESSAGES,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        retention: str | None = None,
        active_window: int | None = None,
        mirror: SessionMirrorProtocol | None = None,
        cache_maxsize: int = DEFAULT_CACHE_MAXSIZE,
        *,
        durability: ChatDurability = "power",
        strict: bool = True,
        on_failure: Callable[[PersistFailure], None] | None = None,
    ) -> None:
        self.db_path = db_path or ""
        super().__init__(
            session_dir,
            max_messages,
            lock_timeout,
            retention,
            active_window,
            mirror,
            cache_maxsize,
            durability=durability,
            strict=strict,
            on_failure=on_failure,
        )

    def verify(self) -> list[str]:
        """Returns what SQLite finds wrong with the database, one line a fault."""
        return self._transcripts.faults()

    def _opened(self, directory: Path, *, sync: bool, kept: int) -> TranscriptStore:
        if self.db_path != IN_MEMORY:
            chosen = Path(self.db_path).expanduser() if self.db_path else directory / "sessions.db"
            self.db_path = str(chosen)
        self._transcripts = TranscriptStore(
            Path(self.db_path), directory, sync=sync, kept=kept, now=time.time()
        )
        return self._transcripts


__all__ = ["SqliteTranscriptStore"]

"""Which chat sessions a command means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import config
from amberlog.chat import SqliteSessionStore, SqliteTranscriptStore
from amberlog.errors import SessionNotFoundError

if TYPE_CHECKING:
    from amberlog.chat import DefaultSessionStore


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of JSON sessions, or the database of a transcript store.

    Attributes:
        directory: The directory; the configured one when it is None.
        database: The database, which counts where both are given.
    """

    directory: Path | None
    database: Path | None

    def existing(self) -> DefaultSessionStore:
        """Returns the store; nothing is made where there is none.

        Raises:
            SessionNotFoundError: There is no such directory or database.
        """
        if self.database is not None:
            path = self.database.expanduser()
            if not path.is_file():
                raise SessionNotFoundError(f"there is no database `{path}`", path=str(path))
        elif not self.home().is_dir():
            home = str(self.home())
            raise SessionNotFoundError(f"there is no directory `{home}`", path=home)
        return self.made()

    def made(self) -> DefaultSessionStore:
        """Returns the store, which is made where it is missing."""
        if self.database is not None:
            path = self.database.expanduser()
            return SqliteTranscriptStore(str(path.parent), str(path))
        return SqliteSessionStore(str(self.home()))

    def home(self) -> Path:
        """Returns the directory."""
        return config.chat_session_dir() if self.directory is None else self.directory.expanduser()


def known(store: DefaultSessionStore, session_id: str) -> str:
    """Returns an id that there is a session of.

    Raises:
        SessionNotFoundError: There is none.
    """
    if not session_id or not store.session_exists(session_id):
        raise SessionNotFoundError(f"there is no chat session `{session_id}`")
    return session_id


__all__ = ["Place", "known"]

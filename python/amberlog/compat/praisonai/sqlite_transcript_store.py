"""The store of one database by the contract of the peer."""

from __future__ import annotations

import amberlog.chat
from amberlog.compat.praisonai._stores import DefaultSessionStore


class SqliteTranscriptStore(DefaultSessionStore, amberlog.chat.SqliteTranscriptStore):
    """`amberlog.chat.SqliteTranscriptStore` by the contract of the peer.

    Args:
        session_dir: Where the database is; `None` is the peer's directory of sessions.
        db_path: The database; `None` is `sessions.db` in the directory.
        **kwargs: What else `DefaultSessionStore` takes.
    """

    def __init__(
        self, session_dir: str | None = None, db_path: str | None = None, **kwargs: object
    ) -> None:
        super().__init__(session_dir, db_path=db_path, **kwargs)  # type: ignore[arg-type]

    def _writes_itself(self) -> bool:
        # There are no files that another could write.
        return True


__all__ = ["SqliteTranscriptStore"]

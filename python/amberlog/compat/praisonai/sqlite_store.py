"""The store with an index by the contract of the peer."""

from __future__ import annotations

import amberlog.chat
from amberlog.compat.praisonai._stores import DefaultSessionStore


class SqliteSessionStore(DefaultSessionStore, amberlog.chat.SqliteSessionStore):
    """`amberlog.chat.SqliteSessionStore` by the contract of the peer.

    Args:
        session_dir: The directory; `None` is the peer's.
        db_path: The index; `None` is `sessions_index.db` in the directory.
        **kwargs: What else `DefaultSessionStore` takes.
    """

    def __init__(
        self, session_dir: str | None = None, db_path: str | None = None, **kwargs: object
    ) -> None:
        super().__init__(session_dir, db_path=db_path, **kwargs)  # type: ignore[arg-type]


__all__ = ["SqliteSessionStore"]

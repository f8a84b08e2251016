"""The store with an index by the contract of the peer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import amberlog.chat
from amberlog.compat.praisonai._stores import DefaultSessionStore
from amberlog.config import chat_index
from amberlog.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class IndexCursor:
    """The rows of a statement, as a cursor hands them out."""

    def __init__(self, rows: list[list[object]]) -> None:
        self._rows = iter([tuple(row) for row in rows])

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return self._rows

    def fetchone(self) -> tuple[object, ...] | None:
        """Returns the next row; `None` behind the last."""
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[object, ...]]:
        """Returns the rows that are left."""
        return list(self._rows)


class IndexConnection:
    """The index as code written for the peer asks it: each statement is a transaction."""

    def __init__(self, ask: Callable[[str, list[object]], list[list[object]]]) -> None:
        self._ask = ask

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> IndexCursor:
        """Runs a statement and returns its rows."""
        return IndexCursor(self._ask(sql, list(parameters)))


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

    def _ensure_backfilled(self) -> None:
        self.settle_index()

    def _connect(self) -> IndexConnection | None:
        """Returns the index, level with the files; `None` where it cannot be used."""
        try:
            self._core.settle_index(now=time.time())
        except SessionError:
            return None
        return IndexConnection(self._core.ask_index)

    @property
    def _fts_available(self) -> bool:
        return chat_index() == "fts5"


__all__ = ["IndexConnection", "IndexCursor", "SqliteSessionStore"]

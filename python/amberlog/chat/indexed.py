"""The chat store whose lists, routes and searches are answered from an index on disk."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from amberlog.chat.store import DefaultSessionStore
from amberlog.config import chat_session_dir

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    from amberlog.chat._conversations import ChatDurability

    class _Options(TypedDict, total=False):
        max_messages: int
        lock_timeout: float
        retention: str | None
        active_window: int | None
        cache_maxsize: int
        durability: ChatDurability


class SqliteSessionStore(DefaultSessionStore):
    """Sessions of messages in JSON files, found by an index beside them.

    The files are those of `DefaultSessionStore`, and they alone count: the index is brought level
    with them before it answers, whoever wrote them.

    Args:
        session_dir: The directory, as in `DefaultSessionStore`.
        db_path: The index; `None` is `sessions_index.db` in the directory, `:memory:` one that
            lives as long as the store. `~` is the user's home.
        **kwargs: What else `DefaultSessionStore` takes.
    """

    def __init__(
        self, session_dir: str | None = None, db_path: str | None = None, **kwargs: Unpack[_Options]
    ) -> None:
        super().__init__(session_dir, **kwargs)
        self.db_path = db_path


_sqlite_store: SqliteSessionStore | None = None
_sqlite_lock = threading.Lock()


def get_sqlite_session_store() -> SqliteSessionStore:
    """Returns the indexed store of the directory that `amberlog.config.chat_session_dir()` names.

    It is one for the process, until the directory changes.
    """
    global _sqlite_store  # noqa: PLW0603  # one for the process, made on first use
    directory = str(chat_session_dir())
    with _sqlite_lock:
        if _sqlite_store is None or _sqlite_store.session_dir != directory:
            _sqlite_store = SqliteSessionStore(directory)
        return _sqlite_store


__all__ = ["SqliteSessionStore", "get_sqlite_session_store"]

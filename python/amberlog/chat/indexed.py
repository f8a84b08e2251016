"""The chat store whose lists, routes and searches are answered from an index on disk."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._core import ChatStore
from amberlog.chat.store import DefaultSessionStore
from amberlog.config import chat_index, chat_session_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from typing_extensions import Unpack

    from amberlog.chat._conversations import ChatDurability
    from amberlog.chat._cores import IndexedCore
    from amberlog.chat._lenient import PersistFailure
    from amberlog.chat.protocols import SessionMirrorProtocol

    class _Options(TypedDict, total=False):
        max_messages: int
        lock_timeout: float
        retention: str | None
        active_window: int | None
        mirror: SessionMirrorProtocol | None
        cache_maxsize: int
        durability: ChatDurability
        strict: bool
        on_failure: Callable[[PersistFailure], None] | None


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

    _core: IndexedCore

    def __init__(
        self, session_dir: str | None = None, db_path: str | None = None, **kwargs: Unpack[_Options]
    ) -> None:
        directory = Path(session_dir).expanduser() if session_dir else chat_session_dir()
        home = db_path or str(directory / "sessions_index.db")
        self.db_path = home if home == ":memory:" else str(Path(home).expanduser())
        super().__init__(str(directory), **kwargs)

    def _opened(self, directory: Path, *, sync: bool, kept: int) -> ChatStore:
        keeping = chat_index()
        return ChatStore(
            directory,
            sync=sync,
            kept=kept,
            index=None if keeping == "off" else Path(self.db_path),
            full_text=keeping == "fts5",
        )

    def list_sessions_by_gateway_agent(self, agent_id: str, limit: int | None = 50) -> list[str]:
        """Returns the ids of the sessions of a gateway's agent, in their order.

        Args:
            agent_id: The gateway's agent.
            limit: How many at most; all when it is `None` or negative.
        """
        most = None if limit is None or limit < 0 else limit
        return self._core.ids_where("agent_id", agent_id, most, now=time.time())[:most]

    def index_fault(self) -> str | None:
        """Returns why the index could not be used when it was last asked; `None` when it could.

        Then all is answered from the files, more slowly.
        """
        return self._core.index_fault()

    def settle_index(self) -> None:
        """Brings the index level now, with the part that only the peer's processes read.

        Answers of this store need no such call. The peer's part otherwise follows within a second
        of a write; until then, the peer is told to read the session's file.

        Raises:
            SessionBusyError: Another process held the index for too long. Or any other error that
                keeps the index from being used.
        """
        self._core.settle_index(now=time.time())


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

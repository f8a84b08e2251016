"""The default store, and the names that code written for the peer finds beside it."""

from __future__ import annotations

import logging
import os
import threading
import time

from amberlog.chat.messages import CompactionCheckpoint, SessionData, SessionMessage
from amberlog.chat.mirror import DEFAULT_MIRROR_MAX_RETRIES, DEFAULT_MIRROR_QUEUE_SIZE
from amberlog.chat.store import (
    DEFAULT_CACHE_MAXSIZE,
    DEFAULT_LOCK_TIMEOUT,
    DEFAULT_MAX_MESSAGES,
    RETENTION_COMPACT,
    RETENTION_KEEP_ALL,
    RETENTION_TRUNCATE,
)
from amberlog.compat.praisonai._lock import FileLock
from amberlog.compat.praisonai._places import default_session_dir
from amberlog.compat.praisonai._stores import ARCHIVE_WARN_THRESHOLD, DefaultSessionStore
from amberlog.config import chat_active_window, chat_retention

try:
    import fcntl as _fcntl
except ImportError:
    _fcntl = None  # type: ignore[assignment]  # what there is without it

logger = logging.getLogger("amberlog")

DEFAULT_RETENTION = RETENTION_COMPACT
_HAS_FCNTL = _fcntl is not None
# By it a store that was made here is told from one that somebody put in its place.
_MARK = "_praison_autocreated_session_dir"

_default_store: DefaultSessionStore | None = None
_default_lock = threading.Lock()


def __getattr__(name: str) -> str:
    # Looked up when it is asked for, until somebody assigns it.
    if name == "DEFAULT_SESSION_DIR":
        return default_session_dir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_default_session_store() -> DefaultSessionStore:
    """Returns the store in `_default_store`, or one of the directory that is now the default.

    A store that was put there stays; one that was made here is made anew when the directory
    changes. `PRAISONAI_SESSION_RETENTION` and `PRAISONAI_SESSION_ACTIVE_WINDOW` say how it keeps
    messages; values that make no sense are logged and passed over.
    """
    global _default_store  # noqa: PLW0603  # the peer's seam: others read and assign it
    directory = default_session_dir()
    with _default_lock:
        if _default_store is None or vars(_default_store).get(_MARK, directory) != directory:
            _default_store = _made(directory)
            setattr(_default_store, _MARK, directory)
        return _default_store


def _made(directory: str) -> DefaultSessionStore:
    given = chat_active_window()
    window: int | None = None
    if given is not None:
        try:
            window = int(given)
        except ValueError:
            logger.warning("PRAISONAI_SESSION_ACTIVE_WINDOW is no number: %r", given)
    retention = chat_retention()
    if retention not in (None, RETENTION_COMPACT, RETENTION_KEEP_ALL, RETENTION_TRUNCATE):
        logger.warning("PRAISONAI_SESSION_RETENTION is no retention: %r", retention)
        retention = None
    return DefaultSessionStore(directory, retention=retention, active_window=window)


__all__ = [
    "ARCHIVE_WARN_THRESHOLD",
    "DEFAULT_CACHE_MAXSIZE",
    "DEFAULT_LOCK_TIMEOUT",
    "DEFAULT_MAX_MESSAGES",
    "DEFAULT_MIRROR_MAX_RETRIES",
    "DEFAULT_MIRROR_QUEUE_SIZE",
    "DEFAULT_RETENTION",
    "RETENTION_COMPACT",
    "RETENTION_KEEP_ALL",
    "RETENTION_TRUNCATE",
    "CompactionCheckpoint",
    "DefaultSessionStore",
    "FileLock",
    "SessionData",
    "SessionMessage",
    "get_default_session_store",
    "os",
    "time",
]

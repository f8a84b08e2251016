"""Durable, searchable sessions for AI agents: one file a session, a core in Rust."""

from amberlog import aio, errors, index, lineage
from amberlog.errors import (
    ForkNotStableError,
    InvalidBranchViewError,
    SessionBusyError,
    SessionClosedError,
    SessionDamagedError,
    SessionError,
    SessionExistsError,
    SessionGoneError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)
from amberlog.hooks import SessionIndexHook
from amberlog.index import SessionIndex, get_session_index_default
from amberlog.session import NullSessionStore, SessionStore, iter_kv_keys, open_session
from amberlog.types import (
    Durability,
    Problem,
    ReconcileReport,
    SearchHit,
    SessionPage,
    SnapshotInfo,
    Unreadable,
    VerifyReport,
)

__version__ = "0.1.0"

__all__ = [
    "Durability",
    "ForkNotStableError",
    "InvalidBranchViewError",
    "NullSessionStore",
    "Problem",
    "ReconcileReport",
    "SearchHit",
    "SessionBusyError",
    "SessionClosedError",
    "SessionDamagedError",
    "SessionError",
    "SessionExistsError",
    "SessionGoneError",
    "SessionIndex",
    "SessionIndexHook",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionPage",
    "SessionReadOnlyError",
    "SessionStore",
    "SessionVersionError",
    "SessionWriteError",
    "SnapshotInfo",
    "Unreadable",
    "VerifyReport",
    "__version__",
    "aio",
    "errors",
    "get_session_index_default",
    "index",
    "iter_kv_keys",
    "lineage",
    "open_session",
]

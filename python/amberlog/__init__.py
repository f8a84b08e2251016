"""Durable, searchable sessions for AI agents: one file a session, a core in Rust."""

from amberlog import aio, chat, errors, lineage
from amberlog.chat import CompactionCheckpoint
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
from amberlog.session import NullSessionStore, SessionStore, iter_kv_keys, open_session
from amberlog.types import Durability, Problem, SearchHit, SnapshotInfo, VerifyReport

__version__ = "0.1.0"

__all__ = [
    "CompactionCheckpoint",
    "Durability",
    "ForkNotStableError",
    "InvalidBranchViewError",
    "NullSessionStore",
    "Problem",
    "SearchHit",
    "SessionBusyError",
    "SessionClosedError",
    "SessionDamagedError",
    "SessionError",
    "SessionExistsError",
    "SessionGoneError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionReadOnlyError",
    "SessionStore",
    "SessionVersionError",
    "SessionWriteError",
    "SnapshotInfo",
    "VerifyReport",
    "__version__",
    "aio",
    "chat",
    "errors",
    "iter_kv_keys",
    "lineage",
    "open_session",
]

"""Durable, searchable sessions for AI agents: one file a session, a core in Rust."""

from amberlog import aio, errors, lineage, resuming
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
    SessionNotResumableError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)
from amberlog.resuming import Resumed, ResumedAgent, TriggerRegistry, resume
from amberlog.session import NullSessionStore, SessionStore, iter_kv_keys, open_session
from amberlog.types import Durability, Problem, SearchHit, SnapshotInfo, VerifyReport

__version__ = "0.1.0"

__all__ = [
    "Durability",
    "ForkNotStableError",
    "InvalidBranchViewError",
    "NullSessionStore",
    "Problem",
    "Resumed",
    "ResumedAgent",
    "SearchHit",
    "SessionBusyError",
    "SessionClosedError",
    "SessionDamagedError",
    "SessionError",
    "SessionExistsError",
    "SessionGoneError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionNotResumableError",
    "SessionReadOnlyError",
    "SessionStore",
    "SessionVersionError",
    "SessionWriteError",
    "SnapshotInfo",
    "TriggerRegistry",
    "VerifyReport",
    "__version__",
    "aio",
    "errors",
    "iter_kv_keys",
    "lineage",
    "open_session",
    "resume",
    "resuming",
]

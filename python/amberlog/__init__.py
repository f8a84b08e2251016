"""Durable, searchable sessions for AI agents: one file a session, a core in Rust."""

from amberlog import (
    aio,
    chat,
    config,
    embedding,
    errors,
    index,
    lineage,
    memory,
    migration,
    resuming,
)
from amberlog.attaching import Session
from amberlog.chat import CompactionCheckpoint
from amberlog.errors import (
    AlreadyAttachedError,
    EmbedderFailedError,
    EmbeddingError,
    EmbeddingRequestError,
    ForkNotStableError,
    InvalidBranchViewError,
    MissingExtraError,
    NoEmbedderError,
    NotAttachedError,
    NoVectorsError,
    SessionBusyError,
    SessionClosedError,
    SessionDamagedError,
    SessionError,
    SessionExistsError,
    SessionGoneError,
    SessionLockedError,
    SessionMigrationError,
    SessionNotFoundError,
    SessionNotResumableError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
    UnknownPeerError,
)
from amberlog.hooks import SessionIndexHook
from amberlog.index import SessionIndex, get_session_index_default
from amberlog.last import LastSession, last_session
from amberlog.memory import SearchResult, SessionMemory
from amberlog.migration import migrate
from amberlog.reader import SessionReader
from amberlog.recall import Recall, RecallHit, RecallStats
from amberlog.recorder import Recorder
from amberlog.resuming import Resumed, ResumedAgent, TriggerRegistry, resume
from amberlog.session import NullSessionStore, SessionStore, iter_kv_keys, open_session
from amberlog.session_output import SessionOutput
from amberlog.turn import Turn
from amberlog.types import (
    Attachment,
    Durability,
    Problem,
    ReconcileReport,
    SearchHit,
    SessionPage,
    SnapshotInfo,
    TurnView,
    Unreadable,
    VerifyReport,
)
from amberlog.watching import SessionIndexWatch

__version__ = "0.1.0"

__all__ = [
    "AlreadyAttachedError",
    "Attachment",
    "CompactionCheckpoint",
    "Durability",
    "EmbedderFailedError",
    "EmbeddingError",
    "EmbeddingRequestError",
    "ForkNotStableError",
    "InvalidBranchViewError",
    "LastSession",
    "MissingExtraError",
    "NoEmbedderError",
    "NoVectorsError",
    "NotAttachedError",
    "NullSessionStore",
    "Problem",
    "Recall",
    "RecallHit",
    "RecallStats",
    "ReconcileReport",
    "Recorder",
    "Resumed",
    "ResumedAgent",
    "SearchHit",
    "SearchResult",
    "Session",
    "SessionBusyError",
    "SessionClosedError",
    "SessionDamagedError",
    "SessionError",
    "SessionExistsError",
    "SessionGoneError",
    "SessionIndex",
    "SessionIndexHook",
    "SessionIndexWatch",
    "SessionLockedError",
    "SessionMemory",
    "SessionMigrationError",
    "SessionNotFoundError",
    "SessionNotResumableError",
    "SessionOutput",
    "SessionPage",
    "SessionReadOnlyError",
    "SessionReader",
    "SessionStore",
    "SessionVersionError",
    "SessionWriteError",
    "SnapshotInfo",
    "TriggerRegistry",
    "Turn",
    "TurnView",
    "UnknownPeerError",
    "Unreadable",
    "VerifyReport",
    "__version__",
    "aio",
    "chat",
    "config",
    "embedding",
    "errors",
    "get_session_index_default",
    "index",
    "iter_kv_keys",
    "last_session",
    "lineage",
    "memory",
    "migrate",
    "migration",
    "open_session",
    "resume",
    "resuming",
]

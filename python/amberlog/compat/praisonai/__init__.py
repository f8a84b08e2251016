"""What amberlog has of the modules of PraisonAI's sessions, under their names."""

from __future__ import annotations

import importlib

from amberlog.compat.praisonai._peer import PEER
from amberlog.compat.praisonai.context import (
    SessionContext,
    clear_session_context,
    get_session_context,
    set_session_context,
)
from amberlog.compat.praisonai.encrypted_store import (
    EncryptedSessionStore,
    SessionEncryptionError,
    generate_session_key,
)
from amberlog.compat.praisonai.hierarchy import (
    ExtendedSessionData,
    HierarchicalSessionStore,
    SessionSnapshot,
    get_hierarchical_session_store,
)
from amberlog.compat.praisonai.identity import (
    FileIdentityResolver,
    IdentityLink,
    IdentityResolverProtocol,
    InMemoryIdentityResolver,
)
from amberlog.compat.praisonai.protocols import (
    ImportReport,
    IncrementalSessionStoreProtocol,
    PortableSessionStoreProtocol,
    SearchableSessionStoreProtocol,
    SessionHit,
    SessionMirrorProtocol,
    SessionStoreProtocol,
    SessionSummary,
)
from amberlog.compat.praisonai.sqlite_store import SqliteSessionStore
from amberlog.compat.praisonai.sqlite_transcript_store import SqliteTranscriptStore
from amberlog.compat.praisonai.store import (
    CompactionCheckpoint,
    DefaultSessionStore,
    SessionData,
    SessionMessage,
    get_default_session_store,
)
from amberlog.compat.praisonai.workspace import workspace_id

# What has nothing to do with keeping sessions stays the peer's, and is looked for there.
_THEIRS = {
    "MessageOrigin": "provenance",
    "Session": "api",
    "build_handoff_prompt": "handoff",
    "wrap_inter_agent": "provenance",
}


def __getattr__(name: str) -> object:
    if name not in _THEIRS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{PEER}.session.{_THEIRS[name]}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"{name} is the peer's, which is not installed") from error
    found: object = getattr(module, name)
    return found


__all__ = [
    "CompactionCheckpoint",
    "DefaultSessionStore",
    "EncryptedSessionStore",
    "ExtendedSessionData",
    "FileIdentityResolver",
    "HierarchicalSessionStore",
    "IdentityLink",
    "IdentityResolverProtocol",
    "ImportReport",
    "InMemoryIdentityResolver",
    "IncrementalSessionStoreProtocol",
    "PortableSessionStoreProtocol",
    "SearchableSessionStoreProtocol",
    "SessionContext",
    "SessionData",
    "SessionEncryptionError",
    "SessionHit",
    "SessionMessage",
    "SessionMirrorProtocol",
    "SessionSnapshot",
    "SessionStoreProtocol",
    "SessionSummary",
    "SqliteSessionStore",
    "SqliteTranscriptStore",
    "clear_session_context",
    "generate_session_key",
    "get_default_session_store",
    "get_hierarchical_session_store",
    "get_session_context",
    "set_session_context",
    "workspace_id",
]

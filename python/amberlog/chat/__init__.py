"""Chat sessions: messages by the id of their conversation, in one JSON file each."""

from amberlog.chat._lenient import PersistFailure
from amberlog.chat.context import (
    SessionContext,
    clear_session_context,
    get_session_context,
    set_session_context,
)
from amberlog.chat.encrypted_store import EncryptedSessionStore, generate_session_key
from amberlog.chat.gateway import neutralize_untrusted_text
from amberlog.chat.hierarchy import (
    ExtendedSessionData,
    HierarchicalSessionStore,
    SessionSnapshot,
    get_hierarchical_session_store,
)
from amberlog.chat.identity import (
    FileIdentityResolver,
    IdentityLink,
    IdentityResolverProtocol,
    InMemoryIdentityResolver,
)
from amberlog.chat.indexed import SqliteSessionStore, get_sqlite_session_store
from amberlog.chat.messages import CompactionCheckpoint, SessionData, SessionMessage
from amberlog.chat.protocols import (
    ImportReport,
    IncrementalSessionStoreProtocol,
    PortableSessionStoreProtocol,
    RuntimeStateMirroringProtocol,
    SearchableSessionStoreProtocol,
    SessionHit,
    SessionMirrorProtocol,
    SessionStoreProtocol,
    SessionSummary,
)
from amberlog.chat.store import DefaultSessionStore, get_default_session_store
from amberlog.chat.transcript_store import SqliteTranscriptStore
from amberlog.chat.workspace import workspace_id
from amberlog.errors import SessionEncryptionError

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
    "PersistFailure",
    "PortableSessionStoreProtocol",
    "RuntimeStateMirroringProtocol",
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
    "get_sqlite_session_store",
    "neutralize_untrusted_text",
    "set_session_context",
    "workspace_id",
]

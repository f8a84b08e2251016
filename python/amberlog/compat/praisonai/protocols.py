"""What code may rely on that is given any store."""

from amberlog.chat.protocols import (
    CheckpointQueryProtocol,
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

__all__ = [
    "CheckpointQueryProtocol",
    "ImportReport",
    "IncrementalSessionStoreProtocol",
    "PortableSessionStoreProtocol",
    "RuntimeStateMirroringProtocol",
    "SearchableSessionStoreProtocol",
    "SessionHit",
    "SessionMirrorProtocol",
    "SessionStoreProtocol",
    "SessionSummary",
]

"""What code may rely on that is given any store of chat sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class SessionHit:
    """A session that a search found.

    Attributes:
        session_id: The session.
        title: What a list would call it.
        when: When it was last written.
        snippet: The best message, cut around the words that were found.
        score: How well it fits; higher is better.
        anchor_index: The best message's place, archived messages counted first.
        messages: The messages around it.
        bookends: The first and the last messages, under `opening` and `closing`.
    """

    session_id: str
    title: str = ""
    when: str | None = None
    snippet: str = ""
    score: float = 0.0
    anchor_index: int = -1
    messages: list[dict[str, object]] = field(default_factory=list)
    bookends: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """Returns the hit as a dict; without bookends where there are none."""
        found: dict[str, object] = {
            "session_id": self.session_id,
            "title": self.title,
            "when": self.when,
            "snippet": self.snippet,
            "score": self.score,
            "anchor_index": self.anchor_index,
            "messages": self.messages,
        }
        return {**found, "bookends": self.bookends} if self.bookends else found


@dataclass
class SessionSummary:
    """A session in a short list.

    Attributes:
        session_id: The session.
        title: The agent that talked, or the id.
        when: When it was last written.
        message_count: How many messages its window has.
    """

    session_id: str
    title: str = ""
    when: str | None = None
    message_count: int = 0

    def as_dict(self) -> dict[str, object]:
        """Returns the summary as a dict."""
        return {
            "session_id": self.session_id,
            "title": self.title,
            "when": self.when,
            "message_count": self.message_count,
        }


@dataclass
class ImportReport:
    """What an import did.

    Attributes:
        imported: How many sessions were written.
        skipped: The sessions that were not, each with `session_id` and `reason`.
        version: The version of the format.
    """

    imported: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    version: int = 1

    @property
    def skipped_count(self) -> int:
        """How many sessions were not written."""
        return len(self.skipped)

    def as_dict(self) -> dict[str, object]:
        """Returns the report as a dict."""
        return {
            "imported": self.imported,
            "skipped": self.skipped,
            "skipped_count": self.skipped_count,
            "version": self.version,
        }


@runtime_checkable
class SessionStoreProtocol(Protocol):
    """The least that an agent needs of a store."""

    def add_message(
        self,
        session_id: str,
        role: str,
        content: str,
        metadata: dict[str, object] | None = None,
    ) -> bool:
        """Adds a message and returns whether it is stored."""
        ...

    def get_chat_history(
        self, session_id: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""
        ...

    def clear_session(self, session_id: str) -> bool:
        """Removes the messages of the window."""
        ...

    def delete_session(self, session_id: str) -> bool:
        """Removes a session."""
        ...

    def session_exists(self, session_id: str) -> bool:
        """Returns whether there is such a session."""
        ...


@runtime_checkable
class SearchableSessionStoreProtocol(Protocol):
    """A store in which sessions can be found by their words."""

    def search(self, query: str, *, limit: int = 5, window: int = 5) -> list[SessionHit]:
        """Returns the best sessions, best first."""
        ...

    def window(
        self, session_id: str, around_message_id: str | None = None, *, window: int = 5
    ) -> list[dict[str, object]]:
        """Returns messages around one of a session."""
        ...

    def recent(self, *, limit: int = 10) -> list[SessionSummary]:
        """Returns the sessions that were last written."""
        ...


@runtime_checkable
class IncrementalSessionStoreProtocol(Protocol):
    """A store that keeps a message while it is still being spoken."""

    def upsert_partial_assistant_message(
        self, session_id: str, content: str, *, finalize: bool = False
    ) -> bool:
        """Renews the message at the end of the session."""
        ...

    def discard_partial_assistant_message(self, session_id: str) -> bool:
        """Drops a message that was never completed."""
        ...


@runtime_checkable
class PortableSessionStoreProtocol(Protocol):
    """A store whose sessions can be carried to another."""

    def export_session(self, session_id: str, *, include_lineage: bool = True) -> dict[str, object]:
        """Returns one session in the portable form."""
        ...

    def export_all(self) -> dict[str, object]:
        """Returns all sessions in the portable form."""
        ...

    def import_sessions(
        self,
        payload: Mapping[str, object],
        *,
        max_sessions: int = 10_000,
        reset_live_fields: bool = True,
        overwrite: bool = False,
    ) -> ImportReport:
        """Writes the sessions of a portable form."""
        ...


@runtime_checkable
class RuntimeStateMirroringProtocol(Protocol):
    """A store that keeps the states of runtimes beside the messages."""

    def set_runtime_state(
        self,
        session_id: str,
        runtime_id: str,
        turn_id: str,
        state: dict[str, object],
        mirror_enabled: bool = True,  # noqa: FBT001, FBT002  # the peer's signature
    ) -> bool:
        """Keeps the state of a turn."""
        ...

    def get_runtime_state(
        self, session_id: str, runtime_id: str, turn_id: str | None = None
    ) -> dict[str, object]:
        """Returns the state of a turn, or of all turns."""
        ...

    def clear_runtime_state(self, session_id: str, runtime_id: str | None = None) -> bool:
        """Removes the states of a runtime, or of all."""
        ...


@runtime_checkable
class CheckpointQueryProtocol(Protocol):
    """A store whose checkpoints can be listed; none of ours does that for more than the newest."""

    def list_checkpoints(self, session_id: str) -> list[dict[str, object]]:
        """Returns what is known of each checkpoint."""
        ...

    def get_checkpoint(self, session_id: str, checkpoint_id: str) -> dict[str, object] | None:
        """Returns one checkpoint."""
        ...


@runtime_checkable
class SessionMirrorProtocol(Protocol):
    """A second place for messages, which gets a copy of each after it is stored."""

    def append(self, session_id: str, records: list[dict[str, object]]) -> object:
        """Takes messages of a session, each with an `id` and its `session_id`."""
        ...

    def load(self, session_id: str) -> list[dict[str, object]]:
        """Returns the records of a session."""
        ...

    def list_sessions(self, *, user_id: str | None = None) -> list[dict[str, object]]:
        """Returns the sessions that there are records of."""
        ...


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

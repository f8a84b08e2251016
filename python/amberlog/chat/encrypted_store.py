"""A chat store that writes nothing that can be read without the key."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from amberlog.chat._cipher import PREFIX, Cipher, generate_session_key
from amberlog.chat._conversations import Conversations
from amberlog.chat._sealed_core import SealedCore
from amberlog.errors import SessionEncryptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amberlog.chat.messages import SessionData
    from amberlog.chat.protocols import SessionHit


class EncryptedSessionStore:
    """The verbs of a store, over sessions that are encrypted on disk.

    Every verb of the store beneath is one of this one, and whatever it writes is encrypted: texts,
    metadata, tool calls, summaries, titles, states of runtimes, labels of snapshots. In the clear
    stay what sessions are found and ordered by: the ids of sessions, users, agents, outside ids and
    answered calls, names of agents, roles, times, counts of tokens and messages, and the keys (not
    the values) of the metadata. What was written before there was a key is read as it is.

    The form is that of `praisonaiagents`. Exports are in the clear, and imports are encrypted.

    Args:
        store: One of the stores of `amberlog.chat`; it goes on writing in the clear.
        key: What `generate_session_key` returned. Without it nobody can read the sessions.

    Raises:
        SessionEncryptionError: The key is none, or the extra `amberlog[encryption]` is missing.
            From any verb: the key is not that of the session, which is left as it is.
        TypeError: The store is none of ours: nobody knows what it would write in the clear.
    """

    PREFIX = PREFIX

    def __init__(self, store: Conversations, key: str | bytes) -> None:
        if not isinstance(store, Conversations):
            raise TypeError(f"store: a store of `amberlog.chat` is needed, not {type(store)!r}")
        cipher = Cipher(key)
        self._store = copy.copy(store)
        self._store._core = SealedCore(store._core, cipher)  # noqa: SLF001  # the seam of the package

    def __getattr__(self, name: str) -> object:
        """Returns a verb of the store, which passes the encryption as all do."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._store, name)

    def add_message(
        self,
        session_id: str,
        role: str,
        content: str,
        metadata: Mapping[str, object] | None = None,
        tool_calls: list[dict[str, object]] | None = None,
        tool_call_id: str | None = None,
    ) -> bool:
        """Adds a message, as `DefaultSessionStore.add_message` does."""
        return self._store.add_message(
            session_id, role, content, metadata, tool_calls, tool_call_id
        )

    def add_user_message(
        self, session_id: str, content: str, metadata: Mapping[str, object] | None = None
    ) -> bool:
        """Adds a message of the user."""
        return self._store.add_user_message(session_id, content, metadata)

    def add_assistant_message(
        self, session_id: str, content: str, metadata: Mapping[str, object] | None = None
    ) -> bool:
        """Adds a message of the assistant."""
        return self._store.add_assistant_message(session_id, content, metadata)

    def set_chat_history(self, session_id: str, messages: Iterable[Mapping[str, object]]) -> bool:
        """Puts other messages in the place of the window."""
        return self._store.set_chat_history(session_id, messages)

    def append_compaction_checkpoint(
        self,
        session_id: str,
        summary: str,
        *,
        role: str = "system",
        tokens_before: int = 0,
        tokens_after: int = 0,
        metadata: Mapping[str, object] | None = None,
    ) -> bool:
        """Puts a summary in the place of all messages that the window now has."""
        return self._store.append_compaction_checkpoint(
            session_id,
            summary,
            role=role,
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            metadata=metadata,
        )

    def get_chat_history(
        self, session_id: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""
        return self._store.get_chat_history(session_id, max_messages)

    def get_working_history(
        self, session_id: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns the checkpoint's summary and what came after it."""
        return self._store.get_working_history(session_id, max_messages)

    def get_session(self, session_id: str) -> SessionData:
        """Returns a session; one that is not there is empty."""
        return self._store.get_session(session_id)

    def session_exists(self, session_id: str) -> bool:
        """Returns whether there is a session."""
        return self._store.session_exists(session_id)

    def clear_session(self, session_id: str) -> bool:
        """Removes the window's messages and the checkpoint."""
        return self._store.clear_session(session_id)

    def delete_session(self, session_id: str) -> bool:
        """Removes a session, which needs no key."""
        return self._store.delete_session(session_id)

    def search(self, query: str, *, limit: int = 5, window: int = 5) -> list[SessionHit]:
        """Refuses: no hit would look as if nothing had been said.

        Raises:
            SessionEncryptionError: Always.
        """
        del query, limit, window
        raise SessionEncryptionError(
            "the words of encrypted sessions cannot be searched: read them and look"
        )


__all__ = ["EncryptedSessionStore", "generate_session_key"]

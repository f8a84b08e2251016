"""Encrypted sessions."""

from amberlog.chat.encrypted_store import EncryptedSessionStore, generate_session_key
from amberlog.errors import SessionEncryptionError

__all__ = ["EncryptedSessionStore", "SessionEncryptionError", "generate_session_key"]

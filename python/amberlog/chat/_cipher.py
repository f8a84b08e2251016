"""Values as texts that nobody reads without the key, in the form of the peer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from amberlog.errors import SessionEncryptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cryptography.fernet import Fernet

PREFIX = "praisonai:enc:v1:"
ENVELOPE = "__enc__"

# What the core has to read of a message's metadata to keep the window.
_FLAGS = frozenset({"partial", "compaction", "compacted_count"})
_MESSAGE_IDS = frozenset({"role", "timestamp", "tool_call_id"})
_CHECKPOINT_CLEAR = frozenset(
    {"message_index", "role", "tokens_before", "tokens_after", "timestamp"}
)
# A summary that the core has counted says nothing that the roles in the clear do not say.
_COUNTED = re.compile(
    r"\[Session Summary\]\nPrevious conversation: \d+ messages?( compacted\.)?"
    r"(\nMessage breakdown: \{('(user|assistant|tool|system)': \d+(, )?)*\})?"
)

_WRONG_KEY = "the key does not match the one that the session was written with"


def _fernet(key: str | bytes) -> Fernet:
    try:
        # An extra that only those need who encrypt.
        from cryptography.fernet import Fernet  # noqa: PLC0415
    except ImportError as error:
        raise SessionEncryptionError("install amberlog[encryption] to encrypt sessions") from error
    if not key:
        raise SessionEncryptionError("a key is needed: `generate_session_key` makes one")
    try:
        return Fernet(key)
    except (TypeError, ValueError) as error:
        raise SessionEncryptionError("the key is none of `generate_session_key`") from error


def generate_session_key() -> str:
    """Returns a new key for `EncryptedSessionStore`; whoever loses it loses the sessions.

    Raises:
        SessionEncryptionError: The extra `amberlog[encryption]` is not installed.
    """
    try:
        from cryptography.fernet import Fernet  # noqa: PLC0415  # as above
    except ImportError as error:
        raise SessionEncryptionError("install amberlog[encryption] to encrypt sessions") from error
    return Fernet.generate_key().decode("ascii")


class Cipher:
    """Seals values with one key, and opens them.

    A text becomes a marked text; any other value an object with one marked text, which holds it as
    JSON. What is not marked was written before there was a key, and is opened as it is.

    Args:
        key: What `generate_session_key` returned.

    Raises:
        SessionEncryptionError: The key is none, or the extra is not installed.
    """

    def __init__(self, key: str | bytes) -> None:
        self._fernet = _fernet(key)

    def seal_text(self, text: str) -> str:
        """Returns a text that only the key opens; an empty one stays empty."""
        if not text:
            return text
        return PREFIX + self._fernet.encrypt(text.encode("utf-8")).decode("ascii")

    def seal(self, value: object) -> object:
        """Returns a value that only the key opens; nothing stays nothing."""
        if isinstance(value, str):
            return self.seal_text(value)
        if value is None or value in ({}, []):
            return value
        return {ENVELOPE: self._packed(value)}

    def seal_message(self, message: Mapping[str, object]) -> dict[str, object]:
        """Returns a message of which only role, time and the answered call can be read."""
        sealed: dict[str, object] = {}
        for key, value in message.items():
            if key in _MESSAGE_IDS:
                sealed[key] = value
            elif key == "metadata" and isinstance(value, dict):
                sealed[key] = self._flagged(value)
            elif key == "tool_calls" and value:
                sealed[key] = self._packed(value)
            elif key == "content" and _is_counted(message):
                sealed[key] = value
            else:
                sealed[key] = self.seal(value)
        return sealed

    def seal_checkpoint(self, checkpoint: Mapping[str, object]) -> dict[str, object]:
        """Returns a checkpoint of which only its place, time and tokens can be read."""
        return {
            key: value if key in _CHECKPOINT_CLEAR else self.seal(value)
            for key, value in checkpoint.items()
        }

    def opened(self, value: object) -> object:
        """Returns a value with everything in it that was sealed.

        Raises:
            SessionEncryptionError: It was sealed with another key.
        """
        if isinstance(value, str):
            return self._open_text(value) if value.startswith(PREFIX) else value
        if isinstance(value, list):
            return [self.opened(item) for item in value]
        if not isinstance(value, dict):
            return value
        sealed = value.get(ENVELOPE)
        if isinstance(sealed, str) and sealed.startswith(PREFIX):
            return self._open_envelope(value, sealed)
        calls = value.get("tool_calls")
        opened = {key: self.opened(item) for key, item in value.items()}
        if isinstance(calls, str) and calls.startswith(PREFIX):
            opened["tool_calls"] = json.loads(str(opened["tool_calls"]))
        return opened

    def check(self, value: object) -> None:
        """Makes sure that the key is that of a value; one in which nothing is sealed has any.

        Raises:
            SessionEncryptionError: It was sealed with another key.
        """
        for sealed in _sealed_texts(value):
            self._open_text(sealed)
            return

    def _flagged(self, metadata: Mapping[str, object]) -> dict[str, object]:
        flags = {key: value for key, value in metadata.items() if key in _FLAGS}
        rest = {key: value for key, value in metadata.items() if key not in _FLAGS}
        return {**flags, ENVELOPE: self._packed(rest)} if rest else flags

    def _open_envelope(self, value: Mapping[str, object], sealed: str) -> object:
        opened: object = json.loads(self._open_text(sealed))
        flags = {key: item for key, item in value.items() if key != ENVELOPE}
        if flags and isinstance(opened, dict):
            return {**flags, **opened}
        return opened

    def _packed(self, value: object) -> str:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        if json.loads(text) != value:
            raise TypeError("$: a value cannot be stored so that it comes back equal")
        return self.seal_text(text)

    def _open_text(self, sealed: str) -> str:
        from cryptography.fernet import InvalidToken  # noqa: PLC0415  # as above

        try:
            return self._fernet.decrypt(sealed[len(PREFIX) :].encode("utf-8")).decode("utf-8")
        except InvalidToken as error:
            raise SessionEncryptionError(_WRONG_KEY) from error


def _is_counted(message: Mapping[str, object]) -> bool:
    metadata, content = message.get("metadata"), message.get("content")
    return (
        isinstance(metadata, dict)
        and bool(metadata.get("compaction"))
        and isinstance(content, str)
        and _COUNTED.fullmatch(content) is not None
    )


def _sealed_texts(value: object) -> Iterator[str]:
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str) and one.startswith(PREFIX):
            yield one
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, dict):
            rest.extend(one.values())


__all__ = ["PREFIX", "Cipher", "generate_session_key"]

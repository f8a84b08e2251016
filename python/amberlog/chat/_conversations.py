"""The messages of sessions by their ids: the half of a store that agents talk to."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from amberlog._core import ChatStore
from amberlog.chat._lenient import LenientChat, PersistFailure
from amberlog.chat.messages import SessionData, SessionMessage
from amberlog.chat.mirror import MirrorWriter, record
from amberlog.config import chat_session_dir, chat_spill_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from amberlog.chat._cores import ChatCore, KinCore
    from amberlog.chat.protocols import SessionMirrorProtocol

DEFAULT_MAX_MESSAGES = 100
DEFAULT_LOCK_TIMEOUT = 5.0
DEFAULT_CACHE_MAXSIZE = 256
RETENTION_COMPACT = "compact"
RETENTION_TRUNCATE = "truncate"
RETENTION_KEEP_ALL = "keep_all"
_RETENTIONS = (RETENTION_COMPACT, RETENTION_TRUNCATE, RETENTION_KEEP_ALL)

ChatDurability = Literal["power", "process"]

logger = logging.getLogger("amberlog")


class Conversations:
    """Sessions of messages, each a JSON file in one directory.

    Every write replaces the file as a whole under its lock, and is on disk when it returns. The
    lock and the files are those of `praisonaiagents`, whose processes may use them meanwhile. No
    read takes a lock, and no read changes anything on disk.

    Args:
        session_dir: The directory, made where it is missing; `None` is
            `amberlog.config.chat_session_dir()`.
        max_messages: How many messages the window has, and a working history at most.
        lock_timeout: Seconds that a write waits for another writer of the session.
        retention: What happens to messages beyond the window: `compact` moves them to the
            session's archive and leaves a summary, `truncate` drops them, `keep_all` leaves them.
            `None` is `compact`, and `truncate` where `max_messages` is not 100.
        active_window: How many messages the window has, where that is not `max_messages`; without
            a limit when it is not positive.
        mirror: A second place that gets a copy of each complete message, after it is stored and
            without anybody waiting for it.
        cache_maxsize: How many sessions are kept in memory at most, each with a file held open;
            never more than 128, and 0 leaves it at that.
        durability: `power`: a write survives a power cut; `process`: it survives the process.
        strict: Whether damage and failed writes raise. Otherwise the peer's contract holds: a
            damaged file is set aside and its session is empty; a write that fails returns
            `False`, and a message that it would have added is spilled to
            `amberlog.config.chat_spill_dir()` and comes back with the next call about its session.
        on_failure: What is told of each failure when the store is not strict; it is logged to the
            logger `amberlog` in any case.

    Raises:
        ValueError: `retention` is none of the three.
        SessionWriteError: The directory cannot be made.
    """

    def __init__(  # noqa: PLR0913  # the peer's signature, and what is ours by name
        self,
        session_dir: str | None = None,
        max_messages: int = DEFAULT_MAX_MESSAGES,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        retention: str | None = None,
        active_window: int | None = None,
        mirror: SessionMirrorProtocol | None = None,
        cache_maxsize: int = DEFAULT_CACHE_MAXSIZE,
        *,
        durability: ChatDurability = "power",
        strict: bool = True,
        on_failure: Callable[[PersistFailure], None] | None = None,
    ) -> None:
        if retention is None:
            is_default = max_messages == DEFAULT_MAX_MESSAGES
            retention = RETENTION_COMPACT if is_default else RETENTION_TRUNCATE
        if retention not in _RETENTIONS:
            raise ValueError(f"retention must be one of {_RETENTIONS}, not {retention!r}")
        if durability not in ("power", "process"):
            raise ValueError(f"durability must be 'power' or 'process', not {durability!r}")
        directory = Path(session_dir).expanduser() if session_dir else chat_session_dir()
        self.session_dir = str(directory)
        self.max_messages = max_messages
        self.lock_timeout = lock_timeout
        self.retention = retention
        self.active_window = max_messages if active_window is None else active_window
        self.strict = strict
        self._on_failure = on_failure
        self._core = self._opened(directory, sync=durability == "power", kept=max(cache_maxsize, 0))
        if not strict:
            policy = (self.retention, self.active_window)
            beneath = cast("KinCore", self._core)
            lenient = LenientChat(
                beneath, chat_spill_dir(), policy, lock_timeout, self._report_failure
            )
            # It has every verb of the core.
            self._core = cast("ChatCore", lenient)
        # Last, so that a store that cannot be made leaves no thread.
        self._mirror_writer = None if mirror is None else MirrorWriter(mirror)

    def _opened(self, directory: Path, *, sync: bool, kept: int) -> ChatCore:
        return ChatStore(directory, sync=sync, kept=kept)

    def add_message(
        self,
        session_id: str,
        role: str,
        content: str,
        metadata: Mapping[str, object] | None = None,
        tool_calls: list[dict[str, object]] | None = None,
        tool_call_id: str | None = None,
    ) -> bool:
        """Adds a message to a session, which is made where it is missing.

        Args:
            session_id: The session; any text but an empty one.
            role: `user`, `assistant`, `system` or `tool`.
            content: What was said.
            metadata: The caller's own, of JSON values.
            tool_calls: The calls that an assistant's message asks for.
            tool_call_id: The call that a tool's message answers.

        Returns:
            `True`: a message that is not stored raises. Where the store is not strict it is
            spilled instead, and this is `False`.

        Raises:
            TypeError: A value would not come back equal; nothing is written. Or `ValueError`.
            SessionWriteError: The system refused the write; the session is as it was.
            SessionBusyError: Another writer held the session for longer than `lock_timeout`.
            SessionReadOnlyError: The directory may only be read.
            SessionDamagedError: The file is no session; it is left as it is.
        """
        message: dict[str, object] = {
            "role": role,
            "content": content,
            "timestamp": time.time(),
            "metadata": dict(metadata or {}),
        }
        if tool_calls:
            message["tool_calls"] = tool_calls
        if tool_call_id is not None:
            message["tool_call_id"] = tool_call_id
        is_stored = self._edit(session_id, ("append", message))
        return is_stored and self._send(session_id, message)

    def add_user_message(
        self, session_id: str, content: str, metadata: Mapping[str, object] | None = None
    ) -> bool:
        """Adds a message of the user, as `add_message` does."""
        return self.add_message(session_id, "user", content, metadata)

    def add_assistant_message(
        self, session_id: str, content: str, metadata: Mapping[str, object] | None = None
    ) -> bool:
        """Adds a message of the assistant, as `add_message` does."""
        return self.add_message(session_id, "assistant", content, metadata)

    def upsert_partial_assistant_message(
        self, session_id: str, content: str, *, finalize: bool = False
    ) -> bool:
        """Renews the assistant's message at the end of a session while it is being spoken.

        Args:
            session_id: The session.
            content: All that was said so far.
            finalize: Whether that is all; an empty message is dropped then.
        """
        now = time.time()
        is_stored = self._edit(session_id, ("partial", content, now, finalize))
        if is_stored and finalize and content:
            message = SessionMessage("assistant", content, now)
            self._send(session_id, message.to_dict())
        return is_stored

    def discard_partial_assistant_message(self, session_id: str) -> bool:
        """Drops a message at the end of a session that was never finalized."""
        return self._edit(session_id, ("discard",))

    def set_chat_history(self, session_id: str, messages: Iterable[Mapping[str, object]]) -> bool:
        """Puts other messages in the place of the window; the checkpoint goes with the old ones.

        Args:
            session_id: The session.
            messages: Each with `role` and `content`, and whatever else it shall keep.
        """
        built = [_whole(message) for message in messages]
        is_stored = self._edit(session_id, ("replace", built))
        return is_stored and self._send(session_id, *built)

    def clear_session(self, session_id: str) -> bool:
        """Removes the window's messages and the checkpoint; archive, metadata and routes stay."""
        return self._edit(session_id, ("replace", []))

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
        """Puts a summary in the place of all messages that the window now has.

        The messages stay; `get_working_history` begins with the summary instead of them.

        Args:
            session_id: The session.
            summary: What a model shall read instead.
            role: Whose words the summary is.
            tokens_before: Tokens before the compaction.
            tokens_after: Tokens after it.
            metadata: The caller's own.

        Returns:
            Whether there was a summary to write: a blank one is none.
        """
        if not (summary or "").strip():
            return False
        stored = dict(metadata or {})
        return self._edit(
            session_id,
            ("checkpoint", summary, role, tokens_before, tokens_after, time.time(), stored),
        )

    def get_chat_history(
        self, session_id: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns the newest messages of the window for a model.

        A result whose call is cut off goes too, so that there may be fewer.

        Args:
            session_id: The session; one that is not there has no messages.
            max_messages: How many at most; all when it is `None` or 0.

        Raises:
            SessionDamagedError: The file is no session; it is left as it is.
        """
        return self._core.chat_history(session_id, max_messages)

    def get_working_history(
        self, session_id: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns what a model needs to go on: the checkpoint's summary and what came after it.

        Without a checkpoint these are the newest messages. Unless `max_messages` is given, the
        summary of the session's archive comes before them.

        Args:
            session_id: The session; one that is not there has no messages.
            max_messages: How many at most, the summary included; the store's `max_messages` when
                it is `None` or 0.

        Raises:
            SessionDamagedError: The file is no session; it is left as it is.
        """
        return self._core.working_history(
            session_id, max_messages or self.max_messages, with_archive=not max_messages
        )

    def get_session(self, session_id: str) -> SessionData:
        """Returns a session; one that is not there is empty, and is not made by this.

        Raises:
            SessionDamagedError: The file is no session; it is left as it is.
        """
        stored = self._core.document(session_id)
        return SessionData(session_id) if stored is None else SessionData.from_dict(stored)

    def stored_session(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored, keys that nobody knows included; `None` without one.

        Raises:
            SessionDamagedError: The file is no session; it is left as it is.
        """
        return self._core.document(session_id)

    def get_session_model(self, session_id: str) -> str | None:
        """Returns the model that a session was last led with."""
        return _last_noted(self.get_session(session_id), "model", "llm")

    def get_session_reasoning_effort(self, session_id: str) -> str | None:
        """Returns the reasoning effort that a session was last led with."""
        return _last_noted(self.get_session(session_id), "reasoning_effort")

    def session_exists(self, session_id: str) -> bool:
        """Returns whether a session has a file, be it damaged."""
        return self._core.exists(session_id)

    def delete_session(self, session_id: str) -> bool:
        """Removes a session and its archive; nothing is done where there is none.

        Returns:
            `True`: there is no such session any more. `False` only where the store is not strict.
        """
        deleted: bool | None = self._core.delete(session_id, timeout_s=self.lock_timeout)
        return deleted is not None

    def set_runtime_state(
        self,
        session_id: str,
        runtime_id: str,
        turn_id: str,
        state: Mapping[str, object],
        mirror_enabled: bool = True,  # noqa: FBT001, FBT002  # the peer's signature
    ) -> bool:
        """Keeps the state of a runtime's turn; nothing is done unless `mirror_enabled`."""
        path = ["runtime_state", runtime_id, turn_id]
        return self._edit(session_id, ("set", path, dict(state))) if mirror_enabled else True

    def get_runtime_state(
        self, session_id: str, runtime_id: str, turn_id: str | None = None
    ) -> dict[str, object]:
        """Returns the state of a runtime's turn, or of all its turns; empty when there is none."""
        turns = self.get_session(session_id).runtime_state.get(runtime_id, {})
        if turn_id is None:
            return cast("dict[str, object]", turns)
        return turns.get(turn_id, {})

    def clear_runtime_state(self, session_id: str, runtime_id: str | None = None) -> bool:
        """Removes the states of a runtime, or of all."""
        if runtime_id is None:
            return self._edit(session_id, ("set", ["runtime_state"], {}))
        return self._edit(session_id, ("remove", ["runtime_state", runtime_id]))

    def invalidate_cache(self, session_id: str | None = None) -> None:
        """Lets go of the memory of a session, or of all; what is read is always the file."""
        self._core.forget(session_id)

    def flush_mirror(self, timeout: float | None = None) -> bool:
        """Waits until the mirror has what was stored so far, or has failed to take it.

        Args:
            timeout: Seconds to wait at most; `None` for as long as it takes.

        Returns:
            Whether that is so; `True` without a mirror.
        """
        return self._mirror_writer is None or self._mirror_writer.flush(timeout)

    def close_mirror(self) -> None:
        """Sends what waits for the mirror, and sends it nothing from then on."""
        if self._mirror_writer is not None:
            self._mirror_writer.close()

    def _send(self, session_id: str, *messages: dict[str, object]) -> bool:
        """Hands stored messages to the mirror, which nobody waits for."""
        if self._mirror_writer is not None and messages:
            records = [record(session_id, message) for message in messages]
            self._mirror_writer.enqueue(session_id, records)
        return True

    def _edit(self, session_id: str, *edits: tuple[object, ...]) -> bool:
        made: bool | None = self._core.edit(
            session_id,
            list(edits),
            now=time.time(),
            timeout_s=self.lock_timeout,
            policy=(self.retention, self.active_window),
        )
        # Nothing to change is as good as changed. A core that is not strict answers `None`.
        return made is not None

    def _report_failure(self, failure: PersistFailure) -> None:
        logger.error("session %r: %s", failure.session_id, failure.error)
        if self._on_failure is not None:
            self._on_failure(failure)


def _whole(message: Mapping[str, object]) -> dict[str, object]:
    known = SessionMessage.from_dict(message)
    known.content = known.content or ""
    return known.to_dict()


def _last_noted(session: SessionData, *keys: str) -> str | None:
    for key in keys:
        value = session.metadata.get(key)
        if isinstance(value, str) and value:
            return value
    for message in reversed(session.messages):
        value = (message.metadata or {}).get(keys[0])
        if isinstance(value, str) and value:
            return value
    return None


__all__ = ["Conversations"]

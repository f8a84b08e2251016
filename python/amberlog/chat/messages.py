"""What a chat session consists of: messages, a checkpoint, and the session around them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

_MIRRORED = (
    "model",
    "llm",
    "total_tokens",
    "token_count",
    "cost",
    "source",
    "reasoning_effort",
)
# What of a stored session is only taken apart when it is asked for.
_LATE = ("messages", "metadata", "runtime_state", "archived_messages", "extra")
_MESSAGE_KEYS = frozenset(
    {"role", "content", "timestamp", "metadata", "tool_calls", "tool_call_id"}
)
_CHECKPOINT_KEYS = frozenset(
    {
        "summary",
        "message_index",
        "role",
        "tokens_before",
        "tokens_after",
        "timestamp",
        "metadata",
    }
)
_SESSION_KEYS = frozenset(
    {
        "session_id",
        "messages",
        "created_at",
        "updated_at",
        "agent_name",
        "user_id",
        "metadata",
        "gateway_session_id",
        "agent_id",
        "runtime_state",
        "archived_messages",
        "last_compaction",
        *_MIRRORED,
    }
)


@dataclass
class SessionMessage:
    """One message of a session.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`.
        content: What was said; usually text, but any JSON value is kept.
        timestamp: Seconds since 1970.
        metadata: The caller's own.
        tool_calls: The calls that an assistant's message asks for.
        tool_call_id: The call that a tool's message answers.
        extra: Keys of the stored message that this class does not know.
    """

    role: str
    content: object
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, object] = field(default_factory=dict)
    tool_calls: list[dict[str, object]] | None = None
    tool_call_id: str | None = None
    extra: dict[str, object] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, object]:
        """Returns the message as it is stored."""
        stored: dict[str, object] = {
            "role": self.role,
            "content": self.content,
            "timestamp": self.timestamp,
            "metadata": self.metadata,
        }
        if self.tool_calls:
            stored["tool_calls"] = self.tool_calls
        if self.tool_call_id is not None:
            stored["tool_call_id"] = self.tool_call_id
        return {**stored, **self.extra}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> SessionMessage:
        """Builds a message from its stored form, in which every key may be missing."""
        given = {key: value for key, value in data.items() if key in _MESSAGE_KEYS}
        extra = {key: value for key, value in data.items() if key not in _MESSAGE_KEYS}
        defaults: dict[str, object] = {"role": "user", "content": ""}
        return cls(**{**defaults, **given}, extra=extra)  # type: ignore[arg-type]

    def to_llm_message(self) -> dict[str, object]:
        """Returns no more of the message than a model needs."""
        message: dict[str, object] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


@dataclass
class CompactionCheckpoint:
    """A summary that stands in for the messages before it when a session is resumed.

    Attributes:
        summary: What a model reads instead of them.
        message_index: How many messages of the window it speaks of.
        role: Whose words the summary is.
        tokens_before: Tokens before the compaction.
        tokens_after: Tokens after it.
        timestamp: Seconds since 1970.
        metadata: The caller's own.
        extra: Keys of the stored checkpoint that this class does not know.
    """

    summary: str
    message_index: int = 0
    role: str = "system"
    tokens_before: int = 0
    tokens_after: int = 0
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, object] = field(default_factory=dict)
    extra: dict[str, object] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, object]:
        """Returns the checkpoint as it is stored."""
        return {
            "summary": self.summary,
            "message_index": self.message_index,
            "role": self.role,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "timestamp": self.timestamp,
            "metadata": self.metadata,
            **self.extra,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> CompactionCheckpoint:
        """Builds a checkpoint from its stored form, in which every key may be missing."""
        given = {key: value for key, value in data.items() if key in _CHECKPOINT_KEYS}
        extra = {key: value for key, value in data.items() if key not in _CHECKPOINT_KEYS}
        return cls(**{"summary": "", **given}, extra=extra)  # type: ignore[arg-type]

    def as_message(self) -> dict[str, str]:
        """Returns the summary as a message for a model."""
        return {"role": self.role, "content": self.summary}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


@dataclass
class SessionData:
    """A session as it is stored, or as it would be.

    Attributes:
        session_id: The id, exactly as it was given.
        messages: The active window, oldest first.
        created_at: When it was made, ISO 8601 in UTC.
        updated_at: When it was last written.
        agent_name: The agent that talked.
        user_id: The user that it talked to.
        metadata: The caller's own, with keys that agents know.
        gateway_session_id: The id outside that leads here.
        agent_id: The gateway's agent.
        runtime_state: The states of runtimes: `{runtime: {turn: state}}`.
        archived_messages: What compacting moved out of the window, oldest first.
        last_compaction: The newest checkpoint.
        extra: Keys of the stored session that this class does not know.
    """

    session_id: str
    messages: list[SessionMessage] = field(default_factory=list)
    created_at: str = field(default_factory=_now)
    updated_at: str = field(default_factory=_now)
    agent_name: str | None = None
    user_id: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    gateway_session_id: str | None = None
    agent_id: str | None = None
    runtime_state: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)
    archived_messages: list[SessionMessage] = field(default_factory=list)
    last_compaction: CompactionCheckpoint | None = None
    extra: dict[str, object] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, object]:
        """Returns the session as it is stored."""
        stored: dict[str, object] = {
            "session_id": self.session_id,
            "messages": [message.to_dict() for message in self.messages],
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "agent_name": self.agent_name,
            "user_id": self.user_id,
            "metadata": self.metadata,
            "gateway_session_id": self.gateway_session_id,
            "agent_id": self.agent_id,
            "runtime_state": self.runtime_state,
            "archived_messages": [message.to_dict() for message in self.archived_messages],
        }
        if self.last_compaction is not None:
            stored["last_compaction"] = self.last_compaction.to_dict()
        mirrored = {key: self.metadata[key] for key in _MIRRORED if key in self.metadata}
        return {**stored, **mirrored, **self.extra}

    @classmethod
    def of_text(cls, head: Mapping[str, object], text: bytes) -> SessionData:
        """Returns the session of a stored text, which is taken apart when more is asked of it.

        Args:
            head: Its short values, or nothing: then it is taken apart at once.
            text: The whole of it as JSON, which is known to be sound.
        """
        if not head:
            return cls.from_dict(json.loads(text))
        session = cls.__new__(cls)
        session.__dict__.update(head, _text=text)
        return session

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Takes the stored text apart, for what is asked of it first."""
            text = self.__dict__.get("_text")
            if text is not None and name in _LATE:
                whole = SessionData.from_dict(json.loads(text))
                for key in _LATE:
                    self.__dict__.setdefault(key, whole.__dict__[key])
                self.__dict__.pop("_text", None)
            # Another thread may have been quicker.
            if name in self.__dict__:
                return self.__dict__[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> SessionData:
        """Builds a session from its stored form, in which every key may be missing.

        What is no object among the messages is left out, and the checkpoint moves with it.
        """
        raw = _sequence(data.get("messages"))
        metadata = {**_mapping(data.get("metadata"))}
        for key in _MIRRORED:
            if key not in metadata and data.get(key) is not None:
                metadata[key] = data[key]
        given: dict[str, object] = {
            key: data[key]
            for key in ("created_at", "updated_at", "agent_name", "user_id")
            if key in data
        }
        return cls(
            session_id=str(data.get("session_id", "")),
            messages=_messages(raw),
            metadata=metadata,
            gateway_session_id=data.get("gateway_session_id"),  # type: ignore[arg-type]
            agent_id=data.get("agent_id"),  # type: ignore[arg-type]
            runtime_state=data.get("runtime_state") or {},  # type: ignore[arg-type]
            archived_messages=_messages(_sequence(data.get("archived_messages"))),
            last_compaction=_checkpoint(data.get("last_compaction"), raw),
            extra={key: value for key, value in data.items() if key not in _SESSION_KEYS},
            **given,  # type: ignore[arg-type]
        )

    @staticmethod
    def _trim_preserving_tool_exchanges(
        messages: list[SessionMessage], max_messages: int | None
    ) -> list[SessionMessage]:
        """Returns the newest messages, without results whose call is cut off."""
        if not max_messages or len(messages) <= max_messages:
            return messages
        start = len(messages) - max_messages
        while start < len(messages) and messages[start].role == "tool":
            start += 1
        return messages[start:]

    def get_chat_history(self, max_messages: int | None = None) -> list[dict[str, object]]:
        """Returns the newest messages for a model.

        Args:
            max_messages: How many at most; all when it is `None` or 0.
        """
        kept = self._trim_preserving_tool_exchanges(self.messages, max_messages)
        return [message.to_llm_message() for message in kept]

    def trim_messages(self, max_messages: int) -> None:
        """Drops the oldest messages and moves the checkpoint with them.

        Args:
            max_messages: How many stay at most.
        """
        dropped = len(self.messages) - max(max_messages, 0)
        if dropped <= 0:
            return
        self.messages = self.messages[dropped:]
        if self.last_compaction is not None:
            anchor = self.last_compaction.message_index - dropped
            self.last_compaction.message_index = max(0, anchor)

    def get_working_history(self, max_messages: int | None = None) -> list[dict[str, object]]:
        """Returns the checkpoint's summary and the messages after it, for a model.

        Without a checkpoint these are the newest messages.

        Args:
            max_messages: How many at most, the summary included; all when it is `None` or 0.
        """
        if self.last_compaction is None:
            return self.get_chat_history(max_messages)
        anchor = max(0, min(self.last_compaction.message_index, len(self.messages)))
        tail = self.messages[anchor:]
        if max_messages and max_messages > 0 and len(tail) + 1 > max_messages:
            room = max_messages - 1
            tail = self._trim_preserving_tool_exchanges(tail, room) if room else []
        summary: dict[str, object] = {**self.last_compaction.as_message()}
        return [summary, *(message.to_llm_message() for message in tail)]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _messages(raw: Sequence[object]) -> list[SessionMessage]:
    return [SessionMessage.from_dict(item) for item in raw if isinstance(item, dict)]


def _checkpoint(value: object, raw: Sequence[object]) -> CompactionCheckpoint | None:
    if not value or not isinstance(value, Mapping):
        return None
    checkpoint = CompactionCheckpoint.from_dict(value)
    strangers = sum(not isinstance(item, dict) for item in raw[: checkpoint.message_index])
    checkpoint.message_index = max(0, checkpoint.message_index - strangers)
    return checkpoint


__all__ = ["CompactionCheckpoint", "SessionData", "SessionMessage"]

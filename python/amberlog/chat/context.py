"""Whose message is being handled: known to the task that handles it, and to no other."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Origin:
    """Where a message came from.

    Attributes:
        platform: The platform, `telegram`.
        chat_type: `group`, `direct` or `channel`.
        display_name: What people call the place.
        thread_id: The thread in it.
    """

    platform: str = ""
    chat_type: str = ""
    display_name: str = ""
    thread_id: str = ""


@dataclass(frozen=True)
class ReachableTarget:
    """A place that an agent can write to.

    Attributes:
        name: What people call it.
        platform: The platform, `telegram`.
        channel_id: Its id there.
        kind: `home` or `alias`.
    """

    name: str
    platform: str
    channel_id: str
    kind: str = "alias"


@dataclass(frozen=True)
class SessionContext:
    """The message that is being handled.

    Attributes:
        platform: The platform that it came by.
        chat_id: The chat.
        chat_name: What people call the chat.
        thread_id: The thread in it.
        user_id: The user's id on the platform.
        user_name: The user's name there.
        unified_user_id: The user's id across platforms.
        origin: Where the message came from, where that is known.
        reachable_targets: Where an answer may go, where that is known.
        session_id: The session that the message belongs to.
    """

    platform: str = ""
    chat_id: str = ""
    chat_name: str = ""
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    unified_user_id: str = ""
    origin: Origin | None = None
    reachable_targets: list[ReachableTarget] | None = None
    session_id: str = ""

    def to_dict(self) -> dict[str, object]:
        """Returns the context as nested dicts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> SessionContext:
        """Builds a context from what `to_dict` returned; what is missing is empty."""
        texts = {name: str(d.get(name) or "") for name in _TEXTS}
        origin = d.get("origin")
        targets = d.get("reachable_targets")
        return cls(
            **texts,
            origin=Origin(**origin) if isinstance(origin, dict) else None,
            reachable_targets=(
                [ReachableTarget(**target) for target in targets if isinstance(target, dict)]
                if isinstance(targets, list)
                else None
            ),
        )


_TEXTS = (
    "platform",
    "chat_id",
    "chat_name",
    "thread_id",
    "user_id",
    "user_name",
    "unified_user_id",
    "session_id",
)
_EMPTY = SessionContext()
_context: ContextVar[SessionContext] = ContextVar("amberlog_session_context", default=_EMPTY)


def set_session_context(  # noqa: PLR0913, PLR0917  # the peer's signature, and one more
    platform: str = "",
    chat_id: str = "",
    chat_name: str = "",
    thread_id: str = "",
    user_id: str = "",
    user_name: str = "",
    unified_user_id: str = "",
    origin: Origin | None = None,
    reachable_targets: list[ReachableTarget] | None = None,
    session_id: str = "",
) -> Token[SessionContext]:
    """Sets the context of the task at hand, and of what it starts from now on.

    Returns:
        What `clear_session_context` needs to bring the context before back.
    """
    return _context.set(
        SessionContext(
            platform=platform,
            chat_id=chat_id,
            chat_name=chat_name,
            thread_id=thread_id,
            user_id=user_id,
            user_name=user_name,
            unified_user_id=unified_user_id,
            origin=origin,
            reachable_targets=reachable_targets,
            session_id=session_id,
        )
    )


def get_session_context() -> SessionContext:
    """Returns the context of the task at hand; an empty one where none was set."""
    return _context.get()


def clear_session_context(token: Token[SessionContext]) -> None:
    """Brings the context back that stood before `set_session_context`.

    A token of another task, or one used already, leaves an empty context: never another's.
    """
    try:
        _context.reset(token)
    except (ValueError, RuntimeError):
        _context.set(_EMPTY)


__all__ = [
    "Origin",
    "ReachableTarget",
    "SessionContext",
    "clear_session_context",
    "get_session_context",
    "set_session_context",
]

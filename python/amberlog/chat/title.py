"""What people may call a session that nobody has given a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from amberlog.chat.messages import SessionData

    TitleWriter: TypeAlias = Callable[[str, str], Awaitable[str]]

_LONGEST = 60
_DOTS = "..."


def title_of(message: str) -> str:
    """Returns the first sentence of a message, in 60 characters at most."""
    line = " ".join(message.split()).replace("?", "").replace("!", "")
    title = line.split(".", 1)[0].strip() or "Chat Session"
    return title if len(title) <= _LONGEST else title[: _LONGEST - len(_DOTS)] + _DOTS


def first_exchange(session: SessionData) -> tuple[str, str] | None:
    """Returns what the user said first, and the answer; `None` before there is one."""
    asked = ""
    for message in session.messages:
        content = message.content if isinstance(message.content, str) else ""
        if not content.strip():
            continue
        if message.role == "user" and not asked:
            asked = content
        elif message.role == "assistant" and asked:
            return asked, content
    return None


__all__ = ["first_exchange", "title_of"]

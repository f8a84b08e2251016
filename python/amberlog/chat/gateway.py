"""What a running gateway offers to the task at hand, for tools that nobody hands it to."""

from __future__ import annotations

import unicodedata
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_LINE_ENDS = "\u2028\u2029"


class TaskSlot:
    """One thing that the task at hand has, and what it starts; other tasks have none, or their own.

    Args:
        name: What the thing is called.
    """

    def __init__(self, name: str) -> None:
        self._offered: ContextVar[object] = ContextVar(name, default=None)

    def register(self, offered: object) -> Token[object]:
        """Sets the thing, and returns what `clear` needs to bring the one before back."""
        return self._offered.set(offered)

    def get(self) -> object:
        """Returns the thing; `None` where there is none."""
        return self._offered.get()

    def clear(self, token: Token[object]) -> None:
        """Brings back what stood there before.

        A token of another task, or one used already, leaves nothing: never another's.
        """
        try:
            self._offered.reset(token)
        except (ValueError, RuntimeError):
            self._offered.set(None)


_outbound_messenger = TaskSlot("amberlog_outbound_messenger")
register_outbound_messenger = _outbound_messenger.register
get_outbound_messenger = _outbound_messenger.get
clear_outbound_messenger = _outbound_messenger.clear

_conversation_requester = TaskSlot("amberlog_conversation_requester")
register_conversation_requester = _conversation_requester.register
get_conversation_requester = _conversation_requester.get
clear_conversation_requester = _conversation_requester.clear

_request_channel = TaskSlot("amberlog_request_channel")
register_request_channel = _request_channel.register
get_request_channel = _request_channel.get
clear_request_channel = _request_channel.clear

_send_policy = TaskSlot("amberlog_send_policy")
register_send_policy = _send_policy.register
get_send_policy = _send_policy.get
clear_send_policy = _send_policy.clear

_gateway_status = TaskSlot("amberlog_gateway_status")
register_gateway_status = _gateway_status.register
get_gateway_status = _gateway_status.get
clear_gateway_status = _gateway_status.clear

# One for the process: the threads that tools run in do not have the gateway's context.
_loop: list[asyncio.AbstractEventLoop] = []


def register_gateway_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Sets the event loop of the process's gateway, for tools that run in other threads."""
    _loop[:] = [loop]


def get_gateway_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop of the process's gateway; `None` where there is none."""
    return _loop[0] if _loop else None


def clear_gateway_loop() -> None:
    """Forgets the event loop of the process's gateway."""
    _loop.clear()


def neutralize_untrusted_text(value: object, *, max_chars: int = 240) -> str:
    """Returns what a stranger called something as one short line, for use in a prompt.

    A name with line ends in it could pass for another part of the prompt. Control characters and
    line ends are blanks here, and several blanks are one.

    Args:
        value: The name.
        max_chars: How long it may be at most; a longer one ends in `...`. 0 is without a limit.
    """
    line = "".join(" " if _is_control(char) else char for char in str(value))
    line = " ".join(line.split())
    if not max_chars or len(line) <= max_chars:
        return line
    dots = "..."
    return line[: max_chars - len(dots)] + dots if max_chars > len(dots) else line[:max_chars]


def _is_control(char: str) -> bool:
    return char in _LINE_ENDS or unicodedata.category(char) == "Cc"


__all__ = [
    "TaskSlot",
    "clear_conversation_requester",
    "clear_gateway_loop",
    "clear_gateway_status",
    "clear_outbound_messenger",
    "clear_request_channel",
    "clear_send_policy",
    "get_conversation_requester",
    "get_gateway_loop",
    "get_gateway_status",
    "get_outbound_messenger",
    "get_request_channel",
    "get_send_policy",
    "neutralize_untrusted_text",
    "register_conversation_requester",
    "register_gateway_loop",
    "register_gateway_status",
    "register_outbound_messenger",
    "register_request_channel",
    "register_send_policy",
]

"""How text and values leave the program: nothing stored can move a cursor or break a stream."""

from __future__ import annotations

import base64
import functools
import io
import json
import math
import os
import re
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

# Control characters, what turns the direction of writing, line separators, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_BLOCK = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def prepare_streams() -> None:
    """Makes both streams write a substitute for what their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_stdout() -> None:
    """Points standard output at nothing, so that closing it cannot fail a second time."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Rich would end the program with an error; a reader who has seen enough is none.
        raise BrokenPipeError


@functools.cache
def console() -> Console:
    """Returns the console on standard output, which takes text as text, never as markup."""
    return _Console(highlight=False, markup=False, emoji=False)


@functools.cache
def error_console() -> Console:
    """Returns the console on standard error, where progress is shown."""
    return _Console(highlight=False, markup=False, emoji=False, stderr=True)


def line(text: str, style: str = "") -> None:
    """Prints one line, escaped and not wrapped."""
    if style:
        console().print(Text(safe(text), style=style), soft_wrap=True)
    else:
        sys.stdout.write(safe(text) + "\n")


def block(text: str, indent: str = "    ") -> None:
    """Prints text of several lines, escaped and indented."""
    for part in _UNSAFE_IN_BLOCK.sub(_escape, text).split("\n"):
        sys.stdout.write(f"{indent}{part}\n")


def emit(value: object) -> None:
    """Prints a value as strict JSON in one line of ASCII.

    Raw bytes become `{"base64": …}`; numbers that JSON does not have become null.
    """
    try:
        text = json.dumps(value, allow_nan=False, default=_encoded)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False, default=_encoded)
    sys.stdout.write(text + "\n")


def complain(message: str) -> None:
    """Prints one line on standard error."""
    sys.stderr.write(f"amberlog: {safe(message)}\n")


def safe(text: str) -> str:
    r"""Returns text with what a terminal would obey written out, such as `\x1b`."""
    return _UNSAFE.sub(_escape, text)


def preview(content: object, width: int = 120) -> str:
    """Returns the beginning of a content as one line; the texts of a list of parts are joined."""
    # A content may be hundreds of megabytes long, of which one line is wanted.
    words = text_of(content)[: width * 8].split()
    joined = " ".join(words)
    return joined if len(joined) <= width else joined[: width - 1] + "…"


def text_of(content: object) -> str:
    """Returns the text of a message's or an event's content."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("type") or "")
    return "" if content is None else str(content)


def text_of_event(event: Mapping[str, object]) -> str:
    """Returns the text of an event: what was said, came out of a tool, or was called."""
    for field in ("content", "output", "text", "error", "summary"):
        if event.get(field):
            return text_of(event[field])
    if "args" in event:
        return f"{event.get('name')} {json.dumps(event['args'], default=str)}"
    return text_of(event.get("name"))


def moment(ts: object) -> str:
    """Returns a time in seconds since 1970 as date and time in UTC."""
    if isinstance(ts, int | float) and math.isfinite(ts):
        try:
            return datetime.fromtimestamp(ts, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        except (OverflowError, OSError, ValueError):
            return str(ts)
    return str(ts)


def typed(argument: str) -> str:
    """Returns the text that was typed: in the C locale Python does not know that it is UTF-8."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004  # one byte


def _encoded(value: object) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return str(value)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value

"""What the peer's stores say of a stored session, for code that asks them for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

_AUTOMATED = frozenset({"scheduled", "automated", "cron", "system", "batch"})
_TALKING = frozenset({"user", "assistant"})
_CHAINS = ("lineage_id", "root_session_id", "thread_id")
_FEW_MESSAGES = 4
_FAST_AN_HOUR = 60.0
_HOUR_S = 3600.0
_TITLE_CHARS = 60


def title(data: Mapping[str, object]) -> str:
    """Returns what a list calls a session: its title, its agent, the first words, or its id."""
    for name in (_metadata(data).get("title"), data.get("agent_name")):
        if name:
            return str(name)
    for message in _objects(data.get("messages")):
        if message.get("role") == "user" and message.get("content"):
            return " ".join(str(message["content"]).split())[:_TITLE_CHARS]
    return str(data.get("session_id", ""))


def is_automated(data: Mapping[str, object], messages: Sequence[object]) -> bool:
    """Returns whether a session says that no person leads it, or is too fast for one."""
    metadata = _metadata(data)
    source = str(data.get("source") or metadata.get("source") or "").lower()
    if source in _AUTOMATED or metadata.get("automated") is True:
        return True
    times = [one["timestamp"] for one in _objects(messages) if one.get("timestamp") is not None]
    if len(times) < _FEW_MESSAGES or not all(isinstance(at, int | float) for at in times):
        return False
    numbers = cast("list[float]", times)
    span_s = max(numbers) - min(numbers)
    return span_s > 0 and len(numbers) / (span_s / _HOUR_S) > _FAST_AN_HOUR


def lineage_key(data: Mapping[str, object]) -> str | None:
    """Returns what is the same in all sessions that go on with one conversation."""
    metadata = _metadata(data)
    found = (data.get(key) or metadata.get(key) for key in _CHAINS)
    return next((str(key) for key in found if key), None)


def bookends(messages: Sequence[object], size: int) -> dict[str, list[dict[str, object]]]:
    """Returns the first and the last messages of user and assistant."""
    said = [
        {
            "index": index,
            "role": message.get("role", ""),
            "content": message.get("content", ""),
            "timestamp": message.get("timestamp"),
            "archived": bool(message.get("archived")),
        }
        for index, message in enumerate(messages)
        if isinstance(message, Mapping) and message.get("role") in _TALKING
    ]
    if not said:
        return {}
    return {"opening": said[:size], "closing": said[-size:] if len(said) > size else []}


def snippet(content: object, query: str, width: int = 120) -> str:
    """Returns a text cut around the words that were looked for."""
    text = " ".join(str(content).split())
    found = text.lower().find(query.lower())
    if found < 0:
        return text[:width]
    start = max(0, found - width // 2)
    end = min(len(text), start + width)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def searchable_messages(data: Mapping[str, object]) -> list[dict[str, object]]:
    """Returns archived messages, marked as such, and those of the window."""
    archived = [{**one, "archived": True} for one in _objects(data.get("archived_messages"))]
    return archived + list(_objects(data.get("messages")))


def _metadata(data: Mapping[str, object]) -> Mapping[str, object]:
    found = data.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _objects(found: object) -> list[dict[str, object]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, Sequence) else []


__all__ = [
    "bookends",
    "is_automated",
    "lineage_key",
    "searchable_messages",
    "snippet",
    "title",
]

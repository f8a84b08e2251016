"""What searches over all sessions are judged by: plain readings of the session files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from amberlog import SessionStore
from amberlog.recall import RECALL_NAME
from support import independent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from amberlog import Recall, RecallHit

PLAIN_WORD = re.compile(r"(?<![\w\u0080-\U0010ffff])[a-z]{4,}(?![\w\u0080-\U0010ffff])")
SPOKEN = ("user_input", "text_chunk")


def tell(path: Path, *said: str, agent: str = "alice", **meta: object) -> Path:
    """Makes a session in which a user says something, turn by turn; returns its path."""
    with SessionStore(path) as store:
        store.init_meta(path.name, "agent", "/c", "/w", [agent])
        for key, value in meta.items():
            store.meta[key] = value
        for turn, text in enumerate(said, 1):
            store.append_event(agent, "user_input", {"content": text}, turn_index=turn)
    return path


def spoken(path: Path) -> dict[str, str]:
    """Returns what people and agents said in a session without branches, by the event's key."""
    found = {}
    for key, event in independent.rows(path, "events").items():
        fields = cast("Mapping[str, object]", event)
        content = fields.get("content")
        if fields.get("type") in SPOKEN and isinstance(content, str) and content.strip():
            found[key] = content
    return found


def holding(texts: Mapping[tuple[str, str], str], word: str) -> set[tuple[str, str]]:
    """Returns the keys of the texts that hold exactly this word, in whatever case."""
    return {key for key, text in texts.items() if word in PLAIN_WORD.findall(text.lower())}


def found_keys(hits: list[RecallHit]) -> set[tuple[str, str]]:
    """Returns file and event of each hit."""
    return {(hit.path, hit.event_key) for hit in hits}


def sessions_of(recall: Recall, query: str) -> list[str]:
    """Returns the sessions of the best hits for a query, the best first."""
    return [hit.session for hit in recall.search(query, k=100)]


def files_beside(directory: Path) -> set[str]:
    """Returns the names of everything below a directory but the index itself."""
    below = (path.relative_to(directory) for path in directory.rglob("*"))
    return {str(path) for path in below if path.parts[0] != RECALL_NAME}

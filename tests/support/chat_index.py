"""Looking into the index of a chat directory from another process, and a model of its search."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, cast

from support.children import run_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Message = Mapping[str, object]

_ASK = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
answers = [connection.execute(statement).fetchall() for statement in sys.argv[2:]]
connection.close()
print(json.dumps(answers[-1]))
"""


def asked(index: Path | str, *statements: str) -> list[list[object]]:
    """Runs statements on an index by Python's SQLite, and returns the rows of the last one."""
    return cast("list[list[object]]", json.loads(run_code(_ASK, str(index), *statements)))


def write(directory: Path, session_id: str, texts: Sequence[str], **fields: object) -> None:
    """Writes a session as a process does that knows of no index."""
    messages = [
        {"role": "user", "content": text, "timestamp": 1.7e9 + 600 * at, "metadata": {}}
        for at, text in enumerate(texts)
    ]
    stored = {
        "session_id": session_id,
        "messages": messages,
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": "2026-01-01T00:00:00+00:00",
        "metadata": {},
        **fields,
    }
    scratch = directory / f"{session_id}.scratch"
    scratch.write_text(json.dumps(stored, ensure_ascii=False, indent=2), encoding="utf-8")
    scratch.replace(directory / f"{session_id}.json")


def scores(sessions: Mapping[str, Sequence[str]], query: str) -> dict[str, float]:
    """Returns what each session scores by the peer's rules, marks on letters aside."""
    found: dict[str, float] = {}
    for session_id, texts in sessions.items():
        score = sum(_score(text.lower(), query.strip().lower()) for text in texts)
        if score:
            found[session_id] = score
    return found


def _score(text: str, query: str) -> float:
    score = 2.0 if query in text else 0.0
    for term in query.split():
        bare = _bare("".join(term).strip("".join(c for c in term if not c.isalnum())))
        score += float(term in text or (bool(bare) and bare in _bare(text)))
    return score


def _bare(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


__all__ = ["asked", "scores", "write"]

"""The chat stores by name, and their documents as other programs read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from amberlog.chat import (
    DefaultSessionStore,
    HierarchicalSessionStore,
    SqliteSessionStore,
    SqliteTranscriptStore,
)
from amberlog.cli import main
from support.children import run_code

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

STORES: dict[str, type[DefaultSessionStore]] = {
    "json": DefaultSessionStore,
    "indexed": SqliteSessionStore,
    "family": HierarchicalSessionStore,
    "rows": SqliteTranscriptStore,
}
IN_FILES = ("json", "indexed", "family")
KINDS = tuple(STORES)

# In a process of its own: closing a file drops the locks that this process has on it.
QUERYING = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/sessions.db")
print(json.dumps([json.loads(row[0]) for row in connection.execute("SELECT data FROM sessions")]))
"""

# What a child process begins with: a store of the kind that its first argument names.
MAKING = """
import json, os, sys
from support.chat_kinds import STORES
kind, directory = sys.argv[1:3]
store = STORES[kind](directory, retention="keep_all")
"""


def refuse_constant(name: str) -> object:
    """Raises at what is no JSON."""
    raise ValueError(name)


def documents(kind: str, directory: Path) -> dict[str, dict[str, object]]:
    """Returns every session's document by its id, read without the package."""
    found: list[dict[str, object]]
    if kind == "rows":
        found = json.loads(run_code(QUERYING, directory), parse_constant=refuse_constant)
    else:
        texts = [file.read_text(encoding="utf-8") for file in sorted(directory.glob("*.json"))]
        found = [json.loads(text, parse_constant=refuse_constant) for text in texts]
    assert len({str(one["session_id"]) for one in found}) == len(found)
    return {str(one["session_id"]): one for one in found}


def said(document: dict[str, object], part: str = "messages") -> list[str]:
    """Returns the contents of a document's messages."""
    return [str(one["content"]) for one in cast("list[dict[str, object]]", document[part])]


def options(kind: str, directory: Path) -> list[str]:
    """Returns the options that name a store to the shell."""
    if kind == "rows":
        return ["--db", str(directory / "sessions.db")]
    return ["--dir", str(directory)]


class Shell:
    """`amberlog chat` over a store, as a script meets it."""

    def __init__(self, kind: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._named = options(kind, directory)
        self._capsys = capsys

    def plain(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Returns the exit code and what was printed."""
        self._capsys.readouterr()
        code = main(["chat", command, *self._named, "--", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, command: str, *arguments: str, **asked: int) -> dict[str, object]:
        """Returns the answer as JSON; the command has to succeed."""
        numbers = [f"--{name}={value}" for name, value in asked.items()]
        self._capsys.readouterr()
        code = main(["chat", command, *self._named, *numbers, "--json", "--", *arguments])
        out, err = self._capsys.readouterr()
        assert (code, err) == (0, "")
        answer = json.loads(out, parse_constant=refuse_constant)
        return cast("dict[str, object]", answer)

    def listed(self) -> list[str]:
        """Returns the ids of all sessions, in their order."""
        rows = cast("list[dict[str, object]]", self.json("list", limit=10_000)["sessions"])
        return [str(row["session_id"]) for row in rows]

    def found(self, query: str) -> list[str]:
        """Returns the ids of the sessions that a search finds, in their order."""
        hits = cast("list[dict[str, object]]", self.json("search", query)["hits"])
        return [str(hit["session_id"]) for hit in hits]


__all__ = [
    "IN_FILES",
    "KINDS",
    "MAKING",
    "STORES",
    "Shell",
    "documents",
    "options",
    "said",
]

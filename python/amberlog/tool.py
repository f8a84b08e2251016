"""Searching a session from inside an agent's turn: two tools, their schemas, their text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._asking import MODES, Answer, Question, ask, asked, moment_of
from amberlog._asking_all import AnswerOfAll, ask_all
from amberlog._named import named_session
from amberlog.errors import SessionError
from amberlog.memory import SearchResult, SessionMemory
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from datetime import datetime

    from amberlog.embedding import Embedder
    from amberlog.recall import RecallHit

    Hit = SearchResult | RecallHit
    Place = SessionStore | str | os.PathLike[str]
    Moment = datetime | str | float

SEARCH, READ = "search_memory", "read_block"
"""The names of the tools."""

SCOPES = ("session", "all")
"""Where `search_memory` looks."""

MOST_HITS = 100
"""How many hits one call returns at most."""

SHOWN = 2_000
"""How many characters of a hit are shown; `read_block` returns the rest."""

WHOLE = 20_000
"""How many characters `read_block` returns at once, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool says to the model that called it.

    Attributes:
        text: The result, or what was wrong.
        is_error: Whether something was wrong.
    """

    text: str
    is_error: bool = False


def search_memory(
    store: Place,
    *,
    query: str,
    mode: str = "auto",
    k: int = 5,
    agent: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    scope: str = "session",
    embedder: Embedder | None = None,
) -> str:
    """Returns what a session, or all beside it, remember of a query, as text for a model.

    Only what was appended since the last call is indexed first. A hit is shown up to `SHOWN`
    characters, and says by which `read_block` the rest is had. Where the embedder fails, keywords
    answer, and the first line says so; only `semantic` raises.

    Args:
        store: The open session, or its file; a file is opened to write only where its index is
            behind and it may be written. For all sessions also their directory.
        query: Words; a phrase stands in double quotes.
        mode: `fts` (keywords), `semantic` (meaning), `hybrid` (both), or `auto`: both where the
            session has vectors, else keywords.
        k: At most this many hits, 1 to `MOST_HITS`.
        agent: Only what this agent said and did.
        since: Only what happened at this time or later: ISO 8601 (UTC where it names no zone),
            seconds since 1970, or a datetime.
        until: Only what happened at this time or earlier.
        scope: `session`, or `all` for every session of the directory, by keyword; a hit says then
            in which session it is.
        embedder: Makes vectors, also of what has none yet; by default that of the session's
            `embedding_config`, else `auto` asks by keyword and the other modes use the built-in
            one.

    Raises:
        ValueError: The query is blank, or an argument is out of its range; it is named.
        SessionNotFoundError: There is no such file.
        EmbeddingError: Only meaning was asked for, and there is nothing to make vectors with.
    """
    if not query.strip():
        raise ValueError("query: none is given; search_memory(query='...')")
    if not 1 <= k <= MOST_HITS:
        raise ValueError(f"k: {k} is not between 1 and {MOST_HITS}")
    question = Question(
        query, mode, k, agent, since=moment_of("since", since), until=moment_of("until", until)
    )
    if scope == "all":
        return _told(query, ask_all(_directory(store), question))
    if scope != "session":
        raise ValueError(f"scope: there is no {scope!r}; there are session, all")
    with _opened(store, mode, embedder) as opened:
        return _told(query, ask(opened, question, embedder=embedder))


def read_block(
    store: Place,
    block_id: str,
    *,
    session: str | None = None,
    start: int = 0,
    length: int = WHOLE,
) -> str:
    """Returns the text of a block whose beginning a search has shown.

    Args:
        store: The open session, or its file.
        block_id: The name that the search gave it.
        session: The exact name of another session of the directory, that the search found it in.
        start: From this character.
        length: At most so many characters; what is left is told at the end.

    Raises:
        ValueError: The session has no such block, or `start` or `length` is out of range.
    """
    if start < 0:
        raise ValueError(f"start: {start} is negative")
    if length < 1:
        raise ValueError(f"length: {length} is less than 1")
    place = store if session is None else named_session(_directory(store), session)
    with _opened(place, "fts", None) as opened, SessionMemory(opened) as memory:
        try:
            block = memory.read_block(block_id)
        except KeyError:
            raise ValueError(f"block_id: the session has no block {block_id!r}") from None
    total = len(block.content)
    if start and start >= total:
        raise ValueError(f"start: the block has {total} characters")
    end = start + length
    shown = block.content[start:end]
    if end < total:
        among = "" if session is None else f" session={session}"
        shown += f"... ({total} chars total; {READ} {block_id}{among} start={end})"
    return f"{_header(block)}\n{shown}\n"


def call_tool(
    store: Place,
    name: str,
    arguments: Mapping[str, object],
    *,
    embedder: Embedder | None = None,
) -> ToolOutput:
    """Runs the tool that a model has called, and returns what the model is to read.

    An argument of None is one that is not given, and a number may be spelt as text: models do both.
    What is wrong with the call becomes the output, so that the model can do better.

    Args:
        store: The open session, or its file.
        name: `search_memory` or `read_block`.
        arguments: What the model gave, by the schema.
        embedder: As for `search_memory`.
    """
    given = {key: value for key, value in arguments.items() if value is not None}
    if name == SEARCH and not given.get("query"):
        return ToolOutput(f"No query provided. Usage: {SEARCH}(query='...')", is_error=True)
    failed = "Search" if name == SEARCH else "Reading"
    try:
        return ToolOutput(_called(store, name, given, embedder))
    except (SessionError, OSError, TypeError, ValueError) as error:
        return ToolOutput(f"{failed} failed: {error}", is_error=True)


def openai_schema() -> list[dict[str, object]]:
    """Returns both tools as OpenAI's interfaces take them, strict: every argument stands in a call.

    An argument that is not given is null there, which `call_tool` understands.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "strict": True,
                "parameters": {
                    "type": "object",
                    "properties": {name: tool.nullable(name) for name in tool.arguments},
                    "required": list(tool.arguments),
                    "additionalProperties": False,
                },
            },
        }
        for tool in _TOOLS
    ]


def anthropic_schema() -> list[dict[str, object]]:
    """Returns both tools as Anthropic's interface takes them; the optional may be left out."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {
                "type": "object",
                "properties": {name: dict(shape) for name, shape in tool.arguments.items()},
                "required": list(tool.required),
                "additionalProperties": False,
            },
        }
        for tool in _TOOLS
    ]


_Shape = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool, and the JSON schema of each argument."""

    name: str
    description: str
    arguments: Mapping[str, _Shape]
    required: tuple[str, ...]

    def nullable(self, name: str) -> _Shape:
        """Returns the schema of an argument that null stands for where it is not given."""
        shape = dict(self.arguments[name])
        if name in self.required:
            return shape
        kinds = shape["type"]
        shape["type"] = [*(kinds if isinstance(kinds, list) else [kinds]), "null"]
        if isinstance(choices := shape.get("enum"), list):
            shape["enum"] = [*choices, None]
        return shape


_TOOLS = (
    _Tool(
        SEARCH,
        "Search earlier events of this session by words or by meaning: what was said, tool "
        "calls and their results. Use it to recall details that are no longer in the context. "
        "It does not search files.",
        {
            "query": {
                "type": "string",
                "description": 'What to look for; a phrase stands in "double quotes".',
            },
            "mode": {
                "type": "string",
                "enum": list(MODES),
                "description": "fts: words; semantic: meaning; hybrid: both; auto (default): the "
                "best that this session has.",
            },
            "k": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_HITS,
                "description": "How many hits at most; 5 by default.",
            },
            "agent": {"type": "string", "description": "Only what this agent said and did."},
            "since": {
                "type": "string",
                "description": "Only what happened at this time or later; ISO 8601, such as "
                "2026-03-01 or 2026-03-01T15:30:00Z.",
            },
            "until": {
                "type": "string",
                "description": "Only what happened at this time or earlier; ISO 8601.",
            },
            "scope": {
                "type": "string",
                "enum": list(SCOPES),
                "description": "session (default): this session; all: earlier sessions too.",
            },
        },
        ("query",),
    ),
    _Tool(
        READ,
        "Read the whole text of a block of which search_memory has shown the beginning.",
        {
            "block_id": {"type": "string", "description": "The name that search_memory gave it."},
            "session": {
                "type": "string",
                "description": "The session that search_memory found it in, where it names one.",
            },
            "start": {
                "type": "integer",
                "minimum": 0,
                "description": "From this character; 0 by default.",
            },
            "length": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many characters at most; {WHOLE} by default.",
            },
        },
        ("block_id",),
    ),
)


def _called(store: Place, name: str, given: Mapping[str, object], embedder: Embedder | None) -> str:
    known = {tool.name: tool for tool in _TOOLS}
    if name not in known:
        raise ValueError(f"there is no tool {name!r}; there are {', '.join(known)}")
    for argument in given:
        if argument not in known[name].arguments:
            raise ValueError(f"{argument}: {name} has no such argument")
    if name == READ:
        return read_block(
            store,
            _text(given, "block_id") or "",
            session=_text(given, "session"),
            start=_whole(given, "start", 0),
            length=_whole(given, "length", WHOLE),
        )
    return search_memory(
        store,
        query=_text(given, "query") or "",
        mode=_text(given, "mode") or "auto",
        k=_whole(given, "k", 5),
        agent=_text(given, "agent"),
        since=moment_of("since", given.get("since")),
        until=moment_of("until", given.get("until")),
        scope=_text(given, "scope") or "session",
        embedder=embedder,
    )


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{name}: {value!r} is not text")


def _whole(given: Mapping[str, object], name: str, usual: int) -> int:
    value = given.get(name, usual)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"{name}: {value!r} is not a whole number")


@contextmanager
def _opened(store: Place, mode: str, embedder: Embedder | None) -> Iterator[SessionStore]:
    if isinstance(store, SessionStore):
        yield store
        return
    with asked(store, mode, embedder=embedder) as opened:
        yield opened


def _directory(store: Place) -> Path:
    """Returns the directory of a session, or the one that was given."""
    if isinstance(store, SessionStore):
        if not store.readonly:
            # What was acknowledged counts, whatever the durability.
            store.flush()
        return Path(store.path).absolute().parent
    path = Path(store).expanduser()
    return path if path.is_dir() else path.absolute().parent


def _told(query: str, answer: Answer | AnswerOfAll) -> str:
    notice = [f"{answer.notice}\n"] if answer.notice else []
    if not answer.hits:
        return f"{answer.notice}\nNo results found." if answer.notice else "No results found."
    lines = [*notice, f"Found {len(answer.hits)} result(s) for: {query}\n"]
    hits: tuple[Hit, ...] = answer.hits
    for place, hit in enumerate(hits, 1):
        lines += [f"#{place} {_header(hit)}", _beginning(hit), ""]
    return "\n".join(lines)


def _header(hit: Hit) -> str:
    header = f"[round {hit.round_num}] {hit.block_type}"
    if hit.tool_name:
        header += f":{hit.tool_name}"
    if hit.agent:
        header += f" ({hit.agent})"
    if hit.age_str:
        header += f" {hit.age_str}"
    among = _session(hit)
    return header if among is None else f"{header} in {among}"


def _beginning(hit: Hit) -> str:
    total = len(hit.content)
    if total <= SHOWN:
        return hit.content
    among = _session(hit)
    place = hit.block_id if among is None else f"{hit.block_id} session={among}"
    return f"{hit.content[:SHOWN]}... ({total} chars total; {READ} {place})"


def _session(hit: Hit) -> str | None:
    """Returns the session that a hit is in, where it says so."""
    return None if isinstance(hit, SearchResult) else hit.session


__all__ = [
    "MOST_HITS",
    "READ",
    "SCOPES",
    "SEARCH",
    "SHOWN",
    "WHOLE",
    "ToolOutput",
    "anthropic_schema",
    "call_tool",
    "openai_schema",
    "read_block",
    "search_memory",
]

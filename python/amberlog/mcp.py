"""The tools of `amberlog.tool` for any agent that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import amberlog
from amberlog import tool
from amberlog._named import named_session
from amberlog.embedding import Embedder
from amberlog.errors import MissingExtraError, SessionError, SessionNotFoundError
from amberlog.index import get_session_index_default
from amberlog.tool import ToolOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server import Server
    from mcp.server.context import ServerRequestContext
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

    Context = ServerRequestContext[dict[str, object]]

LIST = "list_sessions"
MOST_LISTED = 100
"""How many sessions one call lists at most."""

_SESSION: Mapping[str, Mapping[str, object]] = {
    tool.SEARCH: {
        "type": "string",
        "description": "Only this session, by its exact name; all sessions when left out.",
    },
    tool.READ: {
        "type": "string",
        "description": "The exact name of the session that search_memory found the block in.",
    },
}
_LISTING: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "search": {
            "type": "string",
            "description": "Only sessions whose title, last words or agents hold all these words.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LISTED,
            "description": "How many at most; 20 by default.",
        },
    },
    "required": [],
    "additionalProperties": False,
}


def check_extra() -> None:
    """Raises where the library is missing.

    Raises:
        MissingExtraError: The extra `amberlog[mcp]` is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtraError(
            "an MCP server needs the package `mcp`: install amberlog[mcp]",
            extra="mcp",
            package="mcp",
        )


def create_server(
    place: str | os.PathLike[str], *, embedder: Embedder | None = None
) -> Server[dict[str, object]]:
    """Returns an MCP server over one session, or over all sessions of a directory.

    Its tools are `search_memory` and `read_block`, as in `amberlog.tool`, and over a directory
    `list_sessions`; there a search looks in all sessions, or in the `session` that it names. What
    is wrong with a call is the result of the tool, marked as an error. Nothing but the indexes is
    ever written.

    Args:
        place: The file of a session, or a session directory.
        embedder: As for `amberlog.tool.search_memory`.

    Raises:
        MissingExtraError: The extra `amberlog[mcp]` is not installed.
        SessionNotFoundError: There is neither a file nor a directory.
    """
    check_extra()
    home = Path(os.fsdecode(place)).expanduser().resolve()
    if not home.exists():
        raise SessionNotFoundError(f"there is no session `{home}`", path=str(home))
    tools = _Tools(home, embedder, is_directory=home.is_dir())
    return _server(tools)


def serve(place: str | os.PathLike[str], *, embedder: Embedder | None = None) -> None:
    """Answers on standard input and output until the input ends, as `create_server` does.

    Raises:
        MissingExtraError: The extra `amberlog[mcp]` is not installed.
        SessionNotFoundError: There is neither a file nor a directory.
    """
    server = create_server(place, embedder=embedder)
    from mcp.server.stdio import stdio_server  # noqa: PLC0415  # an extra

    async def answer() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    asyncio.run(answer())


@dataclass(frozen=True, slots=True)
class _Tools:
    """What the server offers, over a session or a directory."""

    home: Path
    embedder: Embedder | None
    is_directory: bool

    def described(self) -> list[dict[str, object]]:
        """Returns name, description and schema of each tool."""
        offered = deepcopy(tool.anthropic_schema())
        for one in offered:
            schema = cast("dict[str, object]", one["input_schema"])
            shapes = cast("dict[str, object]", schema["properties"])
            # One session is served alone; in a directory a name says which is meant.
            shapes.pop("scope", None)
            shapes.pop("session", None)
            if self.is_directory:
                shapes["session"] = dict(_SESSION[str(one["name"])])
        if not self.is_directory:
            return offered
        cast("list[str]", cast("dict[str, object]", offered[1]["input_schema"])["required"]).append(
            "session"
        )
        listing: dict[str, object] = {
            "name": LIST,
            "description": "List the recorded sessions, the one last active first.",
            "input_schema": dict(_LISTING),
        }
        return [*offered, listing]

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Runs a tool."""
        given = dict(arguments)
        for hidden in ("scope",) if self.is_directory else ("scope", "session"):
            if hidden in given:
                return ToolOutput(f"{hidden}: {name} has no such argument", is_error=True)
        try:
            if name == LIST and self.is_directory:
                return ToolOutput(self._listed(given))
            place = self._place(name, given) if self.is_directory else self.home
        except (SessionError, OSError, ValueError) as error:
            return ToolOutput(str(error), is_error=True)
        return tool.call_tool(place, name, given, embedder=self.embedder)

    def _place(self, name: str, given: dict[str, object]) -> Path:
        session = given.pop("session", None)
        if session is None and name == tool.SEARCH:
            given["scope"] = "all"
            return self.home
        if not isinstance(session, str) or not session:
            raise ValueError(f"session: the exact name of one is needed; {LIST} has them")
        return named_session(self.home, session)

    def _listed(self, given: Mapping[str, object]) -> str:
        asked = {name: value for name, value in given.items() if value is not None}
        for name in asked:
            if name not in ("search", "limit"):
                raise ValueError(f"{name}: {LIST} has no such argument")
        limit, search = asked.get("limit", 20), asked.get("search", "")
        if not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
            raise ValueError(f"limit: {limit!r} is not between 1 and {MOST_LISTED}")
        if not isinstance(search, str):
            raise ValueError(f"search: {search!r} is not text")  # noqa: TRY004  # told to a model
        page = get_session_index_default(self.home).list(search=search, limit=limit)
        shown = ("name", "title", "preview", "status", "last_active", "agents", "event_count")
        rows = [{field: row[field] for field in shown} for row in page.rows]
        return json.dumps({"sessions": rows, "total": page.total}, ensure_ascii=False, default=str)


def _server(tools: _Tools) -> Server[dict[str, object]]:
    # An extra that nobody else needs.
    from mcp import types  # noqa: PLC0415
    from mcp.server import Server  # noqa: PLC0415

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        del context, params
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=str(one["name"]),
                    description=str(one["description"]),
                    input_schema=cast("dict[str, object]", one["input_schema"]),
                    annotations=types.ToolAnnotations(read_only_hint=True),
                )
                for one in tools.described()
            ]
        )

    async def call(context: Context, params: CallToolRequestParams) -> CallToolResult:
        del context
        output = await asyncio.to_thread(tools.call, params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(text=output.text)], is_error=output.is_error
        )

    return Server(
        "amberlog",
        version=amberlog.__version__,
        instructions=(
            "Searches what AI agents said and did in earlier sessions. Search first; read a block "
            "whole where its beginning is not enough."
        ),
        on_list_tools=list_tools,
        on_call_tool=call,
    )


__all__ = ["LIST", "MOST_LISTED", "check_extra", "create_server", "serve"]

"""The tools over the Model Context Protocol, asked by the library's own client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import pytest

if not hasattr(pytest.importorskip("mcp"), "Client"):
    pytest.skip("needs version 2 of mcp; a peer may hold it at 1", allow_module_level=True)

from mcp import Client, StdioServerParameters, stdio_client

from amberlog import SessionStore, tool
from amberlog.cli import main
from amberlog.errors import SessionNotFoundError
from amberlog.index import close_session_index
from amberlog.mcp import create_server
from support.children import environment
from support.sessions import files_below, many, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.types import CallToolResult

    Calls = list[tuple[str, dict[str, object]]]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields a directory with three sessions, and a session outside of it."""
    directory = tmp_path / "sessions"
    many(directory, 3)
    record(tmp_path / "victim.kohakutr", "a secret")
    yield directory
    close_session_index()


async def asked(place: Path, calls: Calls) -> tuple[list[str], list[CallToolResult]]:
    """Returns the names of a server's tools, and what it answers to calls."""
    async with Client(create_server(place)) as client:
        names = [one.name for one in (await client.list_tools()).tools]
        return names, [await client.call_tool(name, given) for name, given in calls]


def texts(results: list[CallToolResult]) -> list[str]:
    """Returns what results say."""
    return [cast("str", getattr(result.content[0], "text", "")) for result in results]


def test_a_session_is_searched_as_in_process(directory: Path) -> None:
    path = directory / "s001.kohakutr"
    given: dict[str, object] = {"query": "words", "k": 2}
    wanted = tool.call_tool(path, "search_memory", given)

    names, results = asyncio.run(
        asked(path, [("search_memory", given), ("read_block", {"block_id": "alice:e0:p0"})])
    )

    assert names == ["search_memory", "read_block"]
    assert not any(result.is_error for result in results)
    assert texts(results)[0].splitlines()[2:] == wanted.text.splitlines()[2:]
    assert texts(results)[1].endswith("\nwords 1\n")


def test_what_is_recorded_meanwhile_is_found(directory: Path) -> None:
    path = directory / "s001.kohakutr"

    async def ask() -> list[CallToolResult]:
        async with Client(create_server(path)) as client:
            before = await client.call_tool("search_memory", {"query": "zebrafish42"})
            with SessionStore(path) as store:
                store.append_event("alice", "user_input", {"content": "the word zebrafish42"})
            return [before, await client.call_tool("search_memory", {"query": "zebrafish42"})]

    before, after = texts(asyncio.run(ask()))

    assert before == "No results found."
    assert "the word zebrafish42" in after


def test_the_sessions_of_a_directory_are_listed_and_searched_by_name(directory: Path) -> None:
    names, results = asyncio.run(
        asked(
            directory,
            [
                ("list_sessions", {}),
                ("list_sessions", {"search": "words 2", "limit": 1}),
                ("search_memory", {"query": "words", "session": "s002"}),
                ("read_block", {"block_id": "alice:e0:p0", "session": "s000.kohakutr"}),
            ],
        )
    )

    listed, narrowed, found, read = texts(results)
    assert names == ["search_memory", "read_block", "list_sessions"]
    assert {row["name"] for row in json.loads(listed)["sessions"]} == {"s000", "s001", "s002"}
    assert [row["name"] for row in json.loads(narrowed)["sessions"]] == ["s002"]
    assert "words 2" in found
    assert read.endswith("\nwords 0\n")


def test_what_is_wrong_with_a_call_is_its_result(directory: Path) -> None:
    calls: Calls = [
        ("search_memory", {"query": "x", "session": "none"}),
        ("search_memory", {"query": "", "session": "s001"}),
        ("search_memory", {"query": "x", "session": "s001", "mode": "magic"}),
        ("search_memory", {"query": "x", "session": 7}),
        ("read_block", {"block_id": "alice:e99:p0", "session": "s001"}),
        ("list_sessions", {"limit": 0}),
        ("list_sessions", {"limit": 10**30}),
        ("list_sessions", {"colour": "red"}),
        ("list_sessions", {"search": 5}),
        ("no_tool", {"session": "s001"}),
    ]

    _, results = asyncio.run(asked(directory, calls))

    assert all(result.is_error for result in results)
    words = ["none", "query", "mode", "session", "block_id"]
    words += ["limit", "limit", "colour", "search", "no_tool"]
    for text, word in zip(texts(results), words, strict=True):
        assert word in text


@pytest.mark.parametrize(
    "name",
    [
        "../victim",
        "..\\victim",
        "../victim.kohakutr",
        "%2e%2e%2fvictim",
        "/etc/passwd",
        ".",
        "..",
        "victim\0",
        "s*",
        "S001",
    ],
)
def test_no_name_leads_anywhere_but_to_its_session(directory: Path, name: str) -> None:
    before = files_below(directory.parent)

    _, results = asyncio.run(
        asked(directory, [("search_memory", {"query": "secret", "session": name})])
    )

    assert results[0].is_error
    assert "a secret" not in texts(results)[0]
    assert files_below(directory.parent) == before


def test_what_is_not_there_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        create_server(tmp_path / "none.kohakutr")

    assert not files_below(tmp_path)


def over_stdio(
    arguments: list[str], work: str, given: dict[str, object]
) -> tuple[list[str], CallToolResult]:
    """Starts the command as an agent does, and calls one tool."""

    async def ask(nothing: TextIO) -> tuple[list[str], CallToolResult]:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "amberlog", "mcp", *arguments],
            env=environment(),
        )
        async with Client(stdio_client(server, errlog=nothing)) as client:
            names = [one.name for one in (await client.list_tools()).tools]
            return names, await client.call_tool(work, given)

    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        return asyncio.run(ask(nothing))


def test_the_command_serves_a_session_on_stdio(directory: Path) -> None:
    path = directory / "s001.kohakutr"

    names, result = over_stdio([str(path)], "search_memory", {"query": "words"})

    assert names == ["search_memory", "read_block"]
    assert "words 1" in texts([result])[0]


def test_the_command_serves_a_directory_on_stdio(directory: Path) -> None:
    arguments = ["--dir", str(directory)]

    names, result = over_stdio(arguments, "search_memory", {"query": "words", "session": "s002"})

    assert "list_sessions" in names
    assert "words 2" in texts([result])[0]


def test_the_command_names_what_it_cannot_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [
        main(["mcp", str(tmp_path / "none.kohakutr")]),
        main(["mcp", "--dir", str(tmp_path / "none")]),
        main(["mcp", "s", "--dir", str(tmp_path)]),
    ]

    assert codes == [1, 1, 2]
    assert len(capsys.readouterr().err.splitlines()) == 3

"""One question to all sessions of a directory, by tool, command, route and MCP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
if not hasattr(pytest.importorskip("mcp"), "Client"):
    pytest.skip("needs version 2 of mcp; a peer may hold it at 1", allow_module_level=True)

from fastapi.testclient import TestClient
from mcp import Client

from amberlog import SessionStore, tool
from amberlog.cli import main
from amberlog.errors import NoEmbedderError
from amberlog.index import close_session_index
from amberlog.mcp import create_server
from amberlog.server import create_app
from support.sessions import files_below, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Body = dict[str, object]

LONG = "the deploy log says " + "all is well " * 400


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields a directory with three sessions of which two hold one word, and one that is none."""
    directory = tmp_path / "sessions"
    record(directory / "first.kohakutr", "a zebra at the door", agent="alice")
    record(directory / "second.kohakutr", "nothing here", LONG, agent="bob")
    record(directory / "third.kohakutr", "two words: zebra crossing", agent="carol")
    (directory / "broken.kohakutr").write_bytes(b"no session")
    record(tmp_path / "victim.kohakutr", "a secret zebra")
    yield directory
    close_session_index()


@pytest.fixture
def client(directory: Path) -> Iterator[TestClient]:
    """Yields a client of the application over that directory."""
    with TestClient(create_app(directory), raise_server_exceptions=False) as client:
        yield client


def sessions(text: str) -> set[str]:
    """Returns in which sessions a tool's text finds something."""
    return set(re.findall(r"^#\d+ .* in (\S+)$", text, re.MULTILINE))


def test_a_session_that_is_open_finds_what_others_hold(directory: Path) -> None:
    with SessionStore(directory / "second.kohakutr", durability="batch") as store:
        store.append_event("bob", "user_input", {"content": "our own zebra"})

        own = tool.search_memory(store, query="zebra")
        every = tool.search_memory(store, query="zebra", scope="all", k=20)

    assert own.startswith("Found 1 result(s)")
    assert sessions(every) == {"first", "second", "third"}
    assert "secret" not in every


def test_the_rest_of_a_long_hit_is_read_in_its_session(directory: Path) -> None:
    with SessionStore(directory / "first.kohakutr") as store:
        shown = tool.search_memory(store, query='"deploy log"', scope="all", agent="bob", k=9)
        cut = re.search(r"\((\d+) chars total; read_block (\S+) session=(\S+)\)", shown)
        assert cut is not None

        read = tool.call_tool(store, "read_block", {"block_id": cut[2], "session": cut[3]})

    assert cut[3] == "second"
    assert not read.is_error
    assert len(read.text.split("\n", 1)[1].removesuffix("\n")) == int(cut[1])
    assert LONG.rstrip() in read.text


@pytest.mark.parametrize("name", ["../victim", "victim", "/etc/passwd", "..", "*", "FIRST"])
def test_no_name_leads_out_of_the_directory(directory: Path, name: str) -> None:
    output = tool.call_tool(
        directory / "first.kohakutr", "read_block", {"block_id": "alice:e0:p0", "session": name}
    )

    assert output.is_error
    assert "secret" not in output.text


def test_meaning_is_refused_by_name_and_words_stand_in_for_both(directory: Path) -> None:
    with pytest.raises(NoEmbedderError):
        tool.search_memory(directory, query="zebra", mode="semantic", scope="all")
    with pytest.raises(ValueError, match=r"^scope: "):
        tool.search_memory(directory, query="zebra", scope="world")

    both = tool.search_memory(directory, query="zebra", mode="hybrid", scope="all")

    assert both.startswith("Embedding unavailable; using keyword search: ")
    assert sessions(both) == {"first", "third"}


def test_the_command_asks_all_sessions(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--all", "--dir", str(directory)]
    codes = [
        main(["search", *place, "zebra", "--json"]),
        main(["search", *place, "zebra", "--agent", "carol", "--by-session", "--json"]),
        main(["search", *place, "xyzzy"]),
    ]

    out, err = capsys.readouterr()
    every, carols, nothing = out.splitlines()
    hits = [cast("list[Body]", json.loads(line)["hits"]) for line in (every, carols)]
    assert (codes, err, nothing) == ([0, 0, 0], "", "no hits")
    assert {hit["session"] for hit in hits[0]} == {"first", "third"}
    assert [hit["path"] for hit in hits[1]] == ["third.kohakutr"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--all", "first", "zebra"],
        ["--all", "zebra", "--type", "text"],
        ["--all", "zebra", "--all-branches"],
        ["first"],
        ["first", "zebra", "--by-session"],
        ["first", "zebra", "--dir", "."],
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["search", *arguments])

    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_route_asks_all_sessions(client: TestClient, directory: Path) -> None:
    with SessionStore(directory / "second.kohakutr") as store:
        store.append_event("bob", "user_input", {"content": "the word zebrafish42"})

        fresh = client.get("/api/search", params={"q": "zebrafish42"}).json()
    every = client.get("/api/search", params={"q": "zebra", "k": 50}).json()
    one = client.get("/api/search", params={"q": "zebra", "session": "third"}).json()
    each = client.get("/api/search", params={"q": "zebra", "by_session": "true"}).json()

    assert [hit["session"] for hit in fresh["results"]] == ["second"]
    assert {hit["session"] for hit in every["results"]} == {"first", "third"}
    assert {hit["session"] for hit in one["results"]} == {"third"}
    assert len(each["results"]) == each["count"] == 2
    assert set(every) == {"query", "mode", "k", "count", "results"}


def test_the_route_says_where_words_had_to_do(client: TestClient) -> None:
    body = client.get("/api/search", params={"q": "zebra", "mode": "semantic"}).json()

    assert body["count"] > 0
    assert body["warning"].startswith("Embedding unavailable; using keyword search: ")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("k", "abc"),
        ("k", "0"),
        ("k", str(2**63)),
        ("mode", "magic"),
        ("since", "yesterday"),
        ("by_session", "perhaps"),
        ("colour", "red"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(client: TestClient, argument: str, value: str) -> None:
    answer = client.get("/api/search", params={"q": "x", argument: value})

    assert 400 <= answer.status_code < 500
    assert argument in answer.text


@pytest.mark.parametrize(
    "query", ["don't use", '"', 'a"b', "foo::bar", "C++", "AND", "NEAR(", "*", " ", "", "\0", "🚀"]
)
def test_no_query_is_an_error(client: TestClient, query: str) -> None:
    answer = client.get("/api/search", params={"q": query})

    assert answer.status_code == 200
    assert answer.json()["count"] == len(answer.json()["results"])


@pytest.mark.parametrize("value", ["x' OR '1'='1", "../victim", "*", ""])
def test_a_filter_is_matched_literally(client: TestClient, value: str) -> None:
    counts = [
        client.get("/api/search", params={"q": "zebra", name: value}).json()["count"]
        for name in ("agent", "session")
    ]

    assert counts == [0, 0]


def test_the_server_of_a_directory_asks_all_sessions_unless_one_is_named(directory: Path) -> None:
    async def ask() -> list[str]:
        async with Client(create_server(directory)) as client:
            results = [
                await client.call_tool("search_memory", {"query": "zebra", **given})
                for given in ({}, {"session": "third"})
            ]
            return [cast("str", getattr(one.content[0], "text", "")) for one in results]

    every, one = asyncio.run(ask())

    assert sessions(every) == {"first", "third"}
    assert "zebra crossing" in one
    assert "at the door" not in one


def test_the_server_of_a_session_shows_no_other(directory: Path) -> None:
    async def ask() -> list[bool]:
        async with Client(create_server(directory / "second.kohakutr")) as client:
            calls: list[tuple[str, Body]] = [
                ("search_memory", {"query": "zebra", "scope": "all"}),
                ("read_block", {"block_id": "alice:e0:p0", "session": "first"}),
            ]
            return [(await client.call_tool(name, given)).is_error for name, given in calls]

    refused = asyncio.run(ask())

    assert refused == [True, True]


def test_asking_leaves_nothing_but_indexes(directory: Path) -> None:
    before = {name for name in files_below(directory) if name.endswith(".kohakutr")}

    tool.search_memory(directory, query="zebra", scope="all")

    after = {name for name in files_below(directory) if not name.startswith(".")}
    assert {name for name in after if name.endswith(".kohakutr")} == before

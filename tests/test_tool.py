"""Searching a session from inside an agent's turn."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

import pytest

from amberlog import NullSessionStore, SessionStore, aio, errors, tool
from support.kohaku import unpack
from support.sessions import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = "the deploy log says " + "all is well " * 400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """Yields an open session in which two agents worked at known times."""
    with SessionStore(tmp_path / "task.kohakutr") as store:
        store.append_event("alice", "user_input", {"content": "Fix the auth bug", "ts": 1000.0})
        store.append_event("alice", "text", {"content": "The token never expires.", "ts": 1001.0})
        call = {"name": "read", "args": {"path": "src/auth.py"}, "ts": 1002.0}
        store.append_event("alice", "tool_call", call)
        result = {"name": "read", "output": LONG, "ts": 1003.0}
        store.append_event("alice", "tool_result", result)
        store.append_event("bob", "user_input", {"content": "Review the token", "ts": 2000.0})
        yield store


def headers(text: str) -> list[str]:
    """Returns the lines that begin a hit, without how long ago it was."""
    return [re.sub(r" \S+ ago$", "", line) for line in text.splitlines() if re.match(r"#\d", line)]


def test_the_text_is_that_of_the_peer(store: SessionStore) -> None:
    text = tool.search_memory(store, query="auth bug", k=1)

    # As the peer's tool writes it: a count, a blank line, a header, the content, a blank line.
    assert re.fullmatch(
        r"Found 1 result\(s\) for: auth bug\n\n#1 \[round 1\] user \(alice\) [\d.]+h ago\n"
        r"Fix the auth bug\n",
        text,
    )


def test_a_tool_is_named_and_nothing_found_is_said(store: SessionStore) -> None:
    called = tool.search_memory(store, query='"src/auth.py"')
    nothing = tool.search_memory(store, query="xyzzynonexistent")

    assert headers(called) == ["#1 [round 1] tool:read (alice)"]
    assert "[tool:read] path=src/auth.py" in called
    assert nothing == "No results found."


def test_a_long_hit_is_cut_and_says_how_to_read_the_rest(store: SessionStore) -> None:
    whole = f"[result:read] {LONG}"

    shown = tool.search_memory(store, query="deploy log", k=1)

    cut = re.search(r"\.\.\. \((\d+) chars total; read_block (\S+)\)", shown)
    assert cut is not None
    assert int(cut[1]) == len(whole)
    assert f"\n{whole[:2000]}... (" in shown
    assert tool.read_block(store, cut[2]).splitlines()[1] == whole.rstrip("\n")


def test_a_block_is_read_in_pieces(store: SessionStore) -> None:
    whole = f"[result:read] {LONG}"
    shown = tool.search_memory(store, query="deploy log", k=1)
    name = str(re.search(r"read_block (\S+)\)", shown)[1])  # type: ignore[index]  # it is there

    read, start = "", 0
    while True:
        piece = tool.read_block(store, name, start=start, length=1500).split("\n", 1)[1]
        more = re.search(r"\.\.\. \(\d+ chars total; read_block \S+ start=(\d+)\)\n$", piece)
        if more is None:
            read += piece.removesuffix("\n")
            break
        read += piece[: more.start()]
        start = int(more[1])

    assert read == whole


def test_what_was_appended_a_moment_ago_is_found(store: SessionStore) -> None:
    before = tool.search_memory(store, query="migrations")
    store.append_event("alice", "text", {"content": "Ran the migrations."})

    after = tool.search_memory(store, query="migrate")

    assert before == "No results found."
    assert headers(after) == ["#1 [round 1] text (alice)"]


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({"agent": "alice"}, ["alice"]),
        ({"agent": "bob"}, ["bob"]),
        ({"agent": "x' OR '1'='1"}, []),
        ({"since": 1500}, ["bob"]),
        ({"until": "1970-01-01T00:20:00Z"}, ["alice"]),
        ({"since": "1970-01-01T00:30:00+00:00"}, ["bob"]),
        ({"since": "1970-01-01", "until": "1970-01-02"}, ["alice", "bob"]),
        ({"since": datetime(1970, 1, 1, 0, 30, tzinfo=timezone.utc)}, ["bob"]),
        ({"since": "1000.5", "until": "1001.5"}, ["alice"]),
        ({"since": "2999-01-01"}, []),
    ],
)
def test_agents_and_times_narrow_a_search(
    store: SessionStore, narrowed: dict[str, str], found: list[str]
) -> None:
    text = tool.search_memory(store, query="token", **narrowed)  # type: ignore[arg-type]  # mixed

    assert sorted(re.findall(r"\((\w+)\)", " ".join(headers(text)))) == found


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": " "}, "query"),
        ({"query": "x", "mode": "magic"}, "mode"),
        ({"query": "x", "k": 0}, "k"),
        ({"query": "x", "k": 10**30}, "k"),
        ({"query": "x", "since": "yesterday"}, "since"),
        ({"query": "x", "until": float("nan")}, "until"),
        ({"query": "x", "until": "9" * 400}, "until"),
    ],
)
def test_a_wrong_argument_is_named(
    store: SessionStore, arguments: dict[str, str], named: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{named}: "):
        tool.search_memory(store, **arguments)  # type: ignore[arg-type]  # that is the point


def test_a_block_that_is_not_there_is_named(store: SessionStore) -> None:
    for name in ("", "nobody:e1:p0", "alice:e999999:p0", "alice:e4:p9", "'; DROP TABLE x", "a\0b"):
        with pytest.raises(ValueError, match="block_id"):
            tool.read_block(store, name)
    with pytest.raises(ValueError, match="start"):
        tool.read_block(store, "alice:e1:p0", start=10_000)


def test_what_is_wrong_with_a_call_is_told_to_the_model(store: SessionStore) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("search_memory", {}),
        ("search_memory", {"query": ""}),
        ("search_memory", {"query": "x", "mode": "magic"}),
        ("search_memory", {"query": "x", "colour": "red"}),
        ("search_memory", {"query": ["x"]}),
        ("search_memory", {"query": "x", "k": "many"}),
        ("search_memory", {"query": "x", "k": True}),
        ("read_block", {"block_id": "alice:e9:p9"}),
        ("drop_tables", {"query": "x"}),
    ]

    outputs = [tool.call_tool(store, name, given) for name, given in calls]

    assert all(output.is_error for output in outputs)
    assert outputs[0].text == "No query provided. Usage: search_memory(query='...')"
    assert outputs[2].text.startswith("Search failed: mode: ")
    words = ["colour", "query", "k:", "k:", "block_id", "tool"]
    for output, word in zip(outputs[3:], words, strict=True):
        assert word in output.text


def test_a_call_may_spell_numbers_and_leave_out_by_null(store: SessionStore) -> None:
    given: dict[str, object] = {"query": "token", "k": "1", "agent": None, "since": None}

    output = tool.call_tool(store, "search_memory", given)

    assert not output.is_error
    assert output.text == tool.search_memory(store, query="token", k=1)


def test_a_file_is_searched_like_an_open_session(tmp_path: Path, store: SessionStore) -> None:
    wanted = tool.search_memory(store, query="token")

    text = tool.search_memory(tmp_path / "task.kohakutr", query="token")

    assert headers(text) == headers(wanted)


def test_a_level_session_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "task.kohakutr"
    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "Fix the auth bug"})
        store.update_status("completed")
        store.close(update_status=False)
    before = path.read_bytes(), files_below(tmp_path)

    text = tool.search_memory(path, query="auth")

    assert headers(text) == ["#1 [round 1] user (alice)"]
    assert (path.read_bytes(), files_below(tmp_path)) == before


def test_a_session_of_the_peer_is_indexed_once_and_keeps_its_status(tmp_path: Path) -> None:
    path = unpack("vectors.kohakutr.gz", tmp_path, "vectors.kohakutr")
    with SessionStore.open_readonly(path) as reader:
        status = reader.load_meta()["status"]

    first = tool.search_memory(path, query="login token", mode="fts")
    size = path.stat().st_mtime_ns
    second = tool.search_memory(path, query="login token", mode="fts")

    assert headers(first)
    assert headers(first) == headers(second)
    assert path.stat().st_mtime_ns == size
    with SessionStore.open_readonly(path) as reader:
        assert reader.load_meta()["status"] == status


def test_a_missing_file_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(errors.SessionNotFoundError):
        tool.search_memory(tmp_path / "none.kohakutr", query="x")
    output = tool.call_tool(tmp_path / "none.kohakutr", "search_memory", {"query": "x"})

    assert output.is_error
    assert not files_below(tmp_path)


def test_a_session_that_keeps_nothing_has_no_results() -> None:
    with NullSessionStore() as nothing:
        assert tool.search_memory(nothing, query="x") == "No results found."


def test_the_schemas_describe_both_tools(store: SessionStore) -> None:
    ours, theirs = tool.openai_schema(), tool.anthropic_schema()

    functions = [cast("dict[str, object]", one["function"]) for one in ours]
    assert [one["name"] for one in functions] == ["search_memory", "read_block"]
    assert [one["name"] for one in theirs] == ["search_memory", "read_block"]
    for function in functions:
        # A strict schema of OpenAI names every argument and lets nothing else in.
        parameters = cast("dict[str, object]", function["parameters"])
        assert function["strict"] is True
        assert parameters["required"] == list(cast("dict[str, object]", parameters["properties"]))
        assert parameters["additionalProperties"] is False
    shapes = [cast("dict[str, object]", one["input_schema"]) for one in theirs]
    assert [shape["required"] for shape in shapes] == [["query"], ["block_id"]]
    assert json.loads(json.dumps([ours, theirs])) == [ours, theirs]
    everything: dict[str, object] = dict.fromkeys(
        cast("dict[str, object]", shapes[0]["properties"]), None
    )
    assert not tool.call_tool(store, "search_memory", everything | {"query": "auth"}).is_error


def test_the_tools_can_be_awaited(store: SessionStore) -> None:
    async def ask() -> tuple[str, str, tool.ToolOutput]:
        awaited = aio.AsyncSessionStore(store)
        return (
            await aio.search_memory(awaited, query="auth bug", k=1),
            await aio.read_block(store, "alice:e0:p0"),
            await aio.call_tool(awaited, "search_memory", {"query": "auth bug", "k": 1}),
        )

    found, read, called = asyncio.run(ask())

    assert headers(found) == headers(called.text) == ["#1 [round 1] user (alice)"]
    assert "Fix the auth bug" in read


@pytest.mark.parametrize(
    "query",
    ["park.", "don't use", '"', 'a"b', "foo::bar", "C++", "AND", "NEAR(", "*", "abc\ud83d", "a\0b"],
)
def test_no_query_is_an_error(store: SessionStore, query: str) -> None:
    store.append_event("alice", "text", {"content": f"said {query.encode(errors='ignore')!r}"})

    assert tool.search_memory(store, query=query)
    assert not tool.call_tool(store, "search_memory", {"query": query}).is_error

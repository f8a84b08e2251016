"""Asking a session's memory on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from amberlog import SessionStore
from amberlog.cli import main
from support.children import environment
from support.kohaku import contents, unpack

if TYPE_CHECKING:
    from pathlib import Path

    Hit = dict[str, object]

HOSTILE = "\x1b]0;title\x07[red]markup[/red] \u202egnp.exe zebra"
LONG = "nothing of note " * 40 + "the zebrafish " + "and so on " * 40


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Returns a session in which two agents worked at known times, on two branches."""
    path = tmp_path / "small.kohakutr"
    with SessionStore(path) as store:
        ask = {"content": "Where is the zebra?", "ts": 1000.0}
        store.append_event("alice", "user_input", ask, turn_index=1, branch_id=1)
        wrong = {"content": "In the kitchen.", "ts": 1001.0}
        store.append_event("alice", "text", wrong, turn_index=1, branch_id=1)
        store.append_event("alice", "user_input", ask, turn_index=1, branch_id=2)
        store.append_event("alice", "text", {"content": LONG}, turn_index=1, branch_id=2)
        store.append_event("bob", "user_input", {"content": HOSTILE, "ts": 2000.0})
        call = {"name": "grep", "args": {"pattern": "zebra"}, "ts": 2001.0}
        store.append_event("bob", "tool_call", call)
        store.append_event("bob", "note", {"content": "an okapi is no zebra", "ts": 2002.0})
    return path


def asked(
    capsys: pytest.CaptureFixture[str], session: Path, query: str, *options: str
) -> list[Hit]:
    """Returns the hits of a query."""
    code = main(["search", str(session), query, *options, "--json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return cast("list[Hit]", json.loads(out)["hits"])


def test_a_hit_says_where_it_stands(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hit = asked(capsys, session, "pattern")[0]

    wanted = {"agent": "bob", "kind": "tool", "tool_name": "grep", "round": 1, "block": 1}
    assert {key: hit[key] for key in wanted} == wanted
    assert (hit["event_key"], hit["block_id"]) == ("bob:e000001", "bob:e1:p0")
    assert hit["text"] == "[tool:grep] pattern=zebra"


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (("--agent", "bob"), {"bob:e000000", "bob:e000001", "bob:e000002"}),
        (("--kind", "tool,user", "--agent", "bob"), {"bob:e000000", "bob:e000001"}),
        (("--until", "1970-01-01T00:20:00Z", "--agent", "alice"), {"alice:e000002"}),
        (("--since", "2001", "--until", "2001.5"), {"bob:e000001"}),
        (("--type", "note"), {"bob:e000002"}),
    ],
)
def test_options_narrow_a_search(
    session: Path, options: tuple[str, ...], keys: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    hits = asked(capsys, session, "zebra", *options)

    assert {cast("str", hit.get("event_key") or _meta(hit)["event_key"]) for hit in hits} == keys


def test_what_was_taken_back_is_found_when_asked_for(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, whole = (
        asked(capsys, session, "kitchen", "--kind", "text", *options)
        for options in ((), ("--all-branches",))
    )

    assert not shown
    assert [hit["event_key"] for hit in whole] == ["alice:e000001"]


def test_what_only_the_events_hold_comes_after_the_blocks(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hits = asked(capsys, session, "okapi zebra", "--agent", "bob")

    assert hits[-1]["kind"] == "other"
    assert hits[-1]["text"] == "an okapi is no zebra"


def test_a_long_text_is_shown_around_the_words(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["search", str(session), "zebrafish", "--kind", "text"])

    out = capsys.readouterr().out
    assert code == 0
    assert "zebrafish" in out
    assert max(map(len, out.splitlines())) < 300


def test_nothing_stored_reaches_the_terminal_raw(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["search", str(session), "zebra"])

    out = capsys.readouterr().out
    assert code == 0
    assert not set(out) & set("\x1b\x07\0\u202e")
    assert "[red]markup[/red]" in out
    assert "\\x1b]0;title\\x07" in out


def test_a_session_of_the_peer_is_indexed_first_and_then_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unpack("vectors.kohakutr.gz", tmp_path, "vectors.kohakutr")
    first = asked(capsys, path, "login token", "--mode", "fts")
    before = contents(tmp_path)

    second = asked(capsys, path, "login token", "--mode", "fts")

    assert first
    assert [hit["block_id"] for hit in first] == [hit["block_id"] for hit in second]
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--mode", "magic"), "mode"),
        (("--since", "yesterday"), "since"),
        (("--until", ""), "until"),
        (("--kind", "magic"), "magic"),
        (("-k", "-1"), "-k"),
        (("-k", "1e3"), "-k"),
        (("--type", "text", "--mode", "semantic"), "--type"),
    ],
)
def test_a_wrong_option_is_named(
    session: Path,
    options: tuple[str, ...],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["search", str(session), "zebra", *options])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_any_query_works_in_any_encoding(session: Path, variables: dict[str, str]) -> None:
    with SessionStore(session) as store:
        store.append_event("bob", "text", {"content": "明天下午三点开项目评审会议 🚀"})
    # What a shell passes on are bytes.
    for query in ("评审", "🚀", "zebra", '"', "NEAR(", "*"):
        done = subprocess.run(
            [sys.executable, "-m", "amberlog", "search", str(session), query.encode()],
            env={**environment(), **variables},
            capture_output=True,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, b"")
        if query in ("评审", "🚀", "zebra"):
            assert b"round 1" in done.stdout


def test_a_closed_pipe_ends_quietly(session: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "amberlog", "search", str(session), "zebra"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, b"")


def _meta(hit: Hit) -> dict[str, str]:
    return cast("dict[str, str]", hit["meta"])

"""The commands over chat sessions, as a person or a script meets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import (
    DefaultSessionStore,
    HierarchicalSessionStore,
    SqliteTranscriptStore,
)
from amberlog.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "tea \x1b]0;title\x07 [red]markup[/red] 明天\u202e\nsecond line"


@pytest.fixture(params=["json", "transcript"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[DefaultSessionStore, list[str]]:
    """Returns a store with two sessions, and the options that name it."""
    store: DefaultSessionStore
    if request.param == "json":
        store = DefaultSessionStore(str(tmp_path))
        options = ["--dir", str(tmp_path)]
    else:
        store = SqliteTranscriptStore(str(tmp_path))
        options = ["--db", str(tmp_path / "sessions.db")]
    store.add_message("older/one", "user", "coffee")
    store.set_agent_info("older/one", "[bold]Anna\x1b[31m")
    store.add_message("one", "user", HOSTILE)
    store.rename_session("one", HOSTILE)
    store.append_compaction_checkpoint("one", f"Earlier: {HOSTILE}")
    store.add_message("one", "assistant", "", tool_calls=[{"id": "c", "function": {"name": "x"}}])
    store.set_gateway_info("one", "gw-1", "bot")
    return store, options


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["chat", *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    out = printed(capsys, *arguments, "--json")
    assert out.isascii()
    assert out.count("\n") == 1
    return cast("dict[str, object]", json.loads(out))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["chat", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("amberlog: ")
    assert err.count("\n") == 1
    return code, err


Home = tuple[DefaultSessionStore, list[str]]


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show", "one"],
        ["search", "tea"],
        ["checkpoint", "one"],
        ["route", "gw-1"],
        ["verify"],
    ],
)
def test_stored_text_is_no_markup_and_moves_no_cursor(
    place: Home, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    out = printed(capsys, *command, *place[1])

    assert not any(ord(char) < 32 and char != "\n" for char in out)
    assert "\u202e" not in out
    assert "[red]markup[/red]" in out or command[0] in {"route", "verify", "list"}


def test_a_list_begins_with_what_was_written_last(
    place: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = as_json(capsys, "list", *place[1])
    first = as_json(capsys, "list", "--limit", "1", *place[1])
    of_anna = as_json(capsys, "list", "--agent", "[bold]Anna\x1b[31m", *place[1])

    assert [row["session_id"] for row in cast("list[dict[str, object]]", listed["sessions"])] == [
        "one",
        "older/one",
    ]
    assert len(cast("list[object]", first["sessions"])) == 1
    assert [row["session_id"] for row in cast("list[dict[str, object]]", of_anna["sessions"])] == [
        "older/one"
    ]


def test_a_session_is_shown_whole(place: Home, capsys: pytest.CaptureFixture[str]) -> None:
    shown = as_json(capsys, "show", "one", *place[1])

    messages = cast("list[dict[str, object]]", shown["messages"])
    assert messages[0]["content"] == HOSTILE
    assert shown["gateway_session_id"] == "gw-1"


def test_a_search_shows_what_it_found(place: Home, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "search", "offe", *place[1])
    nothing = printed(capsys, "search", "nowhere", *place[1])

    hits = cast("list[dict[str, object]]", found["hits"])
    assert [hit["session_id"] for hit in hits] == ["older/one"]
    assert nothing == "nothing found\n"


def test_an_outside_id_leads_where_it_is_told(
    place: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    before = as_json(capsys, "route", "gw-1", *place[1])
    moved = as_json(capsys, "route", "gw-1", "--to", "older/one", "--agent-id", "b2", *place[1])
    printed(capsys, "route", "gw-1", "--clear", *place[1])
    code, error = refused(capsys, "route", "gw-1", *place[1])

    assert (before["session_id"], before["agent_id"]) == ("one", "bot")
    assert (moved["session_id"], moved["agent_id"]) == ("older/one", "b2")
    assert (code, "gw-1" in error) == (1, True)
    assert place[0].get_session("one").gateway_session_id is None


def test_a_checkpoint_is_made_and_shown(place: Home, capsys: pytest.CaptureFixture[str]) -> None:
    made = as_json(capsys, "checkpoint", "one", "--summary", "All of it", *place[1])
    none = printed(capsys, "checkpoint", "older/one", *place[1])
    code, _ = refused(capsys, "checkpoint", "one", "--summary", " ", *place[1])

    stored = cast("dict[str, object]", made["checkpoint"])
    assert (stored["summary"], stored["message_index"]) == ("All of it", 2)
    assert none == "no checkpoint\n"
    assert code == 2
    assert place[0].get_working_history("one") == [{"role": "system", "content": "All of it"}]


@pytest.mark.parametrize("command", ["show", "checkpoint", "export"])
def test_a_session_that_is_not_there_is_one_line_of_error(
    place: Home, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, error = refused(capsys, command, "nobody", *place[1])

    assert code == 1
    assert "nobody" in error
    assert not place[0].session_exists("nobody")


def test_nothing_is_made_where_there_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["list"], ["search", "x"], ["verify"], ["route", "x"], ["show", "x"]):
        for option in ("--dir", "--db"):
            code, _ = refused(capsys, *command, option, str(tmp_path / "none"))
            assert code == 1

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--limit", "0"],
        ["search"],
        ["route", "x", "--to", "y", "--clear"],
        ["route", "x", "--agent-id", "y"],
        ["migrate", "one"],
        ["unknown"],
    ],
)
def test_wrong_arguments_are_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, _ = refused(capsys, *arguments)

    assert code == 2


def test_an_export_is_imported_elsewhere(
    place: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, target = tmp_path / "out.export", tmp_path / "target"

    printed(capsys, "export", "-o", str(file), *place[1])
    added = as_json(capsys, "import", str(file), "--dir", str(target))
    again = main(["chat", "import", str(file), "--dir", str(target)])
    capsys.readouterr()
    replace = ["import", str(file), "--overwrite", "--keep-routes", "--dir", str(target)]
    routed = as_json(capsys, *replace)

    copied = DefaultSessionStore(str(target))
    assert (added["imported"], again, routed["imported"]) == (2, 1, 2)
    assert copied.get_session("one").to_dict() == place[0].get_session("one").to_dict()
    found = copied.get_by_gateway_session("gw-1")
    assert found is not None
    assert found.session_id == "one"


def test_an_export_overwrites_no_file(
    place: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.export"
    file.write_text("mine")

    code, _ = refused(capsys, "export", "-o", str(file), *place[1])

    assert (code, file.read_text()) == (1, "mine")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sessions": 5}'])
def test_what_is_no_export_is_one_line_of_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "in").write_text(text)

    code, error = refused(capsys, "import", str(tmp_path / "in"), "--dir", str(tmp_path / "new"))

    assert code == 1
    assert "is no export" in error
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_session_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DefaultSessionStore(str(tmp_path))
    store.add_message("good", "user", "hi")
    (tmp_path / "bad.json").write_text("[]")

    code = main(["chat", "verify", "--dir", str(tmp_path), "--json"])
    report = json.loads(capsys.readouterr().out)

    assert code == 1
    assert (report["ok"], report["sessions"]) == (False, 1)
    assert [problem["path"] for problem in report["problems"]] == [str(tmp_path / "bad.json")]
    assert (tmp_path / "bad.json").read_text() == "[]"


def test_an_import_keeps_title_snapshots_and_relatives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = HierarchicalSessionStore(str(tmp_path / "a"))
    parent = source.create_session("parent", title="Plan")
    source.add_message(parent, "user", "Oslo?")
    source.create_snapshot(parent, label="before")
    child = source.fork_session(parent)
    file = str(tmp_path / "out.export")

    printed(capsys, "export", "-o", file, "--dir", str(tmp_path / "a"))
    printed(capsys, "import", file, "--dir", str(tmp_path / "b"))

    target = HierarchicalSessionStore(str(tmp_path / "b"))
    copied = target.get_extended_session(parent)
    assert (copied.title, copied.children_ids) == ("Plan", [child])
    assert [snapshot.label for snapshot in copied.snapshots] == ["before"]
    assert copied.updated_at == source.get_session(parent).updated_at
    assert target.revert_to_snapshot(parent, copied.snapshots[0].id)

"""The commands that make a new session of an old one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from amberlog.cli import main
from support import independent, kohaku
from support.first_format import dated, make, turn

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def session(path: Path) -> Path:
    """Returns the file of a session of four events."""
    with SessionStore(path) as store:
        store.init_meta("demo", "agent", "", "/w", ["alice"])
        for number in range(1, 3):
            for kind in ("user_message", "text_chunk"):
                data = {"content": f"{kind} {number}"}
                store.append_event("alice", kind, data, turn_index=number, branch_id=1)
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("amberlog: ")
    assert err.count("\n") == 1
    return code, err


def said(path: Path) -> list[object]:
    return [e["content"] for e in independent.rows(path, "events").values() if isinstance(e, dict)]


def test_fork_makes_a_session_up_to_an_event(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, "fork", str(session), "--at", "3", "--name", "what if")

    child = session.with_name("session-what if.kohakutr.v2")
    assert str(child) in out
    assert said(child) == ["user_message 1", "text_chunk 1", "user_message 2"]
    assert independent.rows(child, "meta")["name"] == "what if"
    assert independent.rows(session, "meta")["status"] == "paused"


def test_fork_prints_one_json_document(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(printed(capsys, "fork", str(session), "--at", "2", "--json"))

    assert made["source"] == str(session)
    assert (made["fork_point"], made["events"]) == (2, 2)
    assert session.with_name(made["target"].rpartition("/")[2]).is_file()
    assert made["session_id"].startswith("demo-fork-")


def test_fork_drops_or_edits_its_last_event(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "fork", str(session), "--at", "3", "--name", "a", "--drop-trailing")
    printed(capsys, "fork", str(session), "--at", "3", "--name", "b", "--edit", "another")

    assert said(session.with_name("session-a.kohakutr.v2"))[2:] == []
    assert said(session.with_name("session-b.kohakutr.v2"))[2:] == ["another"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--at", "3", "--edit", "x", "--drop-trailing"], 2, "not both"),
        (["--at", "4", "--edit", "x"], 2, "text_chunk"),
        (["--at", "9", "--edit", "x"], 2, "missing"),
        (["--at", "0"], 2, "at"),
        (["--at", "3", "--name", "../up"], 2, "name"),
        ([], 2, "--at"),
    ],
)
def test_a_fork_that_makes_no_sense_is_one_line(
    session: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    why: str,
) -> None:
    before = kohaku.contents(session.parent)

    told = complaint(capsys, "fork", str(session), *arguments)

    assert told[0] == code
    assert why in told[1]
    assert set(kohaku.contents(session.parent)) <= {*before, "session.kohakutr.lock"}


def test_a_fork_does_not_replace_a_session(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "fork", str(session), "--at", "3", "--name", "a")

    code, why = complaint(capsys, "fork", str(session), "--at", "2", "--name", "a")

    assert code == 1
    assert "session-a.kohakutr.v2" in why


def test_an_old_session_must_be_migrated_before_it_is_forked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})

    code, why = complaint(capsys, "fork", str(old), "--at", "1")

    assert code == 1
    assert "migrate" in why


def test_migrate_makes_a_new_session_and_says_what_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})

    tried = printed(capsys, "migrate", str(old), "--dry-run")
    assert not old.with_name("old.kohakutr.v2").exists()
    made = printed(capsys, "migrate", str(old))
    again = printed(capsys, "migrate", str(old))

    assert "7 events became 8" in tried
    assert "would be made" in tried
    assert "7 events became 8" in made
    assert "was there already" in again
    assert len(independent.rows(old.with_name("old.kohakutr.v2"), "events")) == 8


def test_migrate_prints_one_json_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})

    report = json.loads(printed(capsys, "migrate", str(old), "--json"))

    assert report["target"] == str(old.with_name("old.kohakutr.v2"))
    assert report["events_written"]["user_message"] == 1
    assert report["turns"] == 1
    assert report["dry_run"] is False


def test_migrate_takes_every_old_session_of_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "a.kohakutr", {"alice": dated(turn(1))})
    make(tmp_path / "b.kt", {"alice": dated(turn(1))})
    with SessionStore(tmp_path / "c.kohakutr") as store:
        store.init_meta("c", "agent", "", "/w", ["alice"])
    (tmp_path / "notes.txt").write_text("no session")

    done = json.loads(printed(capsys, "migrate", str(tmp_path), "--json"))

    assert [row["target"] for row in done["sessions"]] == [
        str(tmp_path / "a.kohakutr.v2"),
        str(tmp_path / "b.kt.v2"),
    ]
    assert done["failed"] == {}
    assert not (tmp_path / "c.kohakutr.v2").exists()


def test_a_session_that_cannot_be_migrated_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "a.kohakutr", {"alice": dated([{"type": "user_message", "content": "x"}])})
    make(tmp_path / "b.kohakutr", {"alice": dated(turn(1))})
    (tmp_path / "c.kohakutr").write_bytes(b"no database")

    code = main(["migrate", str(tmp_path)])
    out, err = capsys.readouterr()

    assert code == 1
    assert (tmp_path / "b.kohakutr.v2").is_file()
    assert "1 session, 2 failed" in out
    assert [line for line in err.splitlines() if "a.kohakutr" in line or "c.kohakutr" in line]
    assert err.count("\n") == 2


def test_a_session_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, why = complaint(capsys, "migrate", str(tmp_path / "missing.kohakutr"))

    assert code == 1
    assert "missing.kohakutr" in why

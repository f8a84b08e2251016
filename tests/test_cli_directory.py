"""The commands over all sessions of a directory, as a person or a script meets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from amberlog.cli import main
from amberlog.index import close_session_index
from support.sessions import files_below, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = "hi \x1b]0;title\x07 [red]markup[/red]"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields a session directory with two sessions and a file that is none."""
    monkeypatch.setenv("AMBERLOG_SESSION_DIR", str(tmp_path))
    record(tmp_path / "one.kohakutr", "fix the login page")
    record(tmp_path / "two.kohakutr", HOSTILE)
    (tmp_path / "broken.kohakutr").write_bytes(b"no session")
    yield tmp_path
    close_session_index()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.usefixtures("directory")
def test_a_list_shows_sessions_and_mentions_what_it_cannot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "list")

    assert code == 0
    assert "one" in out
    assert "2 of 2 sessions" in out
    assert "\x1b]0" not in out
    assert "[red]" in out
    assert err.startswith("amberlog: broken.kohakutr cannot be listed")


@pytest.mark.usefixtures("directory")
def test_a_list_as_json_can_be_filtered_and_searched(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "list", "--search", "page login", "--json")
    none = run(capsys, "list", "--status", "x' OR '1'='1", "--json")

    listed = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["filename"] for row in listed["sessions"]] == ["one.kohakutr"]
    assert listed["unreadable"][0]["path"] == "broken.kohakutr"
    assert json.loads(none[1])["total"] == 0


def test_pages_are_walked_by_cursor(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(directory / "three.kohakutr", "c")
    order = ("list", "--sort", "name", "--order", "asc", "--limit", "1")

    names, cursor = [], ""
    while True:
        code, out, _ = run(capsys, *order, "--json", *(["--cursor", cursor] if cursor else []))
        page = json.loads(out)
        names += [row["name"] for row in page["sessions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    _, people, _ = run(capsys, *order)
    wrong = run(capsys, *order, "--cursor", "nothing")

    assert code == 0
    assert names == ["one", "three", "two"]
    assert "more with --cursor " in people
    assert (wrong[0], wrong[1]) == (2, "")
    assert "cursor" in wrong[2]


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--limit", "abc"),
        ("--limit", "0"),
        ("--offset", str(2**63)),
        ("--sort", "size"),
        ("--order", "up"),
    ],
)
def test_a_wrong_option_is_named(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    code, out, err = run(capsys, "list", option, value)

    assert (code, out) == (2, "")
    assert option.strip("-") in err
    assert err.count("\n") == 1


def test_delete_removes_one_session_and_says_what(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionStore(directory / "one.kohakutr") as store:
        store.write_artifact("a.txt", b"a")

    code, out, err = run(capsys, "delete", "one", "--json")

    done = json.loads(out)
    assert (code, err, done["status"]) == (0, "", "deleted")
    assert set(done["files"]) == {"one.kohakutr", "one.artifacts", "one.kohakutr.lock"}
    assert not {name for name in files_below(directory) if name.startswith("one")}


@pytest.mark.parametrize("name", ["on", "missing", "..%2Fvictim"])
def test_delete_guesses_no_name(
    directory: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = files_below(directory)

    code, out, err = run(capsys, "delete", name)

    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert files_below(directory) == before


def test_delete_refuses_a_session_in_use(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionStore(directory / "one.kohakutr", writer_lock=True):
        code, out, err = run(capsys, "delete", "one")

    assert (code, out) == (1, "")
    assert "open for writing elsewhere" in err
    assert (directory / "one.kohakutr").is_file()


def test_stats_count_sessions_and_bytes(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "stats", "--json")
    people = run(capsys, "stats")

    counts = json.loads(out)
    assert (code, counts["count"], counts["by_status"]) == (0, 2, {"paused": 2})
    sizes = sum(path.stat().st_size for path in directory.glob("*.kohakutr"))
    assert counts["disk_usage"]["session_bytes"] == sizes
    assert "2 sessions" in people[1]


@pytest.mark.usefixtures("directory")
def test_reindex_reports_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reindex", "--json")
    people = run(capsys, "reindex", "--full", "--workers", "1")

    report = json.loads(out)
    assert (code, report["total"], report["read"]) == (0, 3, 3)
    assert "3 read" in people[1]


def test_a_directory_that_is_missing_is_an_error_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [
        run(capsys, command, "--dir", str(tmp_path / "no"))[0]
        for command in ("list", "stats", "reindex")
    ]

    assert codes == [1, 1, 1]
    assert files_below(tmp_path) == set()

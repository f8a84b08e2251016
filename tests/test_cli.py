"""The command line, as a person or a script meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionStore
from amberlog.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "hi \x1b]0;title\x07 [red]markup[/red] 🚀 明天\u202e\nsecond line"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the file of a small session in the session directory."""
    monkeypatch.setenv("AMBERLOG_SESSION_DIR", str(tmp_path))
    path = tmp_path / "small.kohakutr"
    with SessionStore(path) as store:
        store.init_meta("small", "agent", "[bold]agent.yaml[/bold]", "/work", ["alice"])
        store.append_event("alice", "user_message", {"content": HOSTILE}, turn_index=1)
        store.append_event("bob", "tool_result", {"output": "naïve\0hidden tail", "exit_code": 0})
        store.append_event("alice", "text_chunk", {"content": "All is well again."}, turn_index=1)
        store.save_conversation("alice", [{"role": "user", "content": HOSTILE}])
    return path


def amberlog_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "amberlog", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("amberlog: ")
    assert err.count("\n") == 1
    return code, err


def test_show_prints_what_a_session_holds(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed(capsys, "show", str(session))

    assert code == 0
    assert "session small" in out
    assert "alice" in out
    assert "events 3" in out
    assert "second line" in out


def test_show_prints_one_json_document(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "show", str(session), "--json")

    shown = json.loads(out)
    assert code == 0
    assert shown["session_id"] == "small"
    assert shown["counts"]["events"] == 3
    assert shown["last_messages"]["alice"][0] == {"role": "user", "text": HOSTILE}


def test_a_session_is_found_by_its_exact_name(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed(capsys, "show", "small", "--json")
    failed, _ = complaint(capsys, "show", "smal")

    assert (code, failed) == (0, 1)
    assert json.loads(out)["path"] == str(session)


def test_a_name_stands_for_its_highest_version(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("v2", "v10"):
        session.with_name(f"small.kohakutr.{version}").write_bytes(session.read_bytes())

    _, out = printed(capsys, "show", "small", "--json")

    assert json.loads(out)["path"].endswith("small.kohakutr.v10")


def test_events_of_all_agents_are_in_the_order_of_their_ids(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, forward = printed(capsys, "events", str(session), "--json")
    _, backward = printed(capsys, "events", str(session), "--json", "--reverse", "--limit", "2")
    _, one = printed(capsys, "events", str(session), "--json", "--agent", "alice", "--since", "1")
    _, typed = printed(capsys, "events", str(session), "--json", "--types", "text_chunk,none")

    read = [
        [(row["agent"], row["event"]["event_id"]) for row in map(json.loads, out.splitlines())]
        for out in (forward, backward, one, typed)
    ]
    assert read == [
        [("alice", 1), ("bob", 2), ("alice", 3)],
        [("alice", 3), ("bob", 2)],
        [("alice", 3)],
        [("alice", 3)],
    ]


def test_search_prints_hits_with_their_text(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed(capsys, "search", str(session), "well again", "--json")
    blank, nothing = printed(capsys, "search", str(session), " ")

    hits = json.loads(out)["hits"]
    assert (code, blank) == (0, 0)
    assert hits[0]["event_key"] == "alice:e000001"
    assert hits[0]["text"] == "All is well again."
    assert nothing == "no hits\n"


def test_verify_and_backup(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.kohakutr"

    backed_up, _ = printed(capsys, "backup", str(session), str(copy))
    verified, out = printed(capsys, "verify", str(copy), "--json")

    assert (backed_up, verified) == (0, 0)
    assert json.loads(out)["ok"]
    assert json.loads(out)["counts"]["events"] == 3


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "--version")

    assert (code, out) == (0, f"amberlog {amberlog.__version__}\n")


def test_stored_text_reaches_the_terminal_only_as_text(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [
        printed(capsys, *arguments)[1]
        for arguments in (
            ("show", str(session)),
            ("events", str(session)),
            ("search", str(session), "markup"),
            ("events", str(session), "--json"),
        )
    ]

    assert not [out for out in outputs if set(out) & set("\x1b\x07\0\u202e")]
    assert all("[red]markup[/red]" in out for out in outputs)
    assert all("\\x1b]0;title\\x07" in out for out in outputs[:3])


@pytest.mark.parametrize("command", ["show", "events", "verify", "search"])
def test_a_missing_or_damaged_session_is_one_line_on_stderr(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.kohakutr"
    damaged.write_bytes(b"no session at all, but long enough to be one " * 100)
    rest = ["word"] if command == "search" else []

    codes = [
        complaint(capsys, command, argument, *rest)[0]
        for argument in (str(damaged), str(tmp_path / "missing.kohakutr"), "no-such-name")
    ]

    assert codes == [1, 1, 1]
    assert [file.name for file in tmp_path.iterdir()] == ["damaged.kohakutr"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("sing",),
        ("show",),
        ("events", "small", "--limit", "abc"),
        ("events", "small", "--limit", "1e3"),
        ("events", "small", "--limit", "-1"),
        ("events", "small", "--limit", "9223372036854775808"),
        ("events", "small", "--since", "9223372036854775808"),
        ("search", "small", "word", "-k", ""),
        ("show", "small", "--sort", "name"),
    ],
)
def test_wrong_arguments_are_one_line_and_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = complaint(capsys, *arguments)

    assert code == 2


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_what_an_encoding_lacks_is_replaced(session: Path, variables: dict[str, str]) -> None:
    for arguments in (("show", str(session)), ("events", str(session)), ("verify", str(session))):
        done = amberlog_process(*arguments, **variables)

        assert (done.returncode, done.stderr) == (0, b"")
        assert b"small" in done.stdout or b"?" in done.stdout


@pytest.mark.parametrize("arguments", [("show",), ("events",), ("events", "--json"), ("verify",)])
def test_a_closed_pipe_ends_quietly(session: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "amberlog", arguments[0], str(session), *arguments[1:]],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_demonstration_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.kohakutr"

    code, out = printed(capsys, "demo", "--events", "400", "--keep", str(kept), "--json")

    report = json.loads(out)
    assert code == 0
    assert report["ok"]
    assert report["missing"] == []
    assert report["acknowledged"] >= 200
    assert report["events_stored"] > 0
    assert kept.exists()


def test_the_demonstration_never_overwrites_a_session(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = session.read_bytes()

    code, _ = complaint(capsys, "demo", "--keep", str(session))

    assert code == 1
    assert session.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "offered"), [("amberlog li", {"list"}), ("amberlog list --st", {"--status"})]
)
def test_the_shell_is_told_how_a_word_goes_on(typed: str, offered: set[str]) -> None:
    shell = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}

    done = amberlog_process(_AMBERLOG_COMPLETE="complete_bash", **shell)

    assert done.returncode == 0
    assert set(done.stdout.decode().split()) == offered

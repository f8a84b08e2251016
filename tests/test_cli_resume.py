"""What a session can be gone on with, on the command line."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from amberlog.cli import main
from support.agentlike import AGENT, Agentlike
from support.kohaku import BY_NAME, contents

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "hi \x1b]0;title\x07 [red]markup[/red] 🚀\u202e"


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty session directory."""
    monkeypatch.setenv("AMBERLOG_SESSION_DIR", str(tmp_path))
    return tmp_path


def made(path: Path, written: float | None = None) -> Path:
    with SessionStore(path) as store:
        store.init_meta(path.name, "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 1), ("turn", 1, 0)])
    if written is not None:
        os.utime(path, (written, written))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_resume_paints_the_history_and_says_what_was_repaired(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(sessions / "s.kohakutr")
    with SessionStore(path) as store:
        said = {"content": HOSTILE}
        store.append_event(AGENT, "user_message", said, turn_index=3, branch_id=1)
        call = {"name": "bash", "call_id": "b9", "args": {"command": "ls"}}
        store.append_event(AGENT, "tool_call", call, turn_index=3, branch_id=1)
        store.save_state(AGENT, scratchpad={"plan": "go"})

    before = contents(sessions)
    code, out, err = run(capsys, "resume", "s")

    assert (code, err) == (0, "")
    assert "\x1b]0" not in out
    assert "[red]markup[/red]" in out
    assert "Interrupted by session resume" in out
    assert "9 messages from snapshot+tail at turn 3.1" in out
    assert "repaired  the call b9 had no result" in out
    assert "scratchpad  plan" in out
    assert contents(sessions) == before


def test_resume_prints_one_json_document(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    BY_NAME["branches"].unpack(sessions)

    code, out, err = run(capsys, "resume", "branches", "--agent", "alice", "--json")
    _, viewed, _ = run(capsys, "resume", "branches", "--branch", "1:1", "--json")

    shown = json.loads(out)["agents"]["alice"]
    assert (code, err) == (0, "")
    assert shown["messages"] == BY_NAME["branches"].expected(
        "per_agent", "alice", "resume_messages"
    )
    assert (shown["turn"], shown["branch"], shown["parent_branch_path"]) == (2, 3, [[1, 2]])
    assert json.loads(viewed)["agents"]["alice"]["parent_branch_path"][0] == [1, 1]


def test_the_last_session_is_the_one_written_last_that_can_be_read(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(sessions / "old.kohakutr", 1_000)
    made(sessions / "legacy.kt", 2_000)
    made(sessions / "b.kohakutr.v2", 3_000)
    made(sessions / "b.kohakutr", 9_000)
    made(sessions / "a-fork.kohakutr.v2", 3_000)
    damaged = sessions / "damaged.kohakutr"
    damaged.write_bytes(b"no session" * 100)
    os.utime(damaged, (4_000, 4_000))

    _, out, err = run(capsys, "resume", "--last", "--json")
    _, text, _ = run(capsys, "resume", "--last")
    found = json.loads(out)
    os.utime(sessions / "legacy.kt", (5_000, 5_000))
    _, later, _ = run(capsys, "branches", "--last", "--json")

    assert err == ""
    assert found["path"].endswith("a-fork.kohakutr.v2")
    assert [one["path"] for one in found["skipped"]] == [str(damaged)]
    assert f"passed over  {damaged}" in text
    assert json.loads(later)["path"].endswith("legacy.kt")


def test_what_another_process_has_not_moved_into_the_file_counts(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(sessions / "quiet.kohakutr", 2_000_000_000)
    live = made(sessions / "live.kohakutr", 1_000)
    with SessionStore(live) as store:
        store.append_event(AGENT, "text", {"content": "x"})
        os.utime(f"{live}-wal", (3_000_000_000, 3_000_000_000))
        os.utime(live, (1_000, 1_000))

        _, out, _ = run(capsys, "branches", "--last", "--json")

    assert json.loads(out)["path"] == str(live)


def test_branches_shows_the_turns_that_have_several(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    BY_NAME["branches"].unpack(sessions)
    made(sessions / "straight.kohakutr")

    code, out, _ = run(capsys, "branches", "branches", "--json")
    _, text, _ = run(capsys, "branches", "branches", "--agent", "alice")
    _, none, _ = run(capsys, "branches", "straight")

    (turn,) = json.loads(out)["agents"]["alice"]
    groups = BY_NAME["branches"].expected("per_agent", "alice", "user_groups", "1", "groups")
    assert code == 0
    assert (turn["turn"], turn["branches"], turn["selected"]) == (1, [1, 2], 2)
    assert turn["groups"] == groups
    assert "* [2]  first question EDITED" in text
    assert "no turn has more than one branch" in none


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("resume", "missing"), 1),
        (("branches", "missing"), 1),
        (("resume", "damaged"), 1),
        (("branches", "damaged"), 1),
        (("resume", "s", "--branch", "1:9"), 1),
        (("resume", "s", "--branch", "1"), 2),
        (("resume", "s", "--branch", "x:1"), 2),
        (("resume", "s", "--agent", "nobody"), 2),
        (("resume",), 2),
        (("branches",), 2),
        (("resume", "s", "--last"), 2),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_a_code(
    arguments: tuple[str, ...], code: int, sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(sessions / "s.kohakutr")
    (sessions / "damaged.kohakutr").write_bytes(b"no session" * 100)

    found, out, err = run(capsys, *arguments)

    assert (found, out) == (code, "")
    assert err.startswith("amberlog: ")
    assert err.count("\n") == 1


def test_without_a_session_there_is_no_last_one(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "resume", "--last")

    assert (code, out) == (1, "")
    assert str(sessions) in err

"""Stores that are not strict: the peer's contract about damage, without its losses."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore, HierarchicalSessionStore, PersistFailure
from amberlog.errors import SessionWriteError
from support.tracing import needs_strace, system_calls

if TYPE_CHECKING:
    from pathlib import Path

READING = """
import sys
from amberlog.chat import DefaultSessionStore
store = DefaultSessionStore(sys.argv[1], strict=False)
store.get_chat_history("s")
print("now", flush=True)
for _ in range(50):
    store.get_chat_history("s")
print("then", flush=True)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRAISONAI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def block(directory: Path, session_id: str) -> Path:
    """Lets no write of a session succeed: what it would be written to first is no file."""
    obstacle = directory / f".{session_id}.json.tmp"
    (obstacle / "full").mkdir(parents=True)
    return obstacle


def free(obstacle: Path) -> None:
    (obstacle / "full").rmdir()
    obstacle.rmdir()


def spilled(home: Path) -> list[Path]:
    return sorted((home / "state" / "session_spill").glob("*.json"))


def said(store: DefaultSessionStore, session_id: str = "s") -> list[object]:
    return [message["content"] for message in store.get_chat_history(session_id)]


@pytest.mark.parametrize("kind", [DefaultSessionStore, HierarchicalSessionStore])
def test_a_damaged_file_is_set_aside_whole_and_its_session_begins_anew(
    kind: type[DefaultSessionStore], tmp_path: Path, home: Path
) -> None:
    damage = b'{"session_id": "s", "messages": ['
    (tmp_path / "s.json").write_bytes(damage)
    told: list[PersistFailure] = []
    store = kind(str(tmp_path), strict=False, on_failure=told.append)

    before = store.get_chat_history("s")
    is_written = store.add_user_message("s", "anew")

    (aside,) = tmp_path.glob("s.json.corrupt-*")
    assert (before, is_written, said(store)) == ([], True, ["anew"])
    assert aside.read_bytes() == damage
    assert [(one.session_id, one.spilled, one.spill_path) for one in told] == [
        ("s", True, str(aside))
    ]
    assert told[0].error.startswith("corrupt session file")
    assert not home.exists()


def test_a_file_that_holds_a_list_is_damaged_too_and_two_are_both_kept(
    tmp_path: Path, home: Path
) -> None:
    store = DefaultSessionStore(str(tmp_path), strict=False)

    for damage in ("[1]", "[2]"):
        (tmp_path / "s.json").write_text(damage, encoding="utf-8")
        assert store.get_session("s").messages == []

    assert sorted(path.read_text() for path in tmp_path.glob("s.json.corrupt-*")) == ["[1]", "[2]"]
    assert not home.exists()


def test_a_list_leaves_a_damaged_file_where_it_is_and_tells_of_it_once(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    told: list[PersistFailure] = []
    store = DefaultSessionStore(str(tmp_path), strict=False, on_failure=told.append)
    store.add_user_message("s", "x")

    rows = [store.list_sessions(), store.list_sessions()]

    assert [len(found) for found in rows] == [1, 1]
    assert [(one.session_id, one.spilled) for one in told] == [("bad", False)]
    assert (tmp_path / "bad.json").read_text(encoding="utf-8") == "{"
    assert not home.exists()


def test_a_message_that_cannot_be_written_is_spilled_and_comes_back(
    tmp_path: Path, home: Path
) -> None:
    told: list[PersistFailure] = []
    store = DefaultSessionStore(str(tmp_path), strict=False, on_failure=told.append)
    store.add_user_message("s", "first")
    obstacle = block(tmp_path, "s")

    answers = [store.add_user_message("s", f"lost {number}") for number in range(20)]
    answers.append(store.set_agent_info("s", "Agent"))
    files = spilled(home)
    modes = {path.stat().st_mode & 0o777 for path in files}
    free(obstacle)

    assert answers == [False] * 21
    assert (len(files), modes) == (20, {0o600})
    assert [(one.role, one.content, one.spilled) for one in told[:20]] == [
        ("user", f"lost {number}", True) for number in range(20)
    ]
    assert told[20].spilled is False
    other = DefaultSessionStore(str(tmp_path), strict=False)
    assert said(other) == ["first", *(f"lost {number}" for number in range(20))]
    assert said(store) == said(other)
    assert spilled(home) == []


def test_a_strict_store_raises_and_leaves_no_spill(tmp_path: Path, home: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    block(tmp_path, "s")

    with pytest.raises(SessionWriteError):
        store.add_user_message("s", "x")

    assert not home.exists()


def test_a_lock_that_is_never_let_go_loses_no_message(tmp_path: Path, home: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), lock_timeout=0.05, strict=False)
    store.add_user_message("s", "first")
    with (tmp_path / "s.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answers = [store.add_user_message("s", "second"), store.clear_session("s")]
        during = said(store)

    assert answers == [False, False]
    assert during == ["first"]
    assert said(store) == ["first", "second"]
    assert spilled(home) == []


def test_a_spilled_message_comes_back_to_its_own_directory_alone(
    tmp_path: Path, home: Path
) -> None:
    ours, theirs = tmp_path / "a", tmp_path / "b"
    store = DefaultSessionStore(str(ours), strict=False)
    obstacle = block(ours, "s")
    store.add_user_message("s", "a tenant's own")

    other = DefaultSessionStore(str(theirs), strict=False)
    other.add_user_message("s", "another tenant's")

    assert said(other) == ["another tenant's"]
    assert len(spilled(home)) == 1
    free(obstacle)
    assert said(store) == ["a tenant's own"]
    assert spilled(home) == []


def test_a_spill_that_was_folded_in_before_a_kill_is_not_folded_in_twice(
    tmp_path: Path, home: Path
) -> None:
    store = DefaultSessionStore(str(tmp_path), strict=False)
    obstacle = block(tmp_path, "s")
    store.add_user_message("s", "yes")
    store.add_user_message("s", "yes")
    copies = {path: path.read_bytes() for path in spilled(home)}
    free(obstacle)

    first = said(store)
    for path, copy in copies.items():
        path.write_bytes(copy)

    assert first == ["yes", "yes"]
    assert said(DefaultSessionStore(str(tmp_path), strict=False)) == ["yes", "yes"]
    assert spilled(home) == []


def test_what_the_peer_spilled_is_taken_and_what_is_no_spill_stays(
    tmp_path: Path, home: Path
) -> None:
    place = home / "state" / "session_spill"
    place.mkdir(parents=True)
    good = {"session_id": "s", "messages": [{"role": "user", "content": "good"}, 5]}
    files = {
        "s.1.1.aa.json": [1, 2],
        "s.2.1.bb.json": {"session_id": "s", "messages": "none"},
        "s.3.1.cc.json": good,
        "s.4.1.dd.json": {**good, "session_id": "another"},
        "sx.5.1.ee.json": {**good, "session_id": "sx"},
    }
    for name, content in files.items():
        (place / name).write_text(json.dumps(content), encoding="utf-8")

    store = DefaultSessionStore(str(tmp_path), strict=False)

    assert said(store) == ["good"]
    assert [path.name for path in spilled(home)] == sorted(set(files) - {"s.3.1.cc.json"})


def test_values_are_what_python_writes_of_them_and_what_it_cannot_write_is_told(
    tmp_path: Path, home: Path
) -> None:
    told: list[PersistFailure] = []
    store = DefaultSessionStore(str(tmp_path), strict=False, on_failure=told.append)
    written: dict[str, object] = {"pair": (1, (2,)), "nan": float("nan"), "big": 1 << 80}

    answers = [
        store.add_user_message("s", "x", {**written, "keys": {7: "seven"}}),
        store.add_user_message("s", "y", {"at": object()}),
        store.update_session_metadata("s", tags=("a", "b")),
        store.set_chat_history("t", [{"role": "user", "content": ("a", 1)}]),
    ]

    stored = (tmp_path / "s.json").read_text(encoding="utf-8")
    metadata = json.loads(stored)["messages"][0]["metadata"]
    assert answers == [True, False, True, True]
    assert metadata["pair"] == [1, [2]]
    assert (metadata["big"], metadata["keys"]) == (1 << 80, {"7": "seven"})
    assert "NaN" in stored
    assert [(one.content, one.spilled) for one in told] == [("y", False)]
    assert store.get_session("s").metadata["tags"] == ["a", "b"]
    assert said(store, "t") == [["a", 1]]
    assert not home.exists()


@needs_strace
def test_reading_lists_no_spills_while_nothing_is_spilled(tmp_path: Path, home: Path) -> None:
    DefaultSessionStore(str(tmp_path / "sessions")).add_user_message("s", "x")
    place = home / "state" / "session_spill"
    place.mkdir(parents=True)
    for number in range(5):
        (place / f"other.{number}.1.aa.json").write_text("{}", encoding="utf-8")
    os.utime(place, (1, 1))

    calls = system_calls(READING, tmp_path / "sessions", trace="getdents64,openat")

    reads = calls[calls.index("now") : calls.index("then")]
    assert [call for call in reads if "session_spill" in call or "getdents" in call] == []

"""What is right where the peer's chat stores are not, and what no other test is about."""

from __future__ import annotations

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore, HierarchicalSessionStore
from amberlog.errors import SessionBusyError, SessionDamagedError
from support.tracing import needs_strace, system_calls

if TYPE_CHECKING:
    from pathlib import Path

WRITING = """
import sys
from amberlog.chat import DefaultSessionStore
store = DefaultSessionStore(sys.argv[1], durability=sys.argv[2])
store.add_user_message("s", "one")
print("now", flush=True)
store.add_user_message("s", "two")
print("then", flush=True)
"""


@needs_strace
@pytest.mark.parametrize(("durability", "synced"), [("power", "synced"), ("process", "")])
def test_a_write_is_synced_before_it_is_renamed_and_its_name_before_it_returns(
    durability: str, synced: str, tmp_path: Path
) -> None:
    trace = "fsync,fdatasync,rename,renameat,renameat2"

    calls = system_calls(WRITING, tmp_path, durability, trace=trace)

    one_write = calls[calls.index("now") + 1 : calls.index("then")]
    names = [call.partition("(")[0] for call in one_write]
    asked = [name for name in names if name.startswith(("fsync", "fdatasync", "rename"))]
    kinds = ["sync" if "sync" in name else "rename" for name in asked]
    assert kinds == (["sync", "rename", "sync"] if synced else ["rename"])
    if synced:
        syncs = [call for call in one_write if "sync(" in call]
        assert f"<{tmp_path}/.s.json.tmp>" in syncs[0]
        assert f"<{tmp_path}>" in syncs[1]


def test_a_delete_waits_for_a_writer_and_takes_nothing_from_it(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), lock_timeout=0.05)
    store.add_user_message("s", "x")

    with (tmp_path / "s.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SessionBusyError) as caught:
            store.delete_session("s")

    assert caught.value.path == str(tmp_path / "s.json")
    assert store.get_chat_history("s") == [{"role": "user", "content": "x"}]
    assert store.delete_session("s")
    assert not store.session_exists("s")


def test_a_session_that_is_deleted_amid_writes_is_whole_or_gone(tmp_path: Path) -> None:
    stores = {
        name: DefaultSessionStore(str(tmp_path), lock_timeout=60) for name in ("a", "b", "deletes")
    }

    def work(name: str) -> None:
        for number in range(40):
            if name == "deletes":
                stores[name].delete_session("s")
            else:
                stores[name].add_user_message("s", f"{name} {number}")

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(work, name) for name in stores]:
            done.result()

    said = [str(message["content"]) for message in stores["a"].get_chat_history("s")]
    for name in ("a", "b"):
        kept = [int(text.split()[1]) for text in said if text.startswith(name)]
        # What came after the last delete, without a gap.
        assert kept == list(range(40 - len(kept), 40))


@pytest.mark.parametrize("content", ["[]", "5", "null", '"text"', "{", '{"messages": {}}'])
def test_a_file_that_holds_no_session_hides_none_of_the_others(
    content: str, tmp_path: Path
) -> None:
    store = DefaultSessionStore(str(tmp_path))
    store.add_user_message("s", "zebra")
    store.set_gateway_info("s", "gw", "agent")
    store.set_agent_info("s", "Agent")
    (tmp_path / "other.json").write_text(content, encoding="utf-8")

    answers: list[object] = [
        [row["session_id"] for row in store.list_sessions()],
        [one.session_id for one in store.recent()],
        [hit.session_id for hit in store.search("zebra")],
        store.list_sessions_by_agent("Agent"),
        store.list_sessions_by_gateway_agent("agent"),
    ]

    found = store.get_by_gateway_session("gw")
    assert answers == [["s"]] * 5
    assert found is not None
    assert found.session_id == "s"
    assert store.get_by_gateway_session("missing") is None
    with pytest.raises(SessionDamagedError, match=r"other\.json"):
        store.export_all()


def test_a_quick_talk_that_says_that_it_is_no_machines_counts_whole(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    talk = [
        {"role": "user", "content": f"zebra {number}", "timestamp": 20.0 * number}
        for number in range(6)
    ]
    for session_id in ("told", "untold"):
        store.set_chat_history(session_id, talk)
    store.update_session_metadata("told", automated=False)

    scores = {hit.session_id: hit.score for hit in store.search("zebra")}

    assert scores == {"told": 18.0, "untold": 4.5}


def test_a_family_carried_to_another_store_is_the_family_that_it_was(tmp_path: Path) -> None:
    store = HierarchicalSessionStore(str(tmp_path / "here"))
    root = store.create_session("root", title="Root")
    store.add_user_message(root, "one")
    snapshot = store.create_snapshot(root, "before")
    store.add_user_message(root, "two")
    child = store.fork_session(root, 0, "Child")
    store.share_session(root)
    other = HierarchicalSessionStore(str(tmp_path / "there"))

    report = other.import_sessions(store.export_all())

    assert report.imported == 2
    for session_id in (root, child):
        carried = other.get_extended_session(session_id)
        assert carried.to_dict() == store.get_extended_session(session_id).to_dict()
    assert other.get_children(root) == [child]
    assert other.revert_to_snapshot(root, snapshot)
    assert other.get_chat_history(root) == [{"role": "user", "content": "one"}]


def test_imported_sessions_keep_the_times_that_they_were_written_at(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path / "here"))
    for number in range(3):
        store.add_user_message(f"s{number}", "x")
    old = "2020-01-02T03:04:05+00:00"
    payload = store.export_all()
    sessions = payload["sessions"]
    assert isinstance(sessions, list)
    for session in sessions:
        session["updated_at"] = old
    other = DefaultSessionStore(str(tmp_path / "there"))
    other.add_user_message("new", "x")

    other.import_sessions(payload)

    assert [one.session_id for one in other.recent(limit=1)] == ["new"]
    assert {row["updated_at"] for row in other.list_sessions()[1:]} == {old}


@needs_strace
def test_a_long_id_waits_for_nothing(tmp_path: Path) -> None:
    code = WRITING.replace('"s"', '"l" * 300')

    calls = system_calls(code, tmp_path, "power", trace="clock_nanosleep,nanosleep")

    stored = [json.loads(file.read_text(encoding="utf-8")) for file in tmp_path.glob("*.json")]
    assert [session["session_id"] for session in stored] == ["l" * 300]
    assert [call for call in calls if "nanosleep" in call] == []

"""Reading only, and rows that must agree, where the peer writes anyway or piece by piece."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionNotFoundError, SessionReadOnlyError, SessionStore
from support import independent
from support.children import environment
from support.kohaku import contents
from support.sample import record_everything

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITES: dict[str, Callable[[SessionStore], object]] = {
    "append_event": lambda store: store.append_event("alice", "text", {}),
    "append_events": lambda store: store.append_events("alice", [("text", {})]),
    "save_conversation": lambda store: store.save_conversation("alice", []),
    "save_branch_snapshot": lambda store: store.save_branch_snapshot(
        "alice", [], branch=None, watermark=1
    ),
    "save_state": lambda store: store.save_state("alice", turn_count=1),
    "save_turn_rollup": lambda store: store.save_turn_rollup("alice", 1, {}),
    "save_channel_message": lambda store: store.save_channel_message("room", {}),
    "save_subagent": lambda store: store.save_subagent("alice", "explore", 0, {}),
    "save_job": lambda store: store.save_job("j", {}),
    "init_meta": lambda store: store.init_meta("s", "agent", "/c", "/w", []),
    "update_status": lambda store: store.update_status("running"),
    "touch": lambda store: store.touch(),
    "set_conversation_open": lambda store: store.set_conversation_open(True),
    "table": lambda store: store.meta.__setitem__("k", 1),
    "table delete": lambda store: store.meta.__delitem__("session_id"),
    "write_artifact": lambda store: store.write_artifact("name", b""),
}

SNAPSHOT_UNTIL_KILLED = """
import sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
messages = []
turn = 0
while True:
    turn += 1
    _, event_id = store.append_event("alice", "user_message", {"content": "x"}, turn_index=turn)
    messages = [*messages, {"role": "user", "content": f"turn {turn} " + "filler " * (turn % 90)}]
    branch = {
        "turn_index": turn,
        "branch_id": 1 + turn % 2,
        "parent_branch_path": [[earlier, 1 + earlier % 2] for earlier in range(1, turn)],
    }
    store.save_branch_snapshot("alice", messages, branch=branch, watermark=event_id)
    print(turn, flush=True)
"""


@pytest.mark.parametrize("verb", WRITES)
def test_a_store_that_is_open_for_reading_refuses_every_write(
    verb: str, path: Path, tmp_path: Path
) -> None:
    with SessionStore(path) as store:
        record_everything(store)
    before = contents(tmp_path)

    with SessionStore.open_readonly(path) as store, pytest.raises(SessionReadOnlyError) as raised:
        WRITES[verb](store)

    assert raised.value.path == str(path)
    assert contents(tmp_path) == before


def test_a_missing_file_is_not_made_by_opening_it_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "missing.kohakutr"

    with pytest.raises(SessionNotFoundError) as raised:
        SessionStore.open_readonly(path)

    assert raised.value.path == str(path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_sees_what_a_writer_adds_and_never_changes_the_status(path: Path) -> None:
    with SessionStore(path) as writer, SessionStore.open_readonly(path) as reader:
        seen = []
        for number in range(3):
            writer.append_event("alice", "text", {"content": number})
            seen.append([event["content"] for event in reader.get_events("alice")])
        writer.update_status("running")
        reader.close()
        status = writer.meta["status"]

    assert seen == [[0], [0, 1], [0, 1, 2]]
    assert status == "running"


def peer_rows(path: Path) -> tuple[list[object], int, dict[str, object]]:
    """Returns the three rows that the peer resumes from, as an independent reader sees them."""
    state = independent.rows(path, "state")
    conversation = independent.rows(path, "conversation")["alice"]
    watermark, branch = state["alice:snapshot_event_id"], state["alice:snapshot_branch"]
    assert isinstance(conversation, list)
    assert isinstance(watermark, int)
    assert isinstance(branch, dict)
    return conversation, watermark, branch


@pytest.mark.parametrize("turns", [1, 2, 3, 10, 37, 120])
def test_snapshot_watermark_and_branch_agree_after_a_kill(turns: int, path: Path) -> None:
    child = [sys.executable, "-c", SNAPSHOT_UNTIL_KILLED, str(path)]

    with subprocess.Popen(child, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        acknowledged = 0
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= turns:
                break
        writer.kill()
    conversation, watermark, branch = peer_rows(path)
    with SessionStore(path) as store:
        newest = store.load_conversation("alice")
        listed = store.snapshots("alice")
        report = store.verify()

    # One event a turn, and one message a turn, so that all of them count the same.
    assert len(conversation) == watermark == branch["turn_index"]
    assert branch["branch_id"] == 1 + watermark % 2
    assert newest is not None
    assert len(newest) >= acknowledged
    assert newest[: len(conversation)] == conversation
    assert [info.turn for info in listed] == list(range(1, len(newest) + 1))
    assert [info.watermark for info in listed] == [info.messages for info in listed]
    assert report.ok, report.problems


@pytest.mark.parametrize("turns", [1, 7, 60])
def test_snapshot_watermark_and_branch_agree_after_the_close(turns: int, path: Path) -> None:
    messages: list[dict[str, object]] = []
    branch: dict[str, object] = {}

    with SessionStore(path) as store:
        for turn in range(1, turns + 1):
            messages = [*messages, {"role": "user", "content": f"turn {turn} " + "x" * 700}]
            branch = {
                "turn_index": turn,
                "branch_id": 1,
                "parent_branch_path": [[earlier, 1] for earlier in range(1, turn)],
                "context_cutoff_event_id": 0,
            }
            store.save_branch_snapshot("alice", messages, branch=branch, watermark=turn)

    conversation, watermark, branch_row = peer_rows(path)
    records = independent.rows(path, "state")["alice:branch_snapshots"]
    assert conversation == messages
    assert (watermark, branch_row) == (turns, branch)
    assert isinstance(records, list)
    assert [(len(record["messages"]), record["watermark"]) for record in records] == [
        (turns, turns)
    ]


def test_a_snapshot_without_a_branch_drops_the_records_of_branches_at_once(path: Path) -> None:
    branch = {"turn_index": 1, "branch_id": 1, "parent_branch_path": []}
    said = [{"role": "user", "content": "hello"}]

    with SessionStore(path) as store:
        store.save_branch_snapshot("alice", said, branch=branch, watermark=1)
        store.save_conversation("alice", [*said, {"role": "assistant", "content": "hi"}])
        found = store.load_branch_snapshot("alice", {1: 1})

    conversation, watermark, _ = peer_rows(path)
    assert found is None
    assert len(conversation) == 2
    assert watermark == 1
    assert not independent.rows(path, "state").get("alice:branch_snapshots")


def test_a_conversation_that_another_wrote_is_not_taken_back_by_our_close(path: Path) -> None:
    ours = [{"role": "user", "content": f"{number} " + "long " * 900} for number in range(20)]
    theirs = [{"role": "user", "content": "what the peer wrote in its turn"}]
    put = (
        "import sys; from pathlib import Path; from support import independent as i\n"
        "row = i.encoded([{'role': 'user', 'content': 'what the peer wrote in its turn'}])\n"
        "i.write(Path(sys.argv[1]), 'conversation', {'alice': row})\n"
    )

    with SessionStore(path) as store:
        store.save_conversation("alice", ours)
        # Little is new, so the peer's row waits for the close.
        store.save_conversation("alice", [*ours, {"role": "user", "content": "short"}])
        subprocess.run(
            [sys.executable, "-c", put, str(path)], env=environment(), check=True, timeout=60
        )
        seen = store.load_conversation("alice")
    with SessionStore(path) as store:
        kept = store.load_conversation("alice")

    assert seen == theirs
    assert kept == theirs
    assert independent.rows(path, "conversation")["alice"] == theirs


def test_a_conversation_put_into_its_table_is_the_newest(path: Path) -> None:
    one = [{"role": "user", "content": "saved"}]
    two = [{"role": "user", "content": "put into the table"}]

    with SessionStore(path) as store:
        store.save_conversation("alice", one)
        store.conversation["alice"] = two
        put = store.load_conversation("alice")
        store.save_conversation("alice", one)
        saved = store.load_conversation("alice")
    with SessionStore.open_readonly(path) as store:
        kept = store.load_conversation("alice")

    assert put == two
    assert saved == one
    assert kept == one


def test_two_stores_that_save_in_turn_keep_every_turn(path: Path) -> None:
    said = [{"role": "user", "content": f"turn {turn} " + "x" * 4000} for turn in range(1, 21)]

    with SessionStore(path) as one, SessionStore(path) as other:
        for turn in range(1, 21):
            store = one if turn % 2 else other
            branch = {"turn_index": turn, "branch_id": 1, "parent_branch_path": []}
            store.save_branch_snapshot("alice", said[:turn], branch=branch, watermark=turn)
        seen = [len(store.load_conversation("alice") or ()) for store in (one, other)]
    with SessionStore(path) as store:
        read = [store.load_conversation("alice", turn) for turn in range(1, 21)]
        newest = store.load_conversation("alice")

    assert seen == [20, 20]
    assert read == [said[:turn] for turn in range(1, 21)]
    assert newest == said
    assert independent.rows(path, "conversation")["alice"] == said

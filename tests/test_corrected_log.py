"""The log, where the peer's goes wrong: lost events, leaks, order, writers at once, holes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support import independent
from support.children import environment, run_code

if TYPE_CHECKING:
    from pathlib import Path

APPEND_AND_DIE = """
import os, signal, sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
for number in range(int(sys.argv[2])):
    store.append_event("alice", "text", {"content": f"said before the kill, number {number}"})
os.kill(os.getpid(), signal.SIGKILL)
"""
APPEND_IN_TURN = """
import sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
for line in sys.stdin:
    key, event_id = store.append_event("zed", "text", {"content": line.strip()})
    print(key, event_id, flush=True)
store.close()
"""

COUNT_EVENTS = """
import sys
from amberlog import SessionStore
print(len(SessionStore.open_readonly(sys.argv[1]).get_events("alice")))
"""


def kill_after(path: Path, appends: int) -> None:
    """Has a process append that many events and die by SIGKILL, its store open."""
    child = [sys.executable, "-c", APPEND_AND_DIE, str(path), str(appends)]
    done = subprocess.run(child, env=environment(), timeout=60, check=False)
    assert done.returncode == -9


@pytest.mark.parametrize("appends", [1, 3, 4, 6, 7, 11])
def test_a_kill_loses_no_event_that_was_acknowledged(appends: int, path: Path) -> None:
    kill_after(path, appends)

    with SessionStore(path) as store:
        events = store.get_events("alice")
        hits = store.search("kill", k=100)
        highest = store.max_event_id()
        following = store.append_event("alice", "text", {"content": "after"})
        report = store.verify()

    contents = [f"said before the kill, number {number}" for number in range(appends)]
    assert [event["content"] for event in events] == contents
    assert sorted(str(hit["meta"]["event_key"]) for hit in hits) == [
        f"alice:e{number:06d}" for number in range(appends)
    ]
    assert highest == appends
    assert following == (f"alice:e{appends:06d}", appends + 1)
    assert report.ok


@pytest.mark.parametrize("other", ["alice:explorer", "alice:e12", "alice:e", "alicea", "Alice"])
def test_an_agent_does_not_see_the_events_of_another_whose_name_begins_alike(
    other: str, path: Path
) -> None:
    with SessionStore(path) as store:
        for number in range(3):
            store.append_event("alice", "text", {"content": f"alice {number}"}, turn_index=number)
            store.append_event(other, "text", {"content": f"other {number}"}, turn_index=7)
    with SessionStore(path) as store:
        read = {
            name: [event["content"] for event in store.get_events(name)]
            for name in ("alice", other)
        }
        newest = next(store.iter_events("alice", reverse=True))
        found = [hit["meta"]["agent"] for hit in store.search("alice other", k=99, agent="alice")]
        branches = store.max_branch_id("alice", 7)
        next_keys = [store.append_event(name, "text", {})[0] for name in ("alice", other)]

    assert read["alice"] == ["alice 0", "alice 1", "alice 2"]
    assert read[other] == ["other 0", "other 1", "other 2"]
    assert newest["content"] == "alice 2"
    assert set(found) == {"alice"}
    assert branches == 0
    assert next_keys == ["alice:e000003", f"{other}:e000003"]


@pytest.mark.parametrize("other", ["room:main", "room:m1", "room:m", "rooms"])
def test_a_channel_does_not_see_the_messages_of_another_whose_name_begins_alike(
    other: str, store: SessionStore
) -> None:
    for number in range(2):
        store.save_channel_message("room", {"content": f"room {number}"})
        store.save_channel_message(other, {"content": f"other {number}"})

    read = {
        name: [message["content"] for message in store.get_channel_messages(name)]
        for name in ("room", other)
    }

    assert read == {"room": ["room 0", "room 1"], other: ["other 0", "other 1"]}


def test_events_stay_in_the_order_of_their_numbers_past_six_digits(path: Path) -> None:
    first = independent.encoded({"type": "text", "content": "n0", "event_id": 1, "ts": 1.0})
    independent.write(path, "events", {"alice:e999998": first})

    with SessionStore(path) as store:
        appended = [
            store.append_event("alice", "text", {"content": f"n{number}"}) for number in range(1, 5)
        ]
        read = [event["content"] for event in store.get_events("alice")]
    with SessionStore(path) as store:
        again = [event["content"] for event in store.iter_events("alice")]
        backwards = [event["content"] for event in store.iter_events("alice", reverse=True)]
        later = [event["content"] for event in store.get_events("alice", since_event_id=2)]
        of_all = [event["content"] for _, event in store.get_all_events()]
        by_id = store.get_event_by_id("alice", 4)
        report = store.verify()

    assert [key for key, _ in appended] == [
        "alice:e999999",
        "alice:e1000000",
        "alice:e1000001",
        "alice:e1000002",
    ]
    assert [event_id for _, event_id in appended] == [2, 3, 4, 5]
    assert read == again == of_all == ["n0", "n1", "n2", "n3", "n4"]
    assert backwards == ["n4", "n3", "n2", "n1", "n0"]
    assert later == ["n2", "n3", "n4"]
    assert by_id is not None
    assert by_id["content"] == "n3"
    assert report.ok


def test_a_log_of_the_peers_past_six_digits_is_read_and_continued_by_number(path: Path) -> None:
    numbers = range(999_990, 1_000_010)
    rows = {
        f"alice:e{number:06d}": independent.encoded(
            {"type": "text", "content": number, "event_id": number + 1, "ts": 5.0}
        )
        for number in numbers
    }
    independent.write(path, "events", rows)

    with SessionStore.open_readonly(path) as store:
        before = [event["content"] for event in store.get_events("alice")]
    with SessionStore(path) as store:
        read = [event["content"] for event in store.get_events("alice")]
        appended = store.append_event("alice", "text", {})

    assert before == read == list(numbers)
    assert appended == ("alice:e1000010", 1_000_011)


def test_messages_turns_and_runs_are_in_the_order_of_their_numbers(path: Path) -> None:
    message = independent.encoded({"content": "m0", "ts": 1.0})
    independent.write(path, "channels", {"room:m999999": message})

    with SessionStore(path) as store:
        key = store.save_channel_message("room", {"content": "m1"})
        said = [message["content"] for message in store.get_channel_messages("room")]
        for turn in (1_000_000, 999_999, 2):
            store.save_turn_rollup("alice", turn, {})
        turns = [rollup["turn_index"] for rollup in store.list_turn_rollups("alice")]
        for run in (10, 9, 100):
            store.save_subagent("alice", "explore", run, {"job_id": f"j{run}"})
        runs = [run["run"] for run in store.list_subagent_runs()]
        following = store.next_subagent_run("alice", "explore")

    assert (key, said) == ("room:m1000000", ["m0", "m1"])
    assert turns == [2, 999_999, 1_000_000]
    assert runs == [9, 10, 100]
    assert following == 101


def test_two_writers_without_a_lock_overwrite_nothing(path: Path) -> None:
    child = [sys.executable, "-c", APPEND_IN_TURN, str(path)]
    pipe = subprocess.PIPE
    keys: list[tuple[str, int]] = []

    with (
        SessionStore(path) as store,
        subprocess.Popen(child, env=environment(), stdin=pipe, stdout=pipe, text=True) as writer,
    ):
        assert writer.stdin
        assert writer.stdout
        for number in range(20):
            keys.append(store.append_event("zed", "text", {"content": f"ours {number}"}))
            writer.stdin.write(f"theirs {number}\n")
            writer.stdin.flush()
            key, event_id = writer.stdout.readline().split()
            keys.append((key, int(event_id)))
        writer.communicate()
        contents = [event["content"] for event in store.get_events("zed")]

    assert keys == [(f"zed:e{number:06d}", number + 1) for number in range(40)]
    assert contents == [f"{who} {number}" for number in range(20) for who in ("ours", "theirs")]


def test_two_stores_of_one_process_overwrite_nothing(path: Path) -> None:
    with SessionStore(path) as one, SessionStore(path) as other:
        keys = [store.append_event("zed", "text", {})[1] for store in (one, other) * 5]
        runs = [store.next_subagent_run("zed", "explore") for store in (one, other, one)]
        read = [len(store.get_events("zed")) for store in (one, other)]

    assert keys == list(range(1, 11))
    assert runs == [0, 1, 2]
    assert read == [10, 10]


def test_an_event_follows_the_last_one_of_another_writer_who_left_a_gap(path: Path) -> None:
    put = (
        "import sys; from pathlib import Path; from support import independent as i\n"
        "row = lambda n: i.encoded({'type': 'text', 'content': n, 'event_id': n, 'ts': 1.0})\n"
        "rows = {f'zed:e00000{n}': row(n + 1) for n in (2, 3)}\n"
        "i.write(Path(sys.argv[1]), 'events', rows)\n"
    )

    with SessionStore(path) as store:
        store.append_event("zed", "text", {"content": 1})
        run_code(put, path)
        appended = store.append_event("zed", "text", {"content": 5})
        contents = [event["content"] for event in store.get_events("zed")]

    assert appended == ("zed:e000004", 5)
    assert contents == [1, 3, 4, 5]


def test_a_sub_agent_whose_name_holds_a_colon_keeps_its_runs(path: Path) -> None:
    with SessionStore(path) as store:
        store.save_subagent("swe", "a:b", store.next_subagent_run("swe", "a:b"), {"job_id": "j"})
    with SessionStore(path) as store:
        runs = store.list_subagent_runs(parent="swe", name="a:b")
        following = store.next_subagent_run("swe", "a:b")

    assert [(run["parent"], run["name"], run["run"]) for run in runs] == [("swe", "a:b", 0)]
    assert following == 1


def test_ids_go_on_above_a_counter_that_the_peer_left_ahead(path: Path) -> None:
    row = independent.encoded({"type": "text", "event_id": 3, "ts": 1.0})
    independent.write(path, "events", {"alice:e000002": row})
    independent.write(path, "state", {"counters:max_event_id": independent.encoded(9)})

    with SessionStore(path) as store:
        appended = store.append_event("alice", "text", {})

    assert appended == ("alice:e000003", 10)
    assert independent.rows(path, "state")["counters:max_event_id"] == 10


def test_the_counter_that_the_peer_trusts_is_level_after_a_kill_and_a_close(path: Path) -> None:
    kill_after(path, 9)

    SessionStore(path).close()

    assert independent.rows(path, "state")["counters:max_event_id"] == 9


def test_ids_go_on_above_a_counter_that_was_left_behind(path: Path) -> None:
    rows = {
        f"alice:e00000{at}": independent.encoded({"type": "text", "event_id": at + 1, "ts": 1.0})
        for at in range(5)
    }
    independent.write(path, "events", rows)
    independent.write(path, "state", {"counters:max_event_id": independent.encoded(2)})

    with SessionStore(path) as store:
        appended = store.append_event("bob", "text", {})

    assert appended == ("bob:e000000", 6)


def test_the_callers_dict_is_left_as_it_was(store: SessionStore) -> None:
    fields: dict[str, object] = {"content": "hello", "args": {"x": [1, {"y": None}]}}
    before = deepcopy(fields)

    store.append_event("alice", "text", fields, turn_index=1, branch_id=1, parent_branch_path=[])
    store.append_events("alice", [("text", fields)])
    store.save_channel_message("room", fields)
    store.save_subagent("alice", "explore", 0, fields)
    store.save_job("j", fields)
    store.save_turn_rollup("alice", 1, fields)

    assert fields == before


def test_a_value_that_cannot_be_stored_leaves_no_hole(path: Path) -> None:
    with closing(SessionStore(path)) as store:
        first = store.append_event("alice", "text", {"content": "one"})
        with pytest.raises(TypeError, match=r"\$\.args\.x\[1\]"):
            store.append_event("alice", "text", {"args": {"x": [0, {1, 2}]}})
        with pytest.raises(ValueError, match=r"\$\.score"):
            store.append_event("alice", "text", {"score": float("nan")})
        with pytest.raises(TypeError):
            store.append_events("alice", [("text", {"content": "x"}), ("text", {"x": object()})])
        with pytest.raises(TypeError):
            store.save_channel_message("room", {"content": object()})
        second = store.append_event("alice", "text", {"content": "two"})
        message = store.save_channel_message("room", {"content": "hello"})
        contents = [event["content"] for event in store.get_events("alice")]

    assert (first, second) == (("alice:e000000", 1), ("alice:e000001", 2))
    assert message == "room:m000000"
    assert contents == ["one", "two"]


def test_a_killed_writer_leaves_a_session_that_others_read_at_once(path: Path) -> None:
    kill_after(path, 5)

    read = run_code(COUNT_EVENTS, path)

    assert read == "5\n"

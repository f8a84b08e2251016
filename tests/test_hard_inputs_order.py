"""The order of events, what a resume makes of a killed session, what size costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from torture.form import LONG, sized
from torture.places import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = 1_700_000_000.0
AN_HOUR = 3_600.0

CALLING = """
import os, sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
store.append_event("alice", "user_message", {"content": "look"}, turn_index=1, branch_id=1)
for n in range(3):
    call = {"name": "grep", "call_id": f"c{n}", "job_id": f"c{n}", "args": {"n": n}}
    store.append_event("alice", "tool_call", call, turn_index=1, branch_id=1)
    if n == 0:
        result = {"name": "grep", "call_id": "c0", "job_id": "c0", "output": "found"}
        store.append_event("alice", "tool_result", result, turn_index=1, branch_id=1)
call = {"name": "explorer", "job_id": "agent_explorer_1", "task": "look around"}
store.append_event("alice", "subagent_call", call, turn_index=1, branch_id=1)
os.kill(os.getpid(), 9)
"""


def test_a_resume_closes_every_call_that_a_kill_left_open(path: Path) -> None:
    run(CALLING, path)
    with SessionStore(path) as store:
        stored = list(store.events.records())
        resumable = store.get_resumable_events("alice")
        again = store.get_resumable_events("alice")
        alive = store.get_resumable_events("alice", live_job_ids=["c2"])
        after = list(store.events.records())

    calls = [e["job_id"] for e in resumable if e["type"] in ("tool_call", "subagent_call")]
    results = [e["job_id"] for e in resumable if e["type"] in ("tool_result", "subagent_result")]
    open_still = [e["job_id"] for e in alive if e["type"] in ("tool_result", "subagent_result")]
    assert sorted(map(str, calls)) == sorted(map(str, results))
    assert calls == ["c0", "c1", "c2", "agent_explorer_1"]
    assert "c2" not in open_still
    assert [e for e in resumable if "output" in e and e["output"] == "found"]
    assert again == resumable
    assert after == stored


def test_events_stay_in_append_order_whatever_the_clock_says(path: Path) -> None:
    with SessionStore(path) as store:
        for n in range(1_000):
            event = {"n": n, "ts": NOW, "content": "same words"}
            store.append_event(("alice", "bob")[n % 2], "user_message", event)
        for n in range(1_000, 1_100):
            event = {"n": n, "ts": NOW - AN_HOUR, "content": "same words"}
            store.append_event("alice", "user_message", event)

    with SessionStore(path) as store:
        alice = [event["n"] for event in store.get_events("alice")]
        bob = [event["n"] for event in store.get_events("bob")]
        back = [event["n"] for event in store.iter_events("alice", reverse=True)]
        resumable = [event["n"] for event in store.get_resumable_events("alice")]
        together = [event["n"] for _, event in store.get_all_events()]
        ids = [event["event_id"] for event in store.get_events("alice")]
        hits = [hit["meta"]["event_id"] for hit in store.search("same words", 2_000)]
        again = [hit["meta"]["event_id"] for hit in store.search("same words", 2_000)]
        _, next_id = store.append_event("alice", "text", {})

    in_order = [*range(0, 1_000, 2), *range(1_000, 1_100)]
    assert alice == in_order
    assert resumable == in_order
    assert back == in_order[::-1]
    assert bob == list(range(1, 1_000, 2))
    assert together == list(range(1_100))
    assert ids == sorted(ids, key=lambda number: int(str(number)))
    assert len(hits) == 1_100
    assert hits == again
    assert hits in (sorted(hits, key=str_to_int), sorted(hits, key=str_to_int, reverse=True))
    assert next_id == 1_101


def str_to_int(number: object) -> int:
    return int(str(number))


COUNTING = """
import json, resource, sys
from amberlog import SessionStore

def read_so_far():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

with SessionStore.open_readonly(sys.argv[1]) as store:
    store.session_id
    before, memory = read_so_far(), peak()
    meta = store.load_meta()
    first = list(store.iter_events("alice", limit=10))
    small = list(store.iter_events("bob", limit=10))
    preview = store.load_conversation("alice")
    print(json.dumps({"read": read_so_far() - before, "memory": peak() - memory,
                      "first": len(first), "small": len(small), "preview": preview,
                      "status": meta["status"]}))
"""


def with_large_event(path: Path, megabytes: int) -> tuple[str, int]:
    text = "0123456789abcde " * (megabytes << 16)
    with SessionStore(path, peer_fts=False) as store:
        store.init_meta("s", "agent", "", "", ["alice", "bob"])
        for n in range(50):
            store.append_event("alice", "text", {"n": n})
            store.append_event("bob", "text", {"n": n})
        store.save_conversation("alice", [{"role": "user", "content": "small"}])
        _, event_id = store.append_event("alice", "tool_result", {"bulk": text})
        store.append_event("alice", "user_message", {"content": "after"})
    return text, event_id


@pytest.mark.torture
@pytest.mark.parametrize("megabytes", [10, 64, *([300] if LONG else [])])
def test_a_large_event_is_stored_whole_and_costs_only_its_readers(
    megabytes: int, tmp_path: Path
) -> None:
    large, small = tmp_path / "large.kohakutr", tmp_path / "small.kohakutr"
    with_large_event(small, 0)
    text, event_id = with_large_event(large, megabytes)

    costs = [json.loads(run(COUNTING, file).stdout) for file in (small, large)]
    with SessionStore.open_readonly(large) as store:
        event = store.get_event_by_id("alice", event_id)
        types = [e["type"] for e in store.iter_events("alice", types=["user_message"])]
        hits = store.search("after", 3)
        problems = store.verify().problems

    assert event is not None
    assert event["bulk"] == text
    assert types == ["user_message"]
    assert len(hits) == 1
    assert not problems
    assert costs[1]["first"] == costs[1]["small"] == 10
    assert costs[1]["preview"] == [{"role": "user", "content": "small"}]
    # A few pages more for a deeper tree, never a share of the event.
    assert costs[1]["read"] <= costs[0]["read"] + 64 * 1024
    assert costs[1]["memory"] <= costs[0]["memory"] + (8 << 20)


def test_a_value_beyond_the_limit_of_the_file_is_refused_by_name(path: Path) -> None:
    if not LONG:
        pytest.skip("needs three gigabytes of memory")
    with SessionStore(path) as store:
        with pytest.raises(ValueError, match="larger"):
            store.append_event("alice", "text", {"bulk": "x" * (1_000_000_001)})
        _, event_id = store.append_event("alice", "text", {})

    assert event_id == 1


def closed(path: Path) -> None:
    with SessionStore(path) as store:
        store.get_resumable_events("alice")
        store.load_conversation("alice")


def saved_plain(path: Path) -> None:
    with SessionStore(path) as store:
        store.save_conversation("alice", store.load_conversation("alice") or [])


def saved_on_its_branch(path: Path) -> None:
    branch = {"turn_index": 200, "branch_id": 1, "parent_branch_path": []}
    with SessionStore(path) as store:
        messages = store.load_conversation("alice") or []
        store.save_branch_snapshot("alice", messages, branch=branch, watermark=200)


@pytest.mark.parametrize("once_more", [closed, saved_plain, saved_on_its_branch])
def test_doing_nothing_fifty_times_leaves_the_session_as_it_is(
    once_more: Callable[[Path], None], path: Path
) -> None:
    messages: list[dict[str, object]] = []
    with SessionStore(path) as store:
        for turn in range(1, 201):
            store.append_event("alice", "text", {"content": f"words {turn} " * 20}, turn_index=turn)
            messages.append({"role": "user", "content": f"words {turn} " * 20})
        store.save_conversation("alice", messages)
    once_more(path)
    size = path.stat().st_size

    for _ in range(sized(short=50, long=200)):
        once_more(path)

    with SessionStore.open_readonly(path) as store:
        assert len(store.get_events("alice")) == 200
        assert store.load_conversation("alice") == messages
        assert len(store.snapshots("alice")) <= 2
        assert store.verify().ok
    assert path.stat().st_size < size * 1.05


def test_fifty_saves_of_one_list_by_one_handle_cost_no_space(path: Path) -> None:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": f"words {n} " * 20} for n in range(200)
    ]
    with SessionStore(path) as store:
        store.append_event("alice", "text", {"content": "words"}, turn_index=1)
        store.save_conversation("alice", messages)
        store.checkpoint()
        size = path.stat().st_size
        for _ in range(50):
            store.save_conversation("alice", messages)
            store.checkpoint()

    assert path.stat().st_size < size * 1.05

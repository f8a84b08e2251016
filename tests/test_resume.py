"""Coming back to a session: what is restored, from what, and what had to be mended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import (
    InvalidBranchViewError,
    NullSessionStore,
    SessionDamagedError,
    SessionNotFoundError,
    SessionNotResumableError,
    SessionStore,
    SessionVersionError,
    aio,
)
from support.agentlike import AGENT, Agentlike, unpaired
from support.children import environment
from support.independent import encoded, write
from support.kohaku import BY_NAME, SESSIONS, contents, plain, unpack

if TYPE_CHECKING:
    from pathlib import Path

LOGS = [
    (fixture.name, agent)
    for fixture in SESSIONS
    if "per_agent" in fixture.names()
    for agent in fixture.names("per_agent")
]
BRANCHED = [("turn", 0, 1), ("turn", 0, 0), ("edit", 0, 1), ("turn", 0, 2)]


def recorded(path: Path, *, saves: bool = True, turns: int = 3) -> Path:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "conf.yaml", "/w", [AGENT])
        agent = Agentlike(store, saves=saves, states=True)
        agent.take([("turn", 0, 1)] * turns)
    return path


@pytest.mark.parametrize(("name", "agent"), LOGS)
def test_a_session_of_the_peers_has_the_messages_that_the_peer_resumes_with(
    name: str, agent: str, tmp_path: Path
) -> None:
    fixture = BY_NAME[name]
    path = fixture.unpack(tmp_path)

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        found = resumed.agents[agent]
        messages, events = plain(found.conversation), plain(found.events)
        scratchpad = dict(found.scratchpad)

    assert messages == fixture.expected("per_agent", agent, "resume_messages")
    assert events == fixture.expected("per_agent", agent, "resumable_events")
    assert scratchpad == fixture.expected("per_agent", agent, "scratchpad")
    assert resumed.repairs == ()


@pytest.mark.parametrize(("name", "agent"), LOGS)
def test_a_session_of_the_peers_that_was_open_here_has_the_same_messages(
    name: str, agent: str, tmp_path: Path
) -> None:
    fixture = BY_NAME[name]
    path = fixture.unpack(tmp_path)
    with SessionStore(path) as store:
        store.flush()

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        messages = plain(resumed.agents[agent].conversation)

    assert messages == fixture.expected("per_agent", agent, "resume_messages")


@pytest.mark.parametrize(("name", "agent"), LOGS)
def test_the_place_is_that_of_the_branches_that_the_peer_selects(
    name: str, agent: str, tmp_path: Path
) -> None:
    fixture = BY_NAME[name]
    selected = fixture.expected("per_agent", agent, "selected_branches")
    assert isinstance(selected, dict)
    path = fixture.unpack(tmp_path)

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        found = resumed.agents[agent]
        place, parents = (found.turn_index, found.branch_id), dict(found.parent_branch_path)

    last = max(map(int, selected), default=None)
    assert place == ((last, selected[str(last)]) if last is not None else (None, None))
    assert plain(parents) == {turn: selected[turn] for turn in selected if int(turn) != last}


def test_a_session_of_the_first_format_gives_what_it_holds(tmp_path: Path) -> None:
    path = unpack("v1.kohakutr.gz", tmp_path, "v1.kohakutr")

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        messages = resumed.agents["alice"].conversation

    assert [message["content"] for message in messages] == [
        "You are a helpful agent.",
        "User had the README read.",
        "thanks, now stop",
        "Stopping now.",
    ]
    assert resumed.agents["alice"].scratchpad == {"plan": "inspect repo"}


@pytest.mark.parametrize("events", [60, 6_000])
def test_from_a_snapshot_no_event_before_it_is_read(events: int, path: Path) -> None:
    recorded(path, saves=False, turns=2)
    with SessionStore(path) as store:
        for number in range(events // 60):
            part = [("text_chunk", {"content": f"{number}.{chunk}"}) for chunk in range(60)]
            store.append_events(AGENT, part, turn_index=3 + number, branch_id=1)
        last = 2 + events // 60
        parents = [[turn, 1] for turn in range(1, last)]
        tag: dict[str, object] = {"turn_index": last, "branch_id": 1}
        tag["parent_branch_path"] = parents
        about = {"turn_index": last, "branch_id": 1}
        said = [{"role": "user", "content": "all of it", "metadata": about}]
        store.save_branch_snapshot(AGENT, said, branch=tag, watermark=store.max_event_id())
        store.append_event(
            AGENT, "user_message", {"content": "on"}, turn_index=last + 1, branch_id=1
        )

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        found = resumed.agents[AGENT]

    assert (found.source, found.events_read) == ("snapshot+tail", 1)
    assert [message["content"] for message in found.conversation] == ["all of it", "on"]
    assert (found.turn_index, found.branch_id) == (last + 1, 1)


def test_a_branch_begun_after_the_snapshot_is_the_one_that_is_shown(path: Path) -> None:
    recorded(path)
    with SessionStore(path) as store:
        store.append_event(
            AGENT, "user_message", {"content": "another"}, turn_index=2, branch_id=2,
            parent_branch_path=[(1, 1)],
        )  # fmt: skip

    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        found = resumed.agents[AGENT]

    assert [m["content"] for m in found.conversation if m["role"] == "user"] == [
        "turn 0 at turn 1",
        "another",
    ]
    assert (found.turn_index, found.branch_id) == (2, 2)


def test_a_snapshot_tagged_with_a_branch_that_is_not_the_latest_is_not_taken(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        for branch in (1, 2):
            said = {"content": f"branch {branch}"}
            store.append_event(AGENT, "user_message", said, turn_index=1, branch_id=branch)
        about = {"turn_index": 1, "branch_id": 1}
        messages = [{"role": "user", "content": "branch 1", "metadata": about}]
        store.save_branch_snapshot(AGENT, messages, branch=about, watermark=2)

    latest = amberlog.resume(path, readonly=True)
    with SessionStore(path) as store:
        store.state[f"{AGENT}:branch_view"] = {"1": 1}
    viewed = amberlog.resume(path, readonly=True)

    told = [[m["content"] for m in one.agents[AGENT].conversation] for one in (latest, viewed)]
    assert told == [["branch 2"], ["branch 1"]]
    assert viewed.agents[AGENT].turn_index == 1
    latest.store.close()
    viewed.store.close()


def test_a_view_shows_an_older_branch_or_is_refused(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take(BRANCHED)
        older = amberlog.resume(store, view={1: 1}).agents[AGENT]
        newest = amberlog.resume(store).agents[AGENT]
        with pytest.raises(InvalidBranchViewError):
            amberlog.resume(store, view={1: 9})
        path_before = older.parent_branch_path

    assert [m["content"] for m in older.conversation if m["role"] == "user"] == [
        "turn 0 at turn 1",
        "turn 0 at turn 2",
    ]
    assert (older.turn_index, older.branch_id) == (2, 1)
    assert path_before == ((1, 1),)
    assert (newest.turn_index, newest.branch_id) == (2, 2)


def test_a_session_that_was_killed_between_call_and_result_goes_on(path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from amberlog import SessionStore\n"
        "from support.agentlike import Agentlike\n"
        "store = SessionStore(sys.argv[1])\n"
        "store.init_meta('s', 'agent', '', '/w', ['alice'])\n"
        "agent = Agentlike(store, saves=True, states=True)\n"
        "agent.take([('turn', 0, 1)])\n"
        "agent.break_off(3, 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, path], env=environment(), check=False, timeout=60
    )

    before = rows(path)
    resumed = amberlog.resume(path)
    with resumed.store as store:
        found = resumed.agents[AGENT]
        painted = found.events
        after = [store.events[key] for key in store.events]

    assert killed.returncode == -signal.SIGKILL
    assert found.source == "snapshot+tail"
    assert unpaired(found.conversation) == []
    assert [(repair.kind, repair.call_id) for repair in resumed.repairs] == [
        ("answered", "call-bash_2"),
        ("answered", "call-bash_3"),
    ]
    answers = [m for m in found.conversation if m.get("tool_call_id") == "call-bash_3"]
    assert answers[0]["metadata"] == {"_synthetic_resume": True}
    assert [event.get("_synthetic_resume") for event in painted[-2:]] == [True, True]
    assert after == before


def rows(path: Path) -> list[object]:
    with SessionStore.open_readonly(path) as store:
        return [store.events[key] for key in store.events]


def test_a_call_whose_job_still_runs_stays_open(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=False, states=True).break_off(2, 0)

        found = amberlog.resume(store, live_jobs=["bash_1"]).agents[AGENT]

    assert unpaired(found.conversation) == ["call-bash_1"]
    assert [repair.call_id for repair in found.repairs] == ["call-bash_0"]


def test_messages_that_were_cut_in_the_middle_of_an_exchange_are_mended(path: Path) -> None:
    calls = [{"id": "b", "type": "function", "function": {"name": "x", "arguments": "{}"}}]
    messages: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": "a", "content": "cut from its call"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "user", "content": "are you there?"},
        {"role": "tool", "tool_call_id": "b", "content": "late"},
    ]
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        store.save_conversation(AGENT, messages)
        resumed = amberlog.resume(store)
        kept = store.load_conversation(AGENT)

    assert [m["content"] for m in resumed.agents[AGENT].conversation] == [
        "",
        "late",
        "are you there?",
    ]
    assert [(one.kind, one.call_id) for one in resumed.repairs] == [
        ("dropped", "a"),
        ("moved", "b"),
    ]
    assert all(one.call_id in str(one) for one in resumed.repairs)
    assert kept == messages


def test_coming_back_fifty_times_adds_nothing(path: Path) -> None:
    recorded(path)
    size = path.stat().st_size
    count = len(rows(path))

    lengths = set()
    for _ in range(50):
        resumed = amberlog.resume(path)
        lengths.add(len(resumed.agents[AGENT].conversation))
        resumed.store.close()

    assert len(rows(path)) == count
    assert path.stat().st_size < size * 1.05
    assert lengths == {12}


def test_a_path_is_marked_as_running_and_a_store_is_not(path: Path) -> None:
    recorded(path)
    with SessionStore(path) as store:
        store.set_conversation_open(False)

    with SessionStore.open_readonly(path) as store:
        amberlog.resume(store)
        untouched = store.meta.get("status")
    resumed = amberlog.resume(path)
    marks = [resumed.store.meta.get(name) for name in ("status", "conversation_open")]
    resumed.store.close()

    assert untouched == "paused"
    assert marks == ["running", True]


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    path = recorded(tmp_path / "s.kohakutr")
    before = contents(tmp_path)

    resumed = amberlog.resume(path, readonly=True)
    _ = resumed.agents[AGENT].events, resumed.agents[AGENT].parent_branch_path
    resumed.store.close()

    assert contents(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_where_one_may_not_write_a_session_is_read(tmp_path: Path) -> None:
    path = recorded(tmp_path / "s.kohakutr")
    tmp_path.chmod(0o555)
    try:
        resumed = amberlog.resume(path)
    finally:
        tmp_path.chmod(0o755)

    assert resumed.store.readonly
    assert resumed.agents[AGENT].conversation
    resumed.store.close()


def test_a_bare_name_leads_to_its_newest_version_and_a_merged_session_to_its_successor(
    tmp_path: Path,
) -> None:
    merged = recorded(tmp_path / "merged.kohakutr")
    newer = recorded(tmp_path / "next.kohakutr.v2")
    recorded(tmp_path / "next.kohakutr", saves=False, turns=1)
    with SessionStore(newer) as store:
        identity = store.meta["conversation_id"]
    target = {"path": "next.kohakutr", "conversation_id": identity}
    with SessionStore(merged) as store:
        store.meta["resume_successor"] = {
            "kind": "merge", "state": "ready", "targets": [target], "agents": [AGENT],
        }  # fmt: skip

    resumed = amberlog.resume(merged)
    resumed.store.close()
    with SessionStore(merged) as store:
        store.meta["resume_successor"] = {"kind": "merge", "state": "pending"}

    assert resumed.store.path == str(newer)
    with pytest.raises(SessionNotResumableError):
        amberlog.resume(merged)


def test_what_cannot_be_come_back_to_is_refused_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.kohakutr"
    broken.write_bytes(b"not a session" * 100)
    newer = recorded(tmp_path / "newer.kohakutr")
    write(newer, "meta", {"format_version": encoded(9)})
    before = contents(tmp_path)

    for path, error in [
        (tmp_path / "missing.kohakutr", SessionNotFoundError),
        (broken, SessionDamagedError),
        (newer, SessionVersionError),
    ]:
        with pytest.raises(error):
            amberlog.resume(path)

    assert contents(tmp_path) == before


def test_an_agent_is_asked_for_by_name(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "terrarium", "", "/w", ["alice", "bob"])
        store.append_event("alice:helper", "text", {"content": "x"})
        store.save_state("alice", scratchpad={"plan": "go", "__internal__": 1})
        store.save_state("alice:helper", scratchpad={"plan": "other"})

        everyone = amberlog.resume(store)
        bob = amberlog.resume(store, agent="bob")
        with pytest.raises(ValueError, match="carol"):
            amberlog.resume(store, agent="carol")
        with pytest.raises(ValueError, match="whose view"):
            amberlog.resume(store, view={1: 1})

    assert list(everyone.agents) == ["alice", "bob", "alice:helper"]
    assert list(bob.agents) == ["bob"]
    assert everyone.agents["alice"].scratchpad == {"plan": "go"}
    assert everyone.agents["alice"].state == {}
    assert everyone.agents["bob"].source == "nothing"


def test_a_session_that_is_not_kept_has_nothing(path: Path) -> None:
    with NullSessionStore(path) as store:
        store.append_event(AGENT, "user_message", {"content": "x"}, turn_index=1, branch_id=1)

        resumed = amberlog.resume(store)

    assert dict(resumed.agents) == {}


def test_it_can_be_awaited(path: Path) -> None:
    recorded(path)

    async def session() -> list[dict[str, object]]:
        async with await aio.open_session(path) as store:
            resumed = await aio.resume(store, agent=AGENT)
            again = await store.restore_conversation(AGENT)
            assert again.messages == resumed.agents[AGENT].conversation
        resumed = await aio.resume(path)
        resumed.store.close()
        return resumed.agents[AGENT].conversation

    assert len(asyncio.run(session())) == 12


def test_a_watermark_that_was_written_beside_an_untagged_snapshot_counts(path: Path) -> None:
    said: list[dict[str, object]] = [{"role": "user", "content": "so far"}]
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        store.append_event(AGENT, "user_message", {"content": "a"}, turn_index=1, branch_id=1)
        store.save_conversation(AGENT, said)
        store.state[f"{AGENT}:snapshot_event_id"] = 1
        store.append_event(AGENT, "user_message", {"content": "b"}, turn_index=2, branch_id=1)

        found = amberlog.resume(store).agents[AGENT]

    assert [message["content"] for message in found.conversation] == ["so far", "b"]
    assert (found.source, found.watermark) == ("snapshot+tail", 1)


def test_the_watermark_of_a_tagged_snapshot_is_not_that_of_an_untagged_one_after_it(
    path: Path,
) -> None:
    recorded(path)
    said: list[dict[str, object]] = [{"role": "user", "content": "all of it"}]
    with SessionStore(path) as store:
        store.append_event(AGENT, "user_message", {"content": "b"}, turn_index=4, branch_id=1)
        store.save_conversation(AGENT, said)

        found = amberlog.resume(store).agents[AGENT]

    assert [message["content"] for message in found.conversation] == ["all of it"]
    assert found.watermark is None


def test_turns_of_messages_that_do_not_name_theirs_are_those_begun_last(path: Path) -> None:
    recorded(path, saves=False)
    said = [{"role": "user", "content": text} for text in ("an old one", "turn 0 at turn 3")]
    with SessionStore(path) as store:
        store.save_conversation(AGENT, said)
        found = amberlog.resume(store).agents[AGENT]
        kept = store.load_conversation(AGENT)

    places = [json.loads(json.dumps(message["metadata"])) for message in found.conversation]
    assert [(place["turn_index"], place["branch_id"]) for place in places] == [(2, 1), (3, 1)]
    assert kept == said

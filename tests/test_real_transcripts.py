"""Real runs of real agents, recorded event by event and read back equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support import independent
from support.shared import Message, needs_shared_data, swe_agent_runs, tau_bench_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = needs_shared_data

AGENT = "agent"
KINDS = {"user": "user_message", "assistant": "assistant_message", "tool": "tool_result"}


def record(store: SessionStore, messages: Iterable[Message]) -> list[int]:
    """Appends an event for each message and returns their ids; a user's message opens a turn."""
    turn = 0
    ids = []
    for message in messages:
        turn += message["role"] == "user"
        kind = KINDS.get(str(message["role"]), "system_prompt_set")
        fields = {"content": message.get("content"), "message": message}
        _, event_id = store.append_event(AGENT, kind, fields, turn_index=turn, branch_id=1)
        ids.append(event_id)
    return ids


def as_told(events: Iterable[object]) -> str:
    """Returns the messages of events as text that shows types and the order of keys too."""
    messages = []
    for event in events:
        assert isinstance(event, dict)
        messages.append(event["message"])
    return repr(messages)


def turns_of(messages: list[Message]) -> Iterator[tuple[int, list[Message]]]:
    """Yields each turn with all messages up to its end."""
    starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    for turn, end in enumerate([*starts[1:], len(messages)], start=1):
        yield turn, messages[:end]


def save_turns(store: SessionStore, messages: list[Message]) -> None:
    """Saves the conversation at the end of each turn, as a runtime does."""
    for turn, until in turns_of(messages):
        branch = {
            "turn_index": turn,
            "branch_id": 1,
            "parent_branch_path": [[earlier, 1] for earlier in range(1, turn)],
            "context_cutoff_event_id": 0,
        }
        store.save_branch_snapshot(AGENT, until, branch=branch, watermark=len(until))


def test_every_customer_service_run_is_read_back_equal(tmp_path: Path) -> None:
    runs = list(tau_bench_runs())
    assert len(runs) == 200

    for name, messages in runs:
        path = tmp_path / f"{name}.kohakutr"
        with SessionStore(path) as store:
            ids = record(store, messages)
            live = as_told(store.get_events(AGENT))
        with SessionStore.open_readonly(path) as store:
            events = store.get_events(AGENT)

        assert live == repr(messages)
        assert as_told(events) == repr(messages)
        assert [event["event_id"] for event in events] == ids == list(range(1, len(messages) + 1))


def test_all_runs_in_one_session_keep_to_themselves(tmp_path: Path) -> None:
    path = tmp_path / "all.kohakutr"
    runs = list(tau_bench_runs())

    with SessionStore(path) as store:
        for name, messages in runs:
            store.append_events(name, [("message", {"message": message}) for message in messages])
    with SessionStore(path) as store:
        told = {name: as_told(store.iter_events(name)) for name, _ in runs}
        report = store.verify()

    assert told == {name: repr(messages) for name, messages in runs}
    assert report.ok
    assert report.counts["events"] == sum(len(messages) for _, messages in runs)


def test_every_coding_run_is_read_back_equal(tmp_path: Path) -> None:
    runs = list(swe_agent_runs())
    assert len(runs) == 6

    for name, document in runs:
        path = tmp_path / f"{name}.kohakutr"
        history, steps = document["history"], document.get("trajectory", [])
        rest = {
            key: value for key, value in document.items() if key not in ("history", "trajectory")
        }
        assert isinstance(history, list)
        assert isinstance(steps, list)
        with SessionStore(path) as store:
            record(store, history)
            for step in steps:
                store.append_event("steps", "tool_call", {"message": step})
            store.state["rest"] = rest
        with SessionStore.open_readonly(path) as store:
            told = as_told(store.get_events(AGENT)), as_told(store.get_events("steps"))
            kept = store.state["rest"]
            report = store.verify()

        assert told == (repr(history), repr(steps))
        assert repr(kept) == repr(rest)
        assert report.ok


def test_an_independent_reader_reads_the_same_messages(tmp_path: Path) -> None:
    for name, document in swe_agent_runs():
        path = tmp_path / f"{name}.kohakutr"
        history = document["history"]
        assert isinstance(history, list)

        with SessionStore(path) as store:
            record(store, history)

        assert as_told(independent.rows(path, "events").values()) == repr(history)


@pytest.mark.parametrize("at", [0, 50, 100, 150, 199])
def test_the_conversation_of_every_turn_of_a_run_can_be_loaded(at: int, tmp_path: Path) -> None:
    _, messages = list(tau_bench_runs())[at]
    path = tmp_path / "session.kohakutr"

    with SessionStore(path) as store:
        record(store, messages)
        save_turns(store, messages)
        live = {turn: store.load_conversation(AGENT, turn) for turn, _ in turns_of(messages)}
    with SessionStore.open_readonly(path) as store:
        read = {turn: store.load_conversation(AGENT, turn) for turn, _ in turns_of(messages)}
        newest = store.load_conversation(AGENT)
        listed = [(info.turn, info.messages) for info in store.snapshots(AGENT)]

    wanted = dict(turns_of(messages))
    assert repr(live) == repr(wanted)
    assert repr(read) == repr(wanted)
    assert repr(newest) == repr(messages)
    assert listed == [(turn, len(until)) for turn, until in wanted.items()]
    assert independent.rows(path, "conversation") == {AGENT: messages}


def test_the_conversation_of_every_turn_of_a_coding_run_can_be_loaded(tmp_path: Path) -> None:
    for name, document in swe_agent_runs():
        path = tmp_path / f"{name}.kohakutr"
        history = document["history"]
        assert isinstance(history, list)

        with SessionStore(path) as store:
            save_turns(store, history)
        with SessionStore.open_readonly(path) as store:
            read = {turn: store.load_conversation(AGENT, turn) for turn, _ in turns_of(history)}

        assert repr(read) == repr(dict(turns_of(history)))

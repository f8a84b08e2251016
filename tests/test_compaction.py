"""Compaction checkpoints: the event, the snapshot that goes with it, and the history after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amberlog import Recorder, SessionStore, lineage
from support.independent import rows
from support.kohaku import SESSIONS, Fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT = "main"
SUMMARY = "Earlier: they looked around."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.kohakutr"


@pytest.fixture
def store(path: Path) -> Iterator[SessionStore]:
    with SessionStore(path) as store:
        yield store


def spoken(messages: list[dict[str, object]]) -> list[object]:
    return [message["content"] for message in messages]


def turns(recorder: Recorder, count: int) -> None:
    for number in range(count):
        with recorder.turn(f"ask {number}") as turn:
            call = turn.tool_call("bash", {"n": number})
            turn.tool_result(call, f"out {number}")
            turn.text(f"answer {number}")


def fail(recorder: Recorder) -> None:
    with recorder.turn("x") as turn:
        turn.tool_call("bash", {})
        raise OSError("gone")


def is_valid(messages: list[dict[str, object]]) -> bool:
    """Whether every call is followed by its results and every result follows its call."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(str(message["tool_call_id"]))
            continue
        calls = message.get("tool_calls") or []
        if waiting or not isinstance(calls, list):
            return False
        waiting = [call["id"] for call in calls]
    return not waiting


@pytest.mark.parametrize("blank", ["", "  \n\t"])
def test_a_blank_summary_writes_nothing(blank: str, store: SessionStore) -> None:
    turns(Recorder(store, AGENT), 1)
    before = store.max_event_id(), store.get_working_history(AGENT)

    stored = store.append_compaction_checkpoint(AGENT, blank)

    assert stored is False
    assert (store.max_event_id(), store.get_working_history(AGENT)) == before


def test_the_history_is_the_summary_and_what_came_after(store: SessionStore) -> None:
    recorder = Recorder(store, AGENT)
    turns(recorder, 3)

    stored = recorder.compact(SUMMARY)
    turns(recorder, 1)

    assert stored is True
    assert spoken(recorder.history()) == [SUMMARY, "ask 0", "", "out 0", "answer 0"]
    assert recorder.history() == lineage.replay_conversation(store.get_events(AGENT))


def test_event_and_snapshot_agree_on_disk(path: Path) -> None:
    with SessionStore(path) as store:
        turns(Recorder(store, AGENT), 2)
        store.append_compaction_checkpoint(AGENT, SUMMARY, metadata={"model": "m"})

    events = list(rows(path, "events").values())
    state, messages = rows(path, "state"), rows(path, "conversation")[AGENT]
    event = events[-1]

    assert isinstance(event, dict)
    assert isinstance(messages, list)
    assert (event["type"], event["summary"]) == ("compact_complete", SUMMARY)
    assert (event["replaced_from_event_id"], event["replaced_to_event_id"]) == (
        1,
        event["event_id"] - 1,
    )
    assert event["compact_path"] == [[1, 1], [2, 1]]
    assert event["metadata"] == {"model": "m"}
    assert spoken(messages) == [SUMMARY]
    assert state[f"{AGENT}:snapshot_event_id"] == event["event_id"]
    assert state[f"{AGENT}:compact_count"] == 1


def test_a_part_of_the_log_can_be_summarised(store: SessionStore) -> None:
    turns(Recorder(store, AGENT), 3)
    last = [event for event in store.get_events(AGENT) if event["type"] == "user_input"][-1]
    end = int(str(last["event_id"])) - 1

    store.append_compaction_checkpoint(AGENT, SUMMARY, to_event_id=end)

    history = store.get_working_history(AGENT)
    assert spoken(history) == [SUMMARY, "ask 2", "", "out 2", "answer 2"]


def test_a_reader_finds_the_same_history(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        turns(recorder, 2)
        recorder.compact(SUMMARY)
        turns(recorder, 1)
        history = recorder.history()

        with SessionStore.open_readonly(path) as reader:
            found = reader.get_working_history(AGENT)

    assert found == history


def test_a_range_without_events_is_refused(store: SessionStore) -> None:
    turns(Recorder(store, AGENT), 1)
    last = store.max_event_id()

    for bounds in ((0, 3), (5, 4), (last + 5, last + 9)):
        with pytest.raises(ValueError, match="from_event_id"):
            store.append_compaction_checkpoint(
                AGENT, SUMMARY, from_event_id=bounds[0], to_event_id=bounds[1]
            )

    assert store.max_event_id() == last


def test_a_call_that_waits_is_not_summarised(store: SessionStore) -> None:
    recorder = Recorder(store, AGENT)
    turns(recorder, 1)

    with recorder.turn("run") as turn:
        call = turn.tool_call("bash", {}, call_id="call_w")
        recorder.compact(SUMMARY)
        turn.tool_result(call, "late")
        turn.text("done")
    history = recorder.history()

    assert spoken(history) == [SUMMARY, "", "late", "done"]
    assert is_valid(history)


def test_a_session_without_events_starts_from_its_summary(store: SessionStore) -> None:
    store.save_conversation(AGENT, [{"role": "system", "content": "be kind"}])

    store.append_compaction_checkpoint(AGENT, SUMMARY)

    assert spoken(store.get_working_history(AGENT)) == ["be kind", SUMMARY]


def test_a_second_summary_takes_the_place_of_the_first(store: SessionStore) -> None:
    recorder = Recorder(store, AGENT)
    turns(recorder, 2)
    recorder.compact("first")
    turns(recorder, 2)

    recorder.compact("second")
    turns(recorder, 1)

    assert spoken(recorder.history())[0] == "second"
    assert recorder.history() == lineage.replay_conversation(store.get_events(AGENT))
    assert store.state[f"{AGENT}:compact_count"] == 2


def test_a_summary_stays_with_an_edit_after_it_and_goes_with_one_before(
    store: SessionStore,
) -> None:
    recorder = Recorder(store, AGENT)
    turns(recorder, 2)
    recorder.compact(SUMMARY)
    turns(recorder, 1)

    with recorder.edit(3, "other") as turn:
        turn.text("fine")
    after = recorder.history()
    with recorder.edit(2, "earlier") as turn:
        turn.text("well")
    before = recorder.history()

    assert spoken(after) == [SUMMARY, "other", "fine"]
    assert spoken(before) == ["ask 0", "", "out 0", "answer 0", "earlier", "well"]


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_the_history_of_a_session_of_the_peer_is_what_the_peer_resumes(
    fixture: Fixture, tmp_path: Path
) -> None:
    path = fixture.unpack(tmp_path)
    with SessionStore.open_readonly(path) as store:
        found = {agent: store.get_working_history(agent) for agent in fixture.names("per_agent")}

    resumed = {agent: fixture.expected("per_agent", agent, "resume_messages") for agent in found}
    told = {
        agent: [{key: message[key] for key in message if key != "metadata"} for message in messages]
        for agent, messages in resumed.items()
        if isinstance(messages, list)
    }
    assert found == told


@settings(max_examples=40, deadline=None)
@given(
    plan=st.lists(st.sampled_from(["turn", "compact", "edit", "fail", "reopen"]), max_size=9),
    limit=st.integers(1, 12),
)
def test_any_history_is_valid_and_short_enough(
    plan: list[str], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "session.kohakutr"
    store = SessionStore(path)
    recorder = Recorder(store, AGENT)
    for step in plan:
        if step == "turn":
            turns(recorder, 1)
        elif step == "compact" and recorder.lineage:
            recorder.compact(SUMMARY)
        elif step == "edit" and recorder.lineage:
            with recorder.regenerate(recorder.lineage[len(recorder.lineage) // 2][0]) as turn:
                turn.text("other")
        elif step == "fail":
            with pytest.raises(OSError, match="gone"):
                fail(recorder)
        elif step == "reopen":
            store.close()
            store = SessionStore(path)
            recorder = Recorder(store, AGENT)

    whole = recorder.history()
    short = recorder.history(limit)
    told = lineage.replay_conversation(store.get_events(AGENT))
    store.close()

    assert whole == told
    assert is_valid(whole)
    assert is_valid(short)
    assert len(short) <= limit
    assert (SUMMARY in spoken(short)) == (SUMMARY in spoken(whole))

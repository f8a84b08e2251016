"""What a recorder leaves in a session, read by other means than the package's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from amberlog import NullSessionStore, Recorder, SessionStore, lineage
from support.independent import rows

AGENT = "main"
PAGE = Path(__file__).parent.parent / "docs" / "recording.md"
ENVELOPE = {"type", "event_id", "ts", "turn_index", "spawned_in_turn", "branch_id"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.kohakutr"


def spoken(messages: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(message["role"], message["content"]) for message in messages]


def recorded(path: Path) -> list[dict[str, object]]:
    events = rows(path, "events").values()
    return [event for event in events if isinstance(event, dict)]


def one_turn(recorder: Recorder, asked: str = "list the files") -> None:
    with recorder.turn(asked) as turn:
        turn.text("I will ")
        turn.text("look.")
        call = turn.tool_call("bash", {"command": "ls"}, call_id="call_1")
        turn.tool_result(call, "README.md")
        turn.token_usage(100, 20, 30)
        turn.text("There is one.")


def test_a_turn_leaves_the_events_that_the_peer_leaves(path: Path) -> None:
    with SessionStore(path) as store:
        one_turn(Recorder(store, AGENT))

    events = recorded(path)
    start = events[3]["event_id"]
    call = {"id": "call_1", "type": "function"}
    call["function"] = {"name": "bash", "arguments": '{"command": "ls"}'}  # type: ignore[assignment]

    assert [event["type"] for event in events] == [
        "user_input",
        "user_message",
        "processing_start",
        "assistant_round_start",
        "text_chunk",
        "tool_call",
        "assistant_message",
        "tool_result",
        "token_usage",
        "assistant_round_start",
        "text_chunk",
        "assistant_message",
        "turn_token_usage",
        "processing_end",
    ]
    assert {(event["turn_index"], event["branch_id"]) for event in events} == {(1, 1)}
    assert {key: events[0][key] for key in events[0] if key not in ENVELOPE} == {
        key: events[1][key] for key in events[1] if key not in ENVELOPE
    }
    assert events[4]["content"] == "I will look."
    assert events[6]["round_start_event_id"] == start
    assert events[6]["message"] == {
        "role": "assistant",
        "content": "I will look.",
        "tool_calls": [call],
    }


def test_the_end_of_a_turn_is_all_there_is_to_resume_from(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        recorder.scratchpad["goal"] = "find it"
        one_turn(recorder)

    state = rows(path, "state")
    last = recorded(path)[-1]["event_id"]
    messages = rows(path, "conversation")[AGENT]
    rollup = rows(path, "turn_rollup")[f"{AGENT}:turn:000001"]
    run = state[f"run:{AGENT}"]
    branch = state[f"{AGENT}:snapshot_branch"]

    assert isinstance(messages, list)
    assert isinstance(rollup, dict)
    assert isinstance(run, dict)
    assert isinstance(branch, dict)
    assert spoken(messages) == [
        ("user", "list the files"),
        ("assistant", "I will look."),
        ("tool", "README.md"),
        ("assistant", "There is one."),
    ]
    assert state[f"{AGENT}:snapshot_event_id"] == last
    assert (branch["turn_index"], branch["branch_id"]) == (1, 1)
    assert state[f"{AGENT}:scratchpad"] == {"goal": "find it"}
    assert (rollup["tokens_in"], rollup["tokens_out"], rollup["tokens_cached"]) == (100, 20, 30)
    assert run["state"] == "idle"
    assert run["ended_at"] is not None


def test_the_history_is_what_the_log_tells(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        one_turn(recorder)
        one_turn(recorder, "and now?")
        with recorder.regenerate() as turn:
            turn.text("Another answer.")
        with recorder.edit(1, "list the directories") as turn:
            turn.text("There is none.")
        one_turn(recorder, "thanks")

        history = recorder.history()
        told = lineage.replay_conversation(store.get_events(AGENT))

    assert history == told
    assert spoken(history)[:3] == [
        ("user", "list the directories"),
        ("assistant", "There is none."),
        ("user", "thanks"),
    ]


def test_a_branch_that_goes_on_states_no_parent_path(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        for _ in range(3):
            one_turn(recorder)
        with recorder.edit(2, "again") as turn:
            turn.text("Yes.")
        one_turn(recorder)

    stated = [event for event in recorded(path) if event.get("parent_branch_path")]

    assert not stated


def test_a_second_recorder_goes_on_where_the_first_one_was(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        recorder.scratchpad["n"] = 1
        one_turn(recorder)
        one_turn(recorder)
        with recorder.regenerate() as turn:
            turn.text("Other.")

    with SessionStore(path) as store:
        again = Recorder(store, AGENT)
        lineage_found = again.lineage
        one_turn(again, "more")

    assert lineage_found == ((1, 1), (2, 2))
    assert again.scratchpad == {"n": 1}
    assert again.lineage == ((1, 1), (2, 2), (3, 1))


def test_an_exception_is_an_interrupted_turn(path: Path) -> None:
    def fail(recorder: Recorder) -> None:
        with recorder.turn("run it") as turn:
            turn.text("Running")
            turn.tool_call("bash", {}, call_id="call_7")
            raise KeyboardInterrupt

    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        with pytest.raises(KeyboardInterrupt):
            fail(recorder)
        history = recorder.history()

    events = {event["type"]: event for event in recorded(path)}

    assert events["processing_error"]["error_type"] == "KeyboardInterrupt"
    assert events["tool_result"]["interrupted"] is True
    assert events["tool_result"]["final_state"] == "interrupted"
    assert [message["role"] for message in history] == ["user", "assistant", "tool"]
    assert recorded(path)[-1]["type"] == "processing_end"


def test_a_subagent_is_a_run_of_its_own(path: Path) -> None:
    with SessionStore(path) as store, Recorder(store, AGENT).turn("explore") as turn:
        job = turn.subagent_call("explorer", "look around")
        turn.subagent_result(job, "nothing there", turns=2)

    runs = rows(path, "subagents")
    meta = runs[f"{AGENT}:explorer:0:meta"]

    assert isinstance(meta, dict)
    assert (meta["job_id"], meta["task"], meta["success"]) == (job, "look around", True)
    assert runs[f"{AGENT}:explorer:0:conversation"] == (
        '[{"role": "user", "content": "look around"}, '
        '{"role": "assistant", "content": "nothing there"}]'
    )


def test_token_counts_add_up_over_recorders(path: Path) -> None:
    for _ in range(2):
        with SessionStore(path) as store:
            one_turn(Recorder(store, AGENT))

    usage = rows(path, "state")[f"{AGENT}:token_usage"]

    assert usage == {
        "total_input_tokens": 200,
        "total_output_tokens": 40,
        "total_cached_tokens": 60,
        "last_prompt_tokens": 100,
    }


def test_what_makes_no_sense_is_refused(path: Path) -> None:
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        idle = recorder.turn("later")

        with pytest.raises(ValueError, match="not open"):
            idle.text("too early")
        with pytest.raises(ValueError, match="no turn 9"):
            recorder.edit(9, "what")
        with recorder.turn("now") as turn:
            with pytest.raises(ValueError, match="call_x"):
                turn.tool_result("call_x", "out")
            with pytest.raises(ValueError, match="still open"):
                recorder.turn("at once")


def test_a_session_that_is_not_kept_can_be_recorded(tmp_path: Path) -> None:
    store = NullSessionStore(tmp_path / "none.kohakutr")

    recorder = Recorder(store, AGENT)
    one_turn(recorder)

    assert recorder.history() == []
    assert recorder.compact("all of it")
    assert not list(tmp_path.iterdir())


def test_a_listener_hears_of_every_recorded_event(path: Path) -> None:
    heard: list[tuple[str, object]] = []
    with SessionStore(path) as store:
        store.subscribe(lambda key, event: heard.append((key, event["type"])))

        one_turn(Recorder(store, AGENT))

    stored = rows(path, "events")
    assert [key for key, _ in heard] == list(stored)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "recorded.kohakutr").exists()

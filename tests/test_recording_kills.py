"""A recording process killed at any moment: what it acknowledged is there, and goes on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog import Recorder, SessionStore
from support.children import environment
from torture.form import sized

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torture

AGENT = "main"
CHILD = """
import sys
from amberlog import Recorder, SessionStore

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

store = SessionStore(sys.argv[1])
recorder = Recorder(store, "main")
number = 0
say("ready")
while True:
    number += 1
    with recorder.turn(f"ask {number}") as turn:
        say("event", store.max_event_id())
        for step in range(2):
            for piece in range(6):
                turn.text("word " * 30)
            say("text", recorder.lineage[-1][0])
            call = turn.tool_call("bash", {"step": step})
            say("event", store.max_event_id())
            turn.tool_result(call, "out")
            say("event", store.max_event_id())
        turn.text("done")
    say("turn", recorder.lineage[-1][0], store.max_event_id())
    if number % 5 == 0:
        recorder.compact(f"summary {number}")
        say("event", store.max_event_id())
"""


def killed(path: Path, chance: random.Random) -> list[list[str]]:
    """Starts a recording process, kills it after some lines and returns what it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    stream = child.stdout
    assert stream is not None
    lines = [stream.readline() for _ in range(chance.randrange(2, 120))]
    child.send_signal(signal.SIGKILL)
    lines += stream.readlines()
    child.wait()
    stream.close()
    return [line.split() for line in lines if line.endswith("\n")]


def waiting_calls(messages: list[dict[str, object]]) -> list[str]:
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(str(message["tool_call_id"]))
        calls = message.get("tool_calls") or []
        assert isinstance(calls, list)
        assert not (calls and waiting)
        waiting += [call["id"] for call in calls]
    return waiting


@pytest.mark.parametrize("seed", range(sized(short=3, long=40)))
def test_a_killed_recorder_has_lost_nothing_that_was_acknowledged(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    path = tmp_path / "session.kohakutr"

    for _ in range(4):
        lines = killed(path, chance)
        acknowledged = max([int(line[-1]) for line in lines if line[0] in ("event", "turn")] + [0])
        with SessionStore(path) as store:
            left = store.state.get(f"{AGENT}:open_text", "")
            before = store.max_event_id(AGENT)
            recorder = Recorder(store, AGENT)
            history = recorder.history()
            events = store.get_events(AGENT)
            with recorder.turn("go on") as turn:
                turn.text("yes")
            report = store.verify()

            assert before >= acknowledged
            assert [event["event_id"] for event in events] == list(range(1, len(events) + 1))
            assert not waiting_calls(history)
            assert recorder.history()[-1] == {"role": "assistant", "content": "yes"}
            if left:
                assert (events[-1]["content"], events[-1]["finalize"]) == (left, "recovered")
                assert events[-1]["turn_index"] == events[-2]["turn_index"]
            assert report.ok

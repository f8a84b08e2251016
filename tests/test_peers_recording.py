"""What our recorders write, read by the real peer."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from amberlog import Recorder, SessionOutput, SessionStore, lineage
from amberlog.types import NewEvent, Unit
from support.children import environment

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "recordings.py"
AGENT = "main"
Place = tuple[int, int]
Paths = dict[Place, list[Place]]


class Agent:
    """An agent as far as its recorder looks at it."""

    def __init__(self) -> None:
        self._turn_index = 0
        self._branch_id = 0
        self._parent_branch_path: list[Place] = []

    def go_to(self, place: Place, path: list[Place]) -> None:
        self._turn_index, self._branch_id = place
        self._parent_branch_path = path


def emitted(kind: str, content: str = "", **payload: object) -> SimpleNamespace:
    return SimpleNamespace(
        type=kind, content=content, payload=payload, id=None, interactive=False, surface="chat"
    )


async def answer(output: SessionOutput, place: Place) -> None:
    """Has an output told of one answer that calls a tool, and of one that does not."""
    call = f"call_{place[0]}_{place[1]}"
    calls = [{"id": call, "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
    job = {"job_id": f"bash_{place[0]}x{place[1]}", "tool_call_id": call}
    await output.on_processing_start()
    await output.emit(emitted("assistant_round_start"))
    await output.emit(emitted("text", f"look {place}"))
    output.on_activity_with_metadata("tool_start", "[bash] ", job)
    message = {"role": "assistant", "content": f"look {place}", "tool_calls": calls}
    await output.emit(emitted("assistant_message", message=message))
    output.on_activity_with_metadata("tool_done", "[bash] ", {**job, "result": "out"})
    await output.write(f"done {place}")
    await output.on_processing_end()


def recorded(path: Path, chance: random.Random, turns: int) -> Paths:
    """Records turns as a runtime does: on, again from an earlier one, or from an older branch."""
    paths: Paths = {}
    branches: dict[int, int] = {}
    trail: list[Place] = []
    agent = Agent()
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, agent)
        for _ in range(turns):
            step = chance.random()
            if step < 0.25 and trail:
                trail = trail[: max(0, len(trail) - chance.randrange(1, 4))]
            elif step < 0.4 and paths:
                last = chance.choice(sorted(paths))
                trail = [*paths[last], last]
            turn = len(trail) + 1
            branches[turn] = branches.get(turn, 0) + 1
            place = (turn, branches[turn])
            paths[place] = list(trail)
            agent.go_to(place, list(trail))
            asked = {"content": f"ask {place}"}
            pair = tuple(
                NewEvent(kind, asked, *place, tuple(trail))
                for kind in ("user_input", "user_message")
            )
            store.record(AGENT, Unit(events=pair))
            asyncio.run(answer(output, place))
            trail.append(place)
    return paths


def views(paths: Paths, chance: random.Random) -> list[list[Place]]:
    lineages = [[*path, place] for place, path in paths.items()]
    wild = [[place for place in sorted(paths) if chance.random() < 0.3] for _ in range(6)]
    return [[], *lineages[:12], *wild]


def read_by_peer(path: Path, paths: Paths, asked: list[list[Place]]) -> dict[str, list[object]]:
    question = path.with_suffix(".json")
    known = {json.dumps(place): lineage for place, lineage in paths.items()}
    question.write_text(json.dumps({"paths": known, "views": asked}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(path), AGENT, str(question)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return cast("dict[str, list[object]]", json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("seed", range(4))
def test_the_paths_that_are_left_out_change_nothing_for_the_peer(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "session.kohakutr"
    paths = recorded(path, chance, 24)
    asked = views(paths, chance)

    answer = read_by_peer(path, paths, asked)
    with SessionStore(path) as store:
        events = store.get_events(AGENT)
    ours = [
        [
            lineage.replay_conversation(events, branch_view=dict(view), include_metadata=True),
            lineage.replay_with_settled_tools(
                events, branch_view=dict(view), include_metadata=True, resumable=True
            ),
            sorted(lineage.select_live_event_ids(events, branch_view=dict(view))),
        ]
        for view in asked
    ]

    assert answer["different"] == []
    assert answer["replays"] == json.loads(json.dumps(ours))
    assert any(event.get("parent_branch_path") for event in events)


def test_the_peer_tells_the_conversation_of_a_recorder(tmp_path: Path) -> None:
    path = tmp_path / "session.kohakutr"
    with SessionStore(path) as store:
        recorder = Recorder(store, AGENT)
        for number in range(4):
            with recorder.turn(f"ask {number}") as turn:
                turn.text("I will look.")
                turn.tool_result(turn.tool_call("bash", {"n": number}), "out")
                turn.text("Done.")
        with recorder.regenerate() as turn:
            turn.text("Another.")
        recorder.compact("They asked four times.")
        with recorder.turn("and now") as turn:
            turn.text("Nothing.")
        history = recorder.history()

    paths: Paths = {(turn, 1): [(before, 1) for before in range(1, turn)] for turn in range(1, 5)}
    paths[4, 2] = paths[4, 1]
    paths[5, 1] = [*paths[4, 1], (4, 2)]
    answer = read_by_peer(path, paths, [[]])

    replay = cast("list[list[dict[str, object]]]", answer["replays"][0])[0]
    told = [{key: message[key] for key in message if key != "metadata"} for message in replay]
    assert answer["different"] == []
    assert told == history
    assert told[0]["content"] == "They asked four times."

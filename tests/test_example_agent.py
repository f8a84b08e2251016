"""The agent of the examples: it records, is killed, and goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

import agent
import amberlog
from support.agentlike import unpaired
from support.children import environment
from support.independent import rows
from torture.form import sized
from torture.rounds import Child, wait_a_moment

EXAMPLES = Path(__file__).parents[1] / "examples"
TOOLS = Path(__file__).parents[1] / "tools"
AGENT = "agent"


def run_agent(
    directory: Path, *arguments: str, given: str = "", url: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs the example in a directory, with its script for a model."""
    variables = {**environment(), "AMBERLOG_SESSION_DIR": str(directory / "sessions")}
    variables["OPENAI_BASE_URL"] = url
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "agent.py"), *arguments],
        cwd=directory,
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stored(path: Path, event_type: str) -> list[dict[str, object]]:
    """Returns the events of a type, read without the package."""
    events = [event for event in rows(path, "events").values() if isinstance(event, dict)]
    return [event for event in events if event["type"] == event_type]


def test_an_agent_records_what_was_said_and_done(tmp_path: Path) -> None:
    (tmp_path / "one.txt").touch()

    done = run_agent(tmp_path, "--session", "s.kohakutr", "What is here?", "And now?")

    path = tmp_path / "s.kohakutr"
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
    assert [event["content"] for event in stored(path, "user_message")] == [
        "What is here?",
        "And now?",
    ]
    calls, results = stored(path, "tool_call"), stored(path, "tool_result")
    assert [call["name"] for call in calls] == ["list_files", "list_files"]
    assert [result["call_id"] for result in results] == [call["call_id"] for call in calls]
    assert "one.txt" in str(results[0]["output"])


@pytest.mark.parametrize("how", [["--resume", "sessions/s.kohakutr"], ["--last"]])
def test_an_agent_goes_on_with_a_session(tmp_path: Path, how: list[str]) -> None:
    run_agent(tmp_path, "--session", "sessions/s.kohakutr", "What is here?")

    done = run_agent(tmp_path, *how, given="And now?\n\n")

    path = tmp_path / "sessions" / "s.kohakutr"
    turns = [event["turn_index"] for event in stored(path, "user_message")]
    assert (done.returncode, done.stderr, turns) == (0, "", [1, 2])
    snapshot = rows(path, "conversation")[AGENT]
    assert isinstance(snapshot, list)
    assert [message["role"] for message in snapshot] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ] * 2
    assert unpaired(snapshot) == []


class Endpoint(BaseHTTPRequestHandler):
    """Wants a file read, then says what it has been told."""

    asked: ClassVar[list[dict[str, list[dict[str, object]]]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.asked.append(json.loads(self.rfile.read(length)))
        last = self.asked[-1]["messages"][-1]
        message: dict[str, object] = {"content": f"It says: {last['content']}"}
        if last["role"] == "user":
            function = {"name": "read_file", "arguments": '{"path": "note.txt"}'}
            call = {"id": "call-1", "type": "function", "function": function}
            message = {"content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        body = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name it has above
        """Says nothing."""


def test_an_agent_talks_to_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "note.txt").write_text("forty-two")
    monkeypatch.chdir(tmp_path)
    Endpoint.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        model = agent.Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "key", "some-model")

        with amberlog.SessionStore(tmp_path / "s.kohakutr") as store:
            answers = list(agent.converse(agent.start(store, model, "s"), ["Read the note."]))

        server.shutdown()
        thread.join()
    assert answers == ["It says: forty-two"]
    assert [message["role"] for message in Endpoint.asked[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    usage = rows(tmp_path / "s.kohakutr", "state")[f"{AGENT}:token_usage"]
    assert isinstance(usage, dict)
    assert (usage["total_input_tokens"], usage["total_output_tokens"]) == (14, 6)


def test_an_endpoint_that_is_not_there_is_one_line_of_error(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        port = server.server_port

    done = run_agent(tmp_path, "--session", "s.kohakutr", "Hello?", url=f"http://127.0.0.1:{port}")

    assert done.returncode == 1
    assert done.stderr.startswith("agent: ")
    assert len(done.stderr.splitlines()) == 1
    (error,) = stored(tmp_path / "s.kohakutr", "processing_error")
    assert error["error_type"] == "ModelError"


def test_an_agent_that_is_told_to_keeps_no_session(tmp_path: Path) -> None:
    done = run_agent(tmp_path, "--no-session", "What is here?", "And now?")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_not_there_is_one_line_of_error(tmp_path: Path) -> None:
    done = run_agent(tmp_path, "--resume", "missing.kohakutr", "What is here?")

    assert done.returncode == 1
    assert done.stderr.startswith("agent: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_long_conversation_goes_on_from_its_summary(tmp_path: Path) -> None:
    requests = [f"What is here, for the {number}. time?" for number in range(20)]

    done = run_agent(tmp_path, "--session", "s.kohakutr", *requests)
    with amberlog.SessionStore.open_readonly(tmp_path / "s.kohakutr") as store:
        history = store.get_working_history(AGENT)

    assert done.returncode == 0
    assert len(stored(tmp_path / "s.kohakutr", "user_message")) == 20
    assert len(history) < 60
    assert "The user asked what is in the directory." in str(history[0]["content"])
    assert unpaired(history) == []


def is_longer(count: int, lines: list[list[object]]) -> bool:
    return len(lines) > count


def start(path: Path) -> Child:
    known = os.pathsep.join([str(EXAMPLES), str(TOOLS), environment()["PYTHONPATH"]])
    process = subprocess.Popen(
        [sys.executable, "-m", "torture.agent", str(path)],
        cwd=path.parent,
        stdout=subprocess.PIPE,
        env={**environment(), "PYTHONPATH": known},
    )
    return Child(process)


def copied(path: Path, target: Path) -> Path:
    """Copies what a kill left, so that looking at it does not mend it."""
    target.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy2(file, target)
    return target / path.name


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(sized(short=2, long=20)))
def test_an_agent_goes_on_wherever_it_was_killed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    path = tmp_path / "live" / "s.kohakutr"
    path.parent.mkdir()
    known: dict[str, object] = {}

    for kill in range(sized(short=4, long=10)):
        child = start(path)
        wanted = chance.randrange(1, 120)
        child.hear(partial(is_longer, wanted))
        wait_a_moment(chance.random() * 0.003)
        child.kill()
        known |= {str(line[1]): line[2] for line in child.acknowledged}
        events = rows(copied(path, tmp_path / str(kill)), "events")
        with amberlog.SessionStore(copied(path, tmp_path / f"{kill}-resumed")) as store:
            restored = amberlog.resume(store).agents[AGENT].conversation

        found = {key: event["event_id"] for key, event in events.items() if isinstance(event, dict)}
        assert len(child.acknowledged) > wanted // 2
        assert {key: found.get(key) for key in known} == known
        assert unpaired(restored) == []
        assert restored

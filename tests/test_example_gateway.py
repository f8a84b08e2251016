"""The gateway of the examples: it routes, remembers, compacts, is killed, and goes on."""

from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote
from uuid import uuid4

import pytest

import gateway
from agent import ModelError, Reply
from amberlog.chat import SqliteTranscriptStore
from support.children import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).parents[1] / "examples" / "gateway.py"
HOMES = ["transcript", "json"]
Document = dict[str, object]


class Client:
    """Talks to a gateway, over a connection for each request."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, body: Document | None = None) -> tuple[int, Document]:
        sent = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with closing(connection):
            connection.request(method, path, sent, self._headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def say(self, outside: str, text: str) -> str:
        status, answer = self.ask(
            "POST", f"/conversations/{quote(outside, safe='')}/messages", {"text": text}
        )
        assert status == 200, answer
        return str(answer["reply"])

    def said(self, outside: str) -> list[object]:
        status, answer = self.ask("GET", f"/conversations/{quote(outside, safe='')}")
        assert status == 200, answer
        return [one["content"] for one in cast("list[Document]", answer["messages"])]


@contextmanager
def running(
    directory: Path, home: str = "transcript", token: str = ""
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Starts the example on a free port; it is killed at the end."""
    known = {**environment(), "OPENAI_BASE_URL": "", "GATEWAY_TOKEN": token}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "--dir", str(directory), "--home", home, "--port", "0"],
        env=known,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rsplit(":", 1)[1]), process
        finally:
            process.kill()


def talk(port: int, outside: str, acknowledged: queue.SimpleQueue[tuple[str, str, str]]) -> None:
    """Talks in one conversation until nobody answers any more."""
    client = Client(port)
    for number in range(100_000):
        text = f"{outside} says {number}"
        try:
            reply = client.say(outside, text)
        except (http.client.HTTPException, OSError):
            return
        acknowledged.put((outside, text, reply))


@pytest.mark.parametrize("home", HOMES)
def test_nothing_that_was_answered_is_lost_to_a_kill(tmp_path: Path, home: str) -> None:
    acknowledged: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
    outsiders = [f"telegram:{number}" for number in range(4)]
    known: list[tuple[str, str, str]] = []

    with running(tmp_path, home) as (port, process):
        threads = [
            threading.Thread(target=talk, args=(port, outside, acknowledged))
            for outside in outsiders
        ]
        for thread in threads:
            thread.start()
        known += [acknowledged.get(timeout=60) for _ in range(40)]
        process.kill()
        for thread in threads:
            thread.join()
    while not acknowledged.empty():
        known.append(acknowledged.get())

    with running(tmp_path, home) as (port, _):
        client = Client(port)
        said = {outside: client.said(outside) for outside in {outside for outside, _, _ in known}}
        again = client.say(outsiders[0], "Are you there?")
    for outside, text, reply in known:
        at = said[outside].index(text)
        assert said[outside][at + 1] == reply
    assert again == "I have noted: Are you there?"


@pytest.mark.parametrize("home", HOMES)
def test_conversations_do_not_mix(tmp_path: Path, home: str) -> None:
    with running(tmp_path, home) as (port, _):
        client = Client(port)
        for outside in ("a/b", "a:b", "a_b", "日本"):
            client.say(outside, f"I am {outside}.")
        said = {outside: client.said(outside) for outside in ("a/b", "a:b", "a_b", "日本")}
        status, _ = client.ask("GET", "/conversations/nobody")

    assert said == {
        outside: [f"I am {outside}.", f"I have noted: I am {outside}."] for outside in said
    }
    assert status == 404


def test_a_question_about_the_past_is_answered_from_ones_own_conversation(tmp_path: Path) -> None:
    with running(tmp_path) as (port, _):
        client = Client(port)
        client.say("one", "My door code is a secret pelican.")
        client.say("two", "A pelican is a bird.")
        mine = client.say("two", "What did we say about pelican?")
        nothing = client.say("two", "what did we say about zebras")
        status, found = client.ask("GET", "/search?q=pelican")

    assert "A pelican is a bird." in mine
    assert "door code" not in mine
    assert nothing == "Nothing about zebras."
    assert (status, len(cast("list[object]", found["hits"]))) == (200, 2)


def test_a_long_conversation_goes_on_from_its_summary(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path), retention="keep_all")
    bot = gateway.Gateway(store, gateway.Script())

    answers = [bot.take("one", f"request {number}") for number in range(60)]

    history = store.get_working_history(answers[-1].session_id)
    assert len(bot.history("one")) == 120
    assert len(history) <= gateway.MOST_MESSAGES + 1
    assert str(history[0]["content"]).startswith("Earlier there were")
    assert history[-1]["content"] == "I have noted: request 59"


def test_an_outside_id_leads_to_one_session_though_many_ask_at_once(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))
    bot = gateway.Gateway(store, gateway.Script())
    threads = [
        threading.Thread(target=bot.take, args=("one", f"request {number}")) for number in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(store.list_sessions()) == 1
    assert len(bot.history("one")) == 16


class Silent:
    """A model that has no answer."""

    def reply(self, messages: object) -> Reply:
        raise ModelError(f"no answer to {messages!r}")


def test_a_message_without_an_answer_is_kept(tmp_path: Path) -> None:
    bot = gateway.Gateway(SqliteTranscriptStore(str(tmp_path)), Silent())

    with pytest.raises(ModelError):
        bot.take("one", "hello?")

    assert bot.history("one") == [{"role": "user", "content": "hello?"}]


def test_a_token_is_asked_of_everybody(tmp_path: Path) -> None:
    token = uuid4().hex

    with running(tmp_path, token=token) as (port, _):
        without, _ = Client(port).ask("GET", "/conversations")
        wrong, _ = Client(port, "other").ask("GET", "/search?q=x")
        right, _ = Client(port, token).ask("GET", "/conversations")

    assert (without, wrong, right) == (401, 401, 200)


def test_others_are_not_served_without_a_token(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--dir", str(tmp_path), "--host", "0.0.0.0"],  # noqa: S104  # what is refused
        env={**os.environ, **environment(), "GATEWAY_TOKEN": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1

"""A real agent of the peer, with a model that follows a script, on our stores."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import SessionData
from support.children import environment
from support.scripted_model import Message, ScriptedModel, scripted_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
pytest.importorskip("praisonaiagents")

INSTALLED = """
import amberlog.compat
amberlog.compat.install("praisonaiagents")
"""
INJECTED = """
import praisonaiagents.session.store as store
from amberlog.chat import {kind}
store._default_store = {kind}(sys.argv[2])
"""
TALK = """
def weather(city: str) -> str:
    "Returns the weather of a city."
    return f"sunny in {city}"

from praisonaiagents import Agent
agent = Agent(
    name="Assistant", instructions="Be short.", llm="gpt-4o-mini",
    memory={"session_id": "user-42"}, output="silent", tools=[weather],
)
print(type(agent).__name__, agent.chat(sys.argv[1], stream=False), flush=True)
"""
STORE = "print(type(agent._session_store).__module__)\n"
KILLED = "import signal; os.kill(os.getpid(), signal.SIGKILL)\n"


def talk(code: str, say: str, model: ScriptedModel, home: Path) -> subprocess.CompletedProcess[str]:
    """Lets an agent say something in a process of its own."""
    home.mkdir(exist_ok=True)
    own = {
        "HOME": str(home),
        "PRAISONAI_HOME": str(home / "praisonai"),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_BASE": model.url,
    }
    return subprocess.run(
        [sys.executable, "-c", "import os, sys\n" + code, say, str(home / "chats")],
        env={**environment(), **own},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def said(messages: list[Message]) -> list[tuple[object, object]]:
    """Returns what user and assistant said."""
    told = [(message["role"], message["content"]) for message in messages]
    return [(role, text) for role, text in told if role in {"user", "assistant"}]


def reply(text: str) -> Message:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("start", "place", "module"),
    [
        (INSTALLED, "praisonai/sessions", "amberlog.compat.praisonai._stores"),
        (INJECTED.format(kind="DefaultSessionStore"), "chats", "amberlog.chat.store"),
        (INJECTED.format(kind="SqliteSessionStore"), "chats", "amberlog.chat.indexed"),
        (INJECTED.format(kind="HierarchicalSessionStore"), "chats", "amberlog.chat.hierarchy"),
    ],
)
def test_an_agent_remembers_after_a_restart(
    start: str, place: str, module: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with scripted_model(reply("Noted."), reply("Tea.")) as model:
        first = talk(start + TALK + STORE, "Remember that I like tea.", model, home)
        second = talk(start + TALK + STORE, "What do I like?", model, home)

    assert first.stdout.splitlines() == ["Agent Noted.", module], first.stderr
    assert second.stdout.splitlines() == ["Agent Tea.", module], second.stderr
    told = [("user", "Remember that I like tea."), ("assistant", "Noted.")]
    asked = ("user", "What do I like?")
    assert said(model.asked[0]) == told[:1]
    assert said(model.asked[1]) == [*told, asked]
    stored = json.loads((home / place / "user-42.json").read_text(encoding="utf-8"))
    assert said(stored["messages"]) == [*told, asked, ("assistant", "Tea.")]
    assert stored["agent_name"] == "Assistant"
    assert stored["model"] == stored["metadata"]["model"] == "gpt-4o-mini"


def test_an_agent_that_was_killed_after_its_answer_remembers_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with scripted_model(reply("Noted."), reply("Tea.")) as model:
        killed = talk(INSTALLED + TALK + KILLED, "Remember that I like tea.", model, home)
        second = talk(INSTALLED + TALK, "What do I like?", model, home)

    assert (killed.returncode, killed.stdout) == (-9, "Agent Noted.\n"), killed.stderr
    assert second.stdout == "Agent Tea.\n", second.stderr
    assert said(model.asked[1])[:2] == [
        ("user", "Remember that I like tea."),
        ("assistant", "Noted."),
    ]


def test_an_agent_with_a_tool_leaves_what_it_leaves_in_the_peers_own_store(tmp_path: Path) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    asks: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    left: list[dict[str, object]] = []

    for name, start in (("peer", ""), ("ours", INSTALLED)):
        home = tmp_path / name
        with scripted_model(asks, reply("Sunny.")) as model:
            done = talk(start + TALK, "How is Oslo?", model, home)
        assert done.stdout == "Agent Sunny.\n", done.stderr
        assert "sunny in Oslo" in json.dumps(model.asked[1])
        file = home / "praisonai" / "sessions" / "user-42.json"
        left.append(json.loads(file.read_text(encoding="utf-8")))

    theirs, ours = (SessionData.from_dict(stored) for stored in left)
    assert list(left[0]) == list(left[1])
    assert ours.get_chat_history() == theirs.get_chat_history()

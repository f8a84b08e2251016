"""A small tool-calling agent whose session outlives the process.

    python examples/agent.py --session notes.kohakutr "List the files here" "Now count them"
    python examples/agent.py --resume notes.kohakutr "What did you find?"
    python examples/agent.py --last
    python examples/agent.py --no-session "Just this once"

Without words it asks for them, line by line. The model is any that an OpenAI-compatible endpoint
serves: `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `AGENT_MODEL` say which. Without an endpoint a
script answers, so that it can be tried offline.

Kill it whenever you like: the next start goes on with the conversation as far as it was recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import amberlog
from amberlog import config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

AGENT = "agent"
GO_ON = "Go on where you were interrupted."
SYSTEM = "You are a careful assistant in a directory of files. Use the tools, then answer in short."
MOST_MESSAGES = 60
"""A conversation longer than this is summarised."""
MOST_ROUNDS = 8
"""How often a model may call tools before it has to answer."""
MOST_CHARACTERS = 4_000
"""How much of a file a tool returns."""

Message = dict[str, object]


class ModelError(Exception):
    """The model could not be asked, or gave no answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model wants called."""

    id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered, and what that cost in tokens."""

    text: str
    calls: Sequence[Call] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Model(Protocol):
    """What answers a conversation."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the next message of the assistant."""
        ...


def list_files(path: str = ".") -> str:
    """Lists a directory."""
    return "\n".join(sorted(entry.name for entry in _inside(path).iterdir())) or "(empty)"


def read_file(path: str) -> str:
    """Returns the beginning of a text file."""
    return _inside(path).read_text(encoding="utf-8", errors="replace")[:MOST_CHARACTERS]


def _inside(path: str) -> Path:
    root = Path.cwd().resolve()
    wanted = (root / path).resolve()
    if not wanted.is_relative_to(root):
        raise ValueError(f"{path} is outside of the directory that the agent works in")
    return wanted


TOOLS = {"list_files": list_files, "read_file": read_file}
_PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
SCHEMA: list[Message] = [
    {
        "type": "function",
        "function": {"name": name, "description": tool.__doc__, "parameters": _PATH},
    }
    for name, tool in TOOLS.items()
]


def run_tool(call: Call) -> tuple[str, str | None]:
    """Returns what a tool says, and what went wrong: the model is told either."""
    tool = TOOLS.get(call.name)
    if tool is None:
        return "", f"there is no tool {call.name!r}"
    try:
        return tool(**{name: str(value) for name, value in call.arguments.items()}), None
    except (OSError, TypeError, ValueError) as error:
        return "", str(error)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible endpoint."""

    url: str
    key: str
    model: str
    timeout_s: float = 120.0

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Asks the endpoint for the next message."""
        body = {"model": self.model, "messages": list(messages), "tools": SCHEMA}
        request = urllib.request.Request(  # noqa: S310  # the user's own endpoint
            f"{self.url.rstrip('/')}/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310  # as above
                return _read_reply(json.load(answer))
        except (urllib.error.URLError, TimeoutError, ValueError, LookupError, TypeError) as error:
            raise ModelError(f"{self.url} gave no answer: {error}") from error


def _read_reply(answer: Message) -> Reply:
    message = cast("dict[str, list[dict[str, Message]]]", answer)["choices"][0]["message"]
    asked = cast("list[dict[str, object]]", message.get("tool_calls") or [])
    used = cast("dict[str, int]", answer.get("usage") or {})
    return Reply(
        str(message.get("content") or ""),
        [_read_call(call) for call in asked],
        used.get("prompt_tokens", 0),
        used.get("completion_tokens", 0),
    )


def _read_call(call: Message) -> Call:
    function = cast("dict[str, str]", call["function"])
    return Call(str(call["id"]), function["name"], json.loads(function["arguments"] or "{}"))


@dataclass(frozen=True, slots=True)
class Script:
    """Stands in for a model: looks into the directory, then says how much it has found.

    What it answers depends on the conversation alone.
    """

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the next message by the one before it."""
        last = messages[-1]
        if last["role"] == "tool":
            lines = str(last["content"]).splitlines()
            return Reply(f"I have looked: {len(lines)} lines.", (), len(messages), 5)
        if last["role"] == "system":
            return Reply("The user asked what is in the directory.", (), len(messages), 8)
        number = sum(message["role"] == "user" for message in messages)
        call = Call(f"call_{len(messages)}_{number}", "list_files", {"path": "."})
        return Reply("I will look.", (call,), len(messages), 3)


@dataclass(slots=True)
class Agent:
    """A conversation with a model, recorded as it happens."""

    model: Model
    recorder: amberlog.Recorder
    messages: list[Message] = field(default_factory=list)

    def ask(self, words: str) -> str:
        """Takes the user's words and returns the answer."""
        self.messages.append({"role": "user", "content": words})
        with self.recorder.turn(words) as turn:
            answer = self._answer(turn)
        self._compact_if_long()
        return answer

    def go_on(self) -> str | None:
        """Finishes what was interrupted; None when nothing was."""
        if not self.messages or self.messages[-1]["role"] == "assistant":
            return None
        if self.messages[-1]["role"] != "user":
            return self.ask(GO_ON)
        with self.recorder.regenerate() as turn:
            return self._answer(turn)

    def _answer(self, turn: amberlog.Turn) -> str:
        for _ in range(MOST_ROUNDS):
            reply = self.model.reply([{"role": "system", "content": SYSTEM}, *self.messages])
            turn.token_usage(reply.prompt_tokens, reply.completion_tokens)
            turn.text(reply.text)
            self.messages.append(_message_of(reply))
            if not reply.calls:
                return reply.text
            for call in reply.calls:
                turn.tool_call(call.name, call.arguments, call_id=call.id)
            for call in reply.calls:
                output, error = run_tool(call)
                turn.tool_result(call.id, output, error=error)
                content = f"error: {error}" if error else output
                self.messages.append(
                    {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
                )
        raise ModelError(f"the model called tools {MOST_ROUNDS} times and gave no answer")

    def _compact_if_long(self) -> None:
        """Lets a summary stand in for all that was said, once that is too much for a model."""
        if len(self.messages) <= MOST_MESSAGES:
            return
        wish: Message = {"role": "system", "content": "Summarise the conversation so far."}
        summary = self.model.reply([*self.messages, wish]).text
        if self.recorder.compact(summary):
            self.messages = self.recorder.history()


def _message_of(reply: Reply) -> Message:
    message: Message = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for call in reply.calls
        ]
    return message


def converse(agent: Agent, requests: Iterable[str]) -> Iterator[str]:
    """Finishes what was interrupted, then takes one request after the other."""
    unfinished = agent.go_on()
    if unfinished is not None:
        yield unfinished
    for words in requests:
        yield agent.ask(words)


def start(store: amberlog.SessionStore, model: Model, name: str) -> Agent:
    """Begins a session."""
    store.init_meta(
        session_id=name,
        config_type="agent",
        config_path=str(Path(__file__).resolve()),
        pwd=str(Path.cwd()),
        agents=[AGENT],
    )
    return Agent(model, amberlog.Recorder(store, AGENT))


def take_up(resumed: amberlog.Resumed, model: Model) -> Agent:
    """Goes on with a session, whatever interrupted it."""
    agent = Agent(model, amberlog.Recorder(resumed.store, AGENT))
    if AGENT in resumed.agents:
        agent.messages = list(resumed.agents[AGENT].conversation)
    return agent


def model_of_environment() -> Model:
    """Returns the model that the environment names, or the script."""
    url = os.environ.get("OPENAI_BASE_URL")
    if not url:
        return Script()
    key, model = os.environ.get("OPENAI_API_KEY", ""), os.environ.get("AGENT_MODEL", "gpt-4o-mini")
    return Endpoint(url, key, model)


def requests_of(words: Sequence[str]) -> Iterator[str]:
    """Yields the words of the command line, or else lines of the input until it ends."""
    if words:
        yield from words
        return
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line:
            yield line


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="A tool-calling agent with a durable session.")
    parser.add_argument("words", nargs="*", help="requests, one after the other")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", type=Path, metavar="FILE", help="begin a session in this file")
    which.add_argument("--resume", type=Path, metavar="FILE", help="go on with the session in it")
    which.add_argument("--last", action="store_true", help="go on with the newest session")
    which.add_argument("--no-session", action="store_true", help="record nothing")
    return parser.parse_args(arguments)


def opened(options: argparse.Namespace, model: Model) -> tuple[amberlog.SessionStore, Agent]:
    """Opens what the command line asks for."""
    if options.resume or options.last:
        resumed = amberlog.resume(options.resume or amberlog.last_session().path)
        for repair in resumed.repairs:
            print(f"repaired: {repair}", file=sys.stderr)
        return resumed.store, take_up(resumed, model)
    path = options.session or config.session_dir() / "agent.kohakutr"
    store = amberlog.open_session(path, enabled=not options.no_session)
    return store, start(store, model, path.stem)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the agent and returns its exit code."""
    options = parsed(arguments)
    try:
        store, agent = opened(options, model_of_environment())
        with store:
            for answer in converse(agent, requests_of(options.words)):
                print(answer)
    except (amberlog.SessionError, ModelError) as error:
        print(f"agent: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Directories of sessions that are real agent runs: customer service, with tools, of tau-bench.

A few hundred runs are recorded; each further session is a copy of one of these under another id,
so that its words are as uneven as those of real runs.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from amberlog import SessionStore
from amberlog._core import seal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHARED = Path(os.environ.get("AMBERLOG_SHARED", Path(__file__).parents[2] / "shared"))
RUNS_FILE = _SHARED / "data" / "tau-bench" / "gpt-4o-airline.jsonl"
"""The runs; they are no part of this package, and what needs them is left out without."""

_AGENT = "agent"
_BEGAN = 1_750_000_000.0


class Message(TypedDict, total=False):
    """A message of a run."""

    role: str
    content: str
    name: str
    tool_calls: list[dict[str, dict[str, str]]]


class Run(TypedDict):
    """One run: a task, tried once."""

    session_id: str
    task_id: int
    user_id: str
    instruction: str
    messages: list[Message]


def runs() -> list[Run]:
    """Returns all runs."""
    with RUNS_FILE.open() as lines:
        return [cast("Run", json.loads(line)) for line in lines]


def record(path: Path, session_id: str, together: Sequence[Run], began: float) -> None:
    """Records runs into one session."""
    with SessionStore(path) as store:
        store.init_meta(session_id, "agent", "/agents/airline", "/work", [_AGENT])
        ts = began
        for turn, kind, body in _events(together):
            ts += 2.0
            store.append_event(_AGENT, kind, {**body, "ts": ts}, turn_index=turn)


def _events(together: Sequence[Run]) -> Iterator[tuple[int, str, dict[str, object]]]:
    turn = 0
    for run in together:
        for message in run["messages"]:
            content = message.get("content") or ""
            role = message["role"]
            if role == "user":
                turn += 1
                yield turn, "user_input", {"content": content}
            elif role == "tool":
                yield turn, "tool_result", {"name": message.get("name", ""), "output": content}
            elif role == "assistant":
                if content:
                    yield turn, "text", {"content": content}
                for call in message.get("tool_calls") or ():
                    function = call["function"]
                    arguments = json.loads(function["arguments"])
                    yield turn, "tool_call", {"name": function["name"], "args": arguments}


def make(directory: Path, count: int, *, together: int = 1) -> None:
    """Makes sessions `s000000.kohakutr`, …; each holds so many runs, one after the other."""
    directory.mkdir(parents=True, exist_ok=True)
    moulds = directory / "moulds"
    moulds.mkdir()
    known = runs()
    made = []
    for number in range(min(count, len(known))):
        path = moulds / f"{number}.kohakutr"
        chosen = [known[(number + step) % len(known)] for step in range(together)]
        record(path, _id(number), chosen, _BEGAN + number * 3600)
        made.append((path.read_bytes(), _sealed(number)))
    for number in range(count):
        body, own = made[number % len(made)]
        if body.count(own) != 1:
            msg = "an id that does not lie in one place of the file"
            raise ValueError(msg)
        path = directory / f"s{number:06d}.kohakutr"
        path.write_bytes(body.replace(own, _sealed(number)))
    shutil.rmtree(moulds)


def _id(number: int) -> str:
    return f"session-{number:06d}"


def _sealed(number: int) -> bytes:
    return seal("meta", "session_id", _id(number))

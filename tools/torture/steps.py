"""The workload: what a writer does, call by call. The same seed gives the same calls."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amberlog import SessionStore

SHARED = "shared"
"""An agent that every writer appends to."""

_WORDS = (
    "cause",
    "cookie",
    "export",
    "invoice",
    "ledger",
    "login",
    "mend",
    "naïve",
    "nightly",
    "path",
    "queue",
    "retry",
    "rückwärts",
    "search",
    "session",
    "ticket",
    "token",
    "upload",
    "worker",
    "明天下午",
    "项目评审",
    "🚀",
    "--flag",
    "foo::bar",
    "don't",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One call, or two that belong together.

    Attributes:
        number: Its place in the workload of its writer.
        verb: What is done.
        agent: Whose it is; of a message, its channel.
        turn: The turn it belongs to.
        fields: What is stored.
        rows: What is stored by a call that stores several records.
    """

    number: int
    verb: str
    agent: str
    turn: int
    fields: Mapping[str, object] = field(default_factory=dict)
    rows: tuple[Mapping[str, object], ...] = ()


def token(owner: str, number: int) -> str:
    """Returns the word that only the events of one step hold."""
    return f"zq{owner}{number}"


def steps(seed: int, owner: str) -> Iterator[Step]:
    """Yields the calls of a writer without an end."""
    chance = random.Random(f"{seed} {owner}")  # a workload that can be repeated
    agents = (owner, f"{owner}:helper")
    said: dict[str, list[Mapping[str, object]]] = {agent: [] for agent in agents}
    number = 0
    turn = 0
    while True:
        turn += 1
        agent = chance.choice(agents)
        for verb in _turn(chance):
            yield _step(verb, owner, number, agent, turn, said[agent], chance)
            number += 1


def _turn(chance: random.Random) -> Iterator[str]:
    yield from ("event",) * chance.randrange(1, 6)
    for verb, share in (
        ("events", 0.4),
        ("shared", 0.5),
        ("message", 0.5),
        ("state", 0.4),
        ("run", 0.2),
        ("job", 0.3),
        ("event", 0.7),
        ("snapshot", 0.8),
        ("rollup", 0.5),
        ("conversation", 0.1),
        ("meta", 0.2),
        ("search", 0.15),
        ("flush", 0.3),
        ("checkpoint", 0.05),
    ):
        if chance.random() < share:
            yield verb


def _step(
    verb: str,
    owner: str,
    number: int,
    agent: str,
    turn: int,
    said: list[Mapping[str, object]],
    chance: random.Random,
) -> Step:
    mark: dict[str, object] = {"owner": owner, "step": number}
    word = token(owner, number)
    if verb == "events":
        rows = tuple(
            {**mark, "part": part, "content": f"{word} {_text(chance)}"}
            for part in range(chance.randrange(2, 9))
        )
        return Step(number, verb, agent, turn, rows=rows)
    if verb in ("snapshot", "conversation"):
        said.extend(
            {"role": role, "content": f"{word} {_text(chance)}", "step": number}
            for role in ("user", "assistant")[: chance.randrange(1, 3)]
        )
        return Step(number, verb, agent, turn, rows=tuple(said))
    if verb in ("event", "shared"):
        name = agent if verb == "event" else SHARED
        content = {**mark, "part": 0, "content": f"{word} {_text(chance)}", "args": _value(chance)}
        return Step(number, "event", name, turn, content)
    if verb == "message":
        return Step(number, verb, "handoff", turn, {**mark, "content": _text(chance)})
    if verb == "search":
        return Step(number, verb, agent, turn, {"query": chance.choice(_WORDS)})
    return Step(number, verb, agent, turn, {**mark, "value": _value(chance)})


def _text(chance: random.Random) -> str:
    # Mostly a sentence or a paragraph, now and then the output of a tool.
    count = chance.choice((3, 10, 10, 40, 40, 120, 120, 1_500))
    return " ".join(chance.choices(_WORDS, k=count))


def _value(chance: random.Random) -> object:
    return {
        "number": chance.choice((0, -1, 2**63 - 1, chance.random())),
        "list": [chance.randrange(100) for _ in range(chance.randrange(4))],
        "flag": chance.random() < 0.5,
        "nothing": None,
    }


def branch_of(step: Step) -> dict[str, object]:
    """Returns the branch that a snapshot is tagged with."""
    return {
        "turn_index": step.turn,
        "branch_id": 1,
        "parent_branch_path": [],
        "context_cutoff_event_id": 0,
    }


def perform(store: SessionStore, step: Step, last_id: int) -> object:
    """Makes the call and returns what it returned, as JSON can carry it."""
    return _VERBS[step.verb](store, step, last_id)


def _append(store: SessionStore, step: Step, _last_id: int) -> object:
    return [store.append_event(step.agent, "text_chunk", step.fields, turn_index=step.turn)]


def _append_many(store: SessionStore, step: Step, _last_id: int) -> object:
    rows = [("text_chunk", row) for row in step.rows]
    return store.append_events(step.agent, rows, turn_index=step.turn)


def _snapshot(store: SessionStore, step: Step, last_id: int) -> object:
    store.save_branch_snapshot(step.agent, step.rows, branch=branch_of(step), watermark=last_id)
    return None


def _conversation(store: SessionStore, step: Step, _last_id: int) -> object:
    store.save_conversation(step.agent, step.rows)
    return None


def _state(store: SessionStore, step: Step, _last_id: int) -> object:
    store.save_state(step.agent, scratchpad=step.fields, turn_count=step.turn)
    return None


def _message(store: SessionStore, step: Step, _last_id: int) -> object:
    return store.save_channel_message(step.agent, step.fields)


def _run(store: SessionStore, step: Step, _last_id: int) -> object:
    run = store.next_subagent_run(step.agent, "explorer")
    store.save_subagent(step.agent, "explorer", run, step.fields)
    return run


def _job(store: SessionStore, step: Step, _last_id: int) -> object:
    store.save_job(f"job_{step.agent}", step.fields)
    return None


def _rollup(store: SessionStore, step: Step, _last_id: int) -> object:
    store.save_turn_rollup(step.agent, step.turn, step.fields)
    return None


def _meta(store: SessionStore, step: Step, _last_id: int) -> object:
    store.meta[f"note:{step.agent}"] = dict(step.fields)
    store.touch()
    return None


def _search(store: SessionStore, step: Step, _last_id: int) -> object:
    return len(store.search(str(step.fields["query"]), 3))


def _flush(store: SessionStore, _step: Step, _last_id: int) -> object:
    store.flush()
    return None


def _checkpoint(store: SessionStore, _step: Step, _last_id: int) -> object:
    store.checkpoint()
    return None


_VERBS: dict[str, Callable[[SessionStore, Step, int], object]] = {
    "event": _append,
    "events": _append_many,
    "snapshot": _snapshot,
    "conversation": _conversation,
    "state": _state,
    "message": _message,
    "run": _run,
    "job": _job,
    "rollup": _rollup,
    "meta": _meta,
    "search": _search,
    "flush": _flush,
    "checkpoint": _checkpoint,
}

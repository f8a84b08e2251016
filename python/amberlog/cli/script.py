"""The session that the demonstration records: two agents, their channel, a sub-agent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

PLANNER, CODER, EXPLORER, CHANNEL = "planner", "coder", "explorer", "handoff"

_GOALS = (
    "the login page forgets the session token after a refresh",
    "the invoice export drops the last row when the list is long",
    "the nightly job retries for ever when the mail server is down",
    "the search box treats a quoted phrase as three separate words",
    "the upload of a photo with an umlaut in its name fails",
)
_CAUSES = (
    "the cookie is set without a path, so the browser keeps it for /login only",
    "the loop stops at the page size instead of at the end of the list",
    "the back-off is computed from the first attempt and never grows",
    "the quotes are stripped before the words are split",
    "the file name is encoded twice on its way to the object store",
)
_FILES = ("auth/cookies.py", "billing/export.py", "jobs/mail.py", "web/search.py", "files/names.py")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to be recorded.

    Attributes:
        kind: What it is: an event, a channel message, a sub-agent run, a snapshot.
        agent: Whose it is; of a message, its channel.
        name: The type of an event.
        turn: The turn it belongs to.
        fields: Its content.
    """

    kind: Literal["event", "message", "run", "snapshot"]
    agent: str
    turn: int
    name: str = ""
    fields: dict[str, object] = field(default_factory=dict)


def steps(seed: int) -> Iterator[Step]:
    """Yields the session step by step, turn after turn, without an end."""
    chance = random.Random(seed)  # noqa: S311  # a script that can be repeated, not a secret
    turn = 0
    while True:
        turn += 1
        case = chance.randrange(len(_GOALS))
        yield from _planner_turn(turn, case, chance)
        yield from _coder_turn(turn, case, chance)


def _planner_turn(turn: int, case: int, chance: random.Random) -> Iterator[Step]:
    request = f"Ticket {turn}: {_GOALS[case]}. Find the cause and mend it."
    call = f"call_{turn}_search"
    found = "\n".join(
        f"{_FILES[case]}:{chance.randrange(900)}: {_GOALS[case]}"
        for _ in range(chance.randrange(1, 12))
    )
    plan = f"The cause of ticket {turn} is probably that {_CAUSES[case]}. Handing it to {CODER}."
    for name, fields in (
        ("user_input", {"content": request}),
        ("user_message", {"content": request}),
        ("processing_start", {}),
        ("assistant_round_start", {}),
        ("text_chunk", {"content": f"Looking for where {_GOALS[case]}.", "chunk_seq": 0}),
        (
            "tool_call",
            {"name": "grep", "call_id": call, "args": {"pattern": _FILES[case], "max": 50}},
        ),
        ("tool_result", {"name": "grep", "call_id": call, "output": found, "exit_code": 0}),
        ("text_chunk", {"content": plan, "chunk_seq": 1}),
    ):
        yield Step("event", PLANNER, turn, name, {**fields})
    yield Step("message", CHANNEL, turn, "", {"sender": PLANNER, "content": plan})
    yield from _turn_end(PLANNER, turn, request, plan, chance)


def _coder_turn(turn: int, case: int, chance: random.Random) -> Iterator[Step]:
    task = f"Ticket {turn}: mend {_FILES[case]}."
    call = f"call_{turn}_edit"
    answer = f"Mended {_FILES[case]}: {_CAUSES[case]}. A test for ticket {turn} is in place."
    yield Step("event", CODER, turn, "trigger_fired", {"channel": CHANNEL, "content": task})
    yield Step("event", CODER, turn, "processing_start")
    if turn % 3 == 0:
        yield from _explorer_run(turn, case, chance)
    for name, fields in (
        ("assistant_round_start", {}),
        ("tool_call", {"name": "edit", "call_id": call, "args": {"path": _FILES[case]}}),
        (
            "tool_result",
            {"name": "edit", "call_id": call, "output": "1 hunk applied", "exit_code": 0},
        ),
        ("text_chunk", {"content": answer, "chunk_seq": 0}),
    ):
        yield Step("event", CODER, turn, name, {**fields})
    yield from _turn_end(CODER, turn, task, answer, chance)


def _explorer_run(turn: int, case: int, chance: random.Random) -> Iterator[Step]:
    job = f"agent_{EXPLORER}_{turn}"
    report = f"{_FILES[case]} is called from {chance.randrange(2, 40)} places."
    call: dict[str, object] = {
        "name": EXPLORER,
        "job_id": job,
        "task": f"Who calls {_FILES[case]}?",
    }
    yield Step("event", CODER, turn, "subagent_call", call)
    yield Step("run", CODER, turn, EXPLORER, {"job_id": job, "task": call["task"], "success": True})
    yield Step(
        "event",
        CODER,
        turn,
        "subagent_result",
        {"name": EXPLORER, "job_id": job, "output": report, "total_tokens": 900},
    )


def _turn_end(
    agent: str, turn: int, request: str, answer: str, chance: random.Random
) -> Iterator[Step]:
    tokens = chance.randrange(500, 4_000)
    yield Step(
        "event",
        agent,
        turn,
        "turn_token_usage",
        {"prompt_tokens": tokens, "completion_tokens": 120, "total_tokens": tokens + 120},
    )
    yield Step("event", agent, turn, "processing_end")
    messages = [
        {"role": "user", "content": request},
        {"role": "assistant", "content": answer},
    ]
    yield Step("snapshot", agent, turn, "", {"messages": messages})

"""The seeded work that every contestant is given."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TypeAlias

Event: TypeAlias = tuple[str, dict[str, object], int]
Message: TypeAlias = dict[str, object]

SEED = 20_26
EVENTS_A_TURN = 18
AGENT = "main"

_KINDS = {
    "text_chunk": 33,
    "tool_call": 17,
    "tool_result": 17,
    "token_usage": 17,
    "user_message": 5,
    "processing_end": 6,
    "trigger_fired": 5,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work a run does.

    Attributes:
        events: Events of a session that is appended to one by one.
        grown: Events that a grown session holds before it is measured.
        more: Events that a grown session then gets.
        stores: Stores that are open at once.
        shared: Events that they get in turn.
        turns: The turns of a conversation that is saved after each, few and many.
        resumed: Events of the sessions that are opened again, few and many.
        rounds: How often each measurement is repeated.
    """

    events: int
    grown: int
    more: int
    stores: int
    shared: int
    turns: tuple[int, int]
    resumed: tuple[int, int]
    rounds: int


SIZES = {
    "full": Sizes(20_000, 100_000, 5_000, 100, 5_000, (200, 1_000), (100, 100_000), 3),
    "quick": Sizes(5_000, 20_000, 2_000, 100, 2_000, (100, 300), (100, 20_000), 2),
    "smoke": Sizes(60, 120, 40, 4, 40, (6, 12), (20, 80), 1),
}


def sizes() -> Sizes:
    """Returns the sizes that `AMBERLOG_BENCH` asks for: full, quick or smoke."""
    return SIZES[os.environ.get("AMBERLOG_BENCH", "full")]


class _Texts:
    """Cuts texts out of a long one whose words are as unevenly common as those of a language."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        letters = "etaoinshrdlucmfwypvbgk"
        words = ["".join(rng.choices(letters, k=rng.randint(2, 10))) for _ in range(6_000)]
        weights = [1 / (rank + 3) for rank in range(len(words))]
        self.long = " ".join(rng.choices(words, weights, k=120_000))

    def cut(self, length: int) -> str:
        start = self.rng.randrange(len(self.long) - length)
        return self.long[start : start + length]

    def tool_output(self) -> str:
        length = int(self.rng.lognormvariate(7.0, 0.9))
        return self.cut(min(20_000, max(200, length)))


def events(count: int, seed: int = SEED) -> list[Event]:
    """Returns events as agents record them, of about 490 bytes of JSON: type, fields and turn."""
    rng = random.Random(seed)
    texts = _Texts(rng)
    kinds = rng.choices(list(_KINDS), list(_KINDS.values()), k=count)
    return [
        (kind, _fields(kind, number, texts), 1 + number // EVENTS_A_TURN)
        for number, kind in enumerate(kinds)
    ]


def _fields(kind: str, number: int, texts: _Texts) -> dict[str, object]:
    rng = texts.rng
    call = f"call_{number:08x}"
    if kind == "text_chunk":
        return {"content": texts.cut(rng.randint(30, 500)), "chunk_seq": number}
    if kind == "tool_call":
        arguments = {"path": f"src/{texts.cut(12)}.py", "limit": rng.randint(1, 400)}
        return {"name": rng.choice(["read", "bash", "edit"]), "call_id": call, "args": arguments}
    if kind == "tool_result":
        return {"name": "bash", "call_id": call, "output": texts.tool_output(), "exit_code": 0}
    if kind == "token_usage":
        used = rng.randint(500, 90_000)
        return {"prompt_tokens": used, "completion_tokens": used // 9, "cached_tokens": used // 2}
    if kind == "user_message":
        return {"content": texts.cut(rng.randint(40, 400))}
    return {"reason": texts.cut(12), "source": "controller"}


def conversation(turns: int, seed: int = SEED) -> list[list[Message]]:
    """Returns the messages that each turn adds: about nine, and nine kilobytes."""
    rng = random.Random(seed)
    texts = _Texts(rng)
    return [_turn(number, texts) for number in range(turns)]


def _turn(number: int, texts: _Texts) -> list[Message]:
    rng = texts.rng
    messages: list[Message] = [{"role": "user", "content": texts.cut(rng.randint(60, 400))}]
    for step in range(rng.choice([3, 3, 4])):
        call = f"call_{number:06x}_{step}"
        function = {"name": "bash", "arguments": f'{{"command": "{texts.cut(80)}"}}'}
        messages.append(
            {
                "role": "assistant",
                "content": texts.cut(rng.randint(100, 500)),
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": call, "content": texts.tool_output()})
    messages.append({"role": "assistant", "content": texts.cut(rng.randint(300, 1_500))})
    return messages

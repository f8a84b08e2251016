"""A plain model of how events are cut into blocks: one agent's log, read as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

Event = Mapping[str, object]

SHORT = 300
CALL = 1000
RESULT = 50_000
SAYS_NOTHING = 20


class Cut(NamedTuple):
    """A block that is live and told."""

    ordinal: int
    part: int
    kind: str
    round: int
    block: int
    text: str


def cut(events: Sequence[Event], live_ids: Collection[object]) -> list[Cut]:
    """Returns the live blocks of a log, in its order."""
    found: list[Cut] = []
    round_number, block, in_round = 0, 0, False
    previous: object = None
    for ordinal, event in enumerate(events):
        said = {key: value for key, value in event.items() if key not in ("event_id", "ts")}
        if said == previous or event["event_id"] not in live_ids:
            previous = said
            continue
        previous = said
        kind = event["type"]
        if kind in ("user_input", "trigger_fired"):
            round_number, block, in_round = round_number + 1, 0, True
        elif kind == "processing_end":
            in_round = False
        for part, (form, text) in enumerate(texts(event)):
            counted = form != "summary"
            if counted and not in_round:
                continue
            found.append(Cut(ordinal, part, form, round_number, block, text))
            block += counted
    return found


def texts(event: Event) -> list[tuple[str, str]]:
    """Returns kind and text of what an event says."""
    match event["type"]:
        case "user_input":
            told = [("user", str(event["content"]))]
        case "trigger_fired":
            told = [("trigger", f"[trigger:{event['channel']}] {event['content']}")]
        case "text" | "text_chunk":
            text = str(event["content"])
            parts = text.split("\n\n") if len(text) > SHORT else [text]
            told = [("text", part.strip()) for part in parts if part.strip()]
        case "tool_call":
            args = event["args"]
            assert isinstance(args, Mapping)
            words = " ".join(f"{name}={value}" for name, value in args.items())
            told = [("tool", f"[tool:{event['name']}] {words}"[:CALL])]
        case "tool_result":
            text = f"[result:{event['name']}] {event['output']}"
            told = [("tool", text[:RESULT])] if len(text) > SAYS_NOTHING else []
        case "compact_complete":
            told = [("summary", str(event["summary"]))]
        case _:
            told = []
    return [(kind, text) for kind, text in told if text.strip()]

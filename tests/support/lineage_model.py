"""What a log tells, by definition: slow, and written to be read rather than run.

It knows the events that `support.branching` writes, and nothing of our code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from support.branching import Event, Pair

View = dict[int, int]
Messages = list[dict[str, object]]

TOLD = {
    "user_message",
    "text_chunk",
    "assistant_message",
    "assistant_tool_calls",
    "tool_call",
    "tool_result",
}
SILENT = {"compact_complete", "token_usage"}
BOUNDARIES = {"processing_start", "assistant_round_start"}


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, with how good it is under a view: the better one has an event that both reach."""

    first: int
    last: int
    path: frozenset[Pair] | None
    text: str
    worth: tuple[int, int, int]

    def covers(self, event: Event) -> bool:
        """Whether it stands for an event."""
        in_range = self.first <= id_of(event) <= self.last
        return in_range and (self.path is None or place(event) in self.path)


def id_of(event: Event) -> int:
    """Returns an event's id."""
    return cast("int", event["event_id"])


def place(event: Event) -> Pair:
    """Returns an event's turn and branch."""
    return cast("Pair", (event["turn_index"], event["branch_id"]))


def parents(events: list[Event], at: int) -> set[Pair]:
    """Returns the path that an event states, or the highest branch of each earlier turn so far."""
    stated = cast("list[list[int]]", events[at].get("parent_branch_path") or [])
    if stated:
        return {(turn, branch) for turn, branch in stated}
    highest: View = {}
    for event in events[:at]:
        turn, branch = place(event)
        if turn < place(events[at])[0]:
            highest[turn] = max(branch, highest.get(turn, 0))
    return set(highest.items())


def agree(path: set[Pair], chosen: View) -> bool:
    """Whether a path contradicts none of the branches that are chosen."""
    return all(chosen.get(turn, branch) == branch for turn, branch in path)


def selected(events: list[Event], view: View) -> View:
    """Returns, turn by turn, the branch asked for or else the last, of those that fit so far."""
    first = {place(event): at for at, event in reversed(list(enumerate(events)))}
    chosen: View = {}
    for turn in sorted({turn for turn, _ in first}):
        fits = [
            b for (t, b), at in first.items() if t == turn and agree(parents(events, at), chosen)
        ]
        if fits:
            chosen[turn] = view[turn] if view.get(turn) in fits else max(fits)
    return chosen


def live_ids(events: list[Event], view: View) -> set[int]:
    """Returns the ids of the events on the chosen branches whose paths agree with the choice."""
    chosen = selected(events, view)
    live = set()
    for at, event in enumerate(events):
        turn, branch = place(event)
        earlier = {known: its for known, its in chosen.items() if known < turn}
        if chosen.get(turn) == branch and agree(parents(events, at), earlier):
            live.add(id_of(event))
    return live


def summaries(events: list[Event], view: View) -> list[Summary]:
    """Returns the summaries that a view can use: all of their path is shown, or they state none."""
    chosen = set(selected(events, view).items())
    usable = []
    for event in (event for event in events if event["type"] == "compact_complete"):
        stated = cast("list[list[int]] | None", event.get("compact_path"))
        path = None if stated is None else frozenset((turn, branch) for turn, branch in stated)
        worth = (1, 0, id_of(event)) if path is None else (2, len(path), id_of(event))
        head = "[Previous context summary (compact round 1)]\n\n" if "round" in event else ""
        first, last = event["replaced_from_event_id"], event["replaced_to_event_id"]
        text = f"{head}{event['summary']}"
        if path is None or path <= chosen:
            usable.append(Summary(cast("int", first), cast("int", last), path, text, worth))
    return usable


def best(usable: list[Summary], event: Event) -> Summary | None:
    """Returns the best summary that stands for an event."""
    return max((s for s in usable if s.covers(event)), key=lambda s: s.worth, default=None)


def standing(events: list[Event], view: View) -> list[Summary]:
    """Returns the summaries that have part of the conversation that is shown for themselves."""
    usable, live = summaries(events, view), live_ids(events, view)
    told = [event for event in events if id_of(event) in live and event["type"] in TOLD]
    owners = [best(usable, event) for event in told]
    return [summary for summary in usable if summary in owners]


def without_doubles(events: list[Event]) -> list[Event]:
    """Returns the events that say more than the one before."""

    def facts(event: Event) -> Event:
        return {name: value for name, value in event.items() if name not in ("event_id", "ts")}

    return [
        event for at, event in enumerate(events) if at == 0 or facts(event) != facts(events[at - 1])
    ]


def replay(events: list[Event], view: View) -> Messages:
    """Returns the conversation that a view shows."""
    live, stand = live_ids(events, view), standing(events, view)
    shown = [event for event in without_doubles(events) if id_of(event) in live]
    open_events = [event for event in shown if best(stand, event) is None]
    ends = {e["round_start_event_id"]: e for e in open_events if e["type"] == "assistant_message"}
    messages: Messages = []
    told: list[Summary] = []
    text = ""
    whole = False
    for event in shown:
        kind, summary = event["type"], best(stand, event)
        is_silent = kind in SILENT or kind == "text_chunk" or (summary and summary in told)
        if text and not is_silent:
            messages.append({"role": "assistant", "content": text})
            text = ""
        if summary:
            if summary not in told:
                told.append(summary)
                messages.append({"role": "assistant", "content": summary.text})
        elif kind == "assistant_round_start":
            whole = True
            messages.append(dict(cast("Event", ends[event["event_id"]]["message"])))
        elif kind == "assistant_message":
            whole = False
        elif kind == "text_chunk":
            text += "" if whole else cast("str", event["content"])
        else:
            _tell(event, messages)
    return [*messages, {"role": "assistant", "content": text}] if text else messages


def _tell(event: Event, messages: Messages) -> None:
    kind = event["type"]
    if kind == "user_message":
        messages.append({"role": "user", "content": event["content"]})
    elif kind == "system_prompt_set":
        messages.append({"role": "system", "content": event["content"]})
    elif kind == "tool_result":
        fields = {"content": event["output"], "tool_call_id": event["call_id"]}
        messages.append({"role": "tool", **fields, "name": event["name"]})
    elif kind == "assistant_tool_calls":
        last = messages[-1] if messages else {}
        if last.get("role") != "assistant" or last.get("tool_calls"):
            last = {"role": "assistant", "content": event["content"]}
            messages.append(last)
        last["tool_calls"] = event["tool_calls"]

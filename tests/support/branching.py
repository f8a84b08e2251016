"""Random logs as an agent writes them: reruns, edits, late results, compactions, clears."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

Event = dict[str, object]
Pair = tuple[int, int]

WORDS = ("Why?", "Why not?", "When?")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happens in a turn.

    Attributes:
        kind: What.
        delay: In how many turns from then the result of a call comes; None when it never does.
        mark: Whether it happens in its other form: a round with a call, a row written twice, a
            summary without a path.
    """

    kind: Literal["say", "call", "round", "compact", "clear", "noise", "system"]
    delay: int | None = 0
    mark: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, which goes on from the last one or begins an earlier one anew."""

    again: int | None
    words: str
    acts: tuple[Act, ...]


def turns(*, compactions: bool = True) -> st.SearchStrategy[list[Turn]]:
    """Returns a strategy for the turns of a session.

    Args:
        compactions: Whether any number of summaries may be among the acts; else there is none.
    """
    kinds = ["say", "say", "call", "call", "round", "clear", "noise", "system"]
    if compactions:
        kinds.append("compact")
    delays = st.sampled_from([0, 0, 1, 2, None])
    acts = st.builds(Act, st.sampled_from(kinds), delays, st.booleans())
    again = st.none() | st.integers(1, 5)
    turn = st.builds(Turn, again, st.sampled_from(WORDS), st.lists(acts, max_size=5).map(tuple))
    return st.lists(turn, min_size=1, max_size=8)


def views() -> st.SearchStrategy[dict[int, int]]:
    """Returns a strategy for views, most of which a log cannot give in full."""
    return st.dictionaries(st.integers(1, 5), st.integers(1, 3), max_size=3)


@dataclass
class Log:
    """A log that is being written, one event after the other."""

    stated: bool
    events: list[Event] = field(default_factory=list)
    path: list[Pair] = field(default_factory=list)
    due: list[tuple[int, str]] = field(default_factory=list)
    branches: dict[int, int] = field(default_factory=dict)

    def add(self, kind: str, **fields: object) -> int:
        """Appends an event of the current turn and returns its id."""
        turn, branch = self.path[-1]
        event_id = len(self.events) + 1
        event: Event = {"type": kind, "event_id": event_id, "ts": float(event_id), **fields}
        event |= {"turn_index": turn, "branch_id": branch}
        if self.stated:
            event["parent_branch_path"] = [list(pair) for pair in self.path[:-1]]
        self.events.append(event)
        return event_id

    def take(self, turn: Turn) -> None:
        """Writes one turn."""
        following = len(self.path) + 1
        number = min(turn.again or following, following)
        self.path = self.path[: number - 1]
        self.branches[number] = self.branches.get(number, 0) + 1
        self.path.append((number, self.branches[number]))
        self.add("user_input", content=turn.words)
        self.add("user_message", content=turn.words)
        self.add("processing_start")
        for act in turn.acts:
            getattr(self, f"_{act.kind}")(act)
        self.add("processing_end")
        self.due = [(left - 1, job) for left, job in self.due]
        for _, job in [row for row in self.due if row[0] <= 0]:
            self._result(job)
        self.due = [row for row in self.due if row[0] > 0]

    def _say(self, act: Act) -> None:
        self.add("text_chunk", content=f"said {len(self.events)}. ")
        if act.mark:
            self.add("text_chunk", content=self.events[-1]["content"])

    def _call(self, act: Act) -> None:
        job = f"bash_{len(self.events):04d}"
        if act.mark:
            call = {"id": job, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            self.add("assistant_tool_calls", tool_calls=[call], content="")
        self.add("tool_call", name="bash", call_id=job, args={})
        if act.delay == 0:
            self._result(job)
        elif act.delay is not None:
            self.due.append((act.delay, job))

    def _round(self, act: Act) -> None:
        start = self.add("assistant_round_start")
        self.add("text_chunk", content="piece ")
        message: Event = {"role": "assistant", "content": f"whole {start}"}
        job = f"read_{start:04d}"
        if act.mark:
            call = {"id": job, "type": "function", "function": {"name": "read", "arguments": "{}"}}
            message["tool_calls"] = [call]
            self.add("tool_call", name="read", call_id=job, args={})
        self.add("assistant_message", message=message, round_start_event_id=start)
        if act.mark:
            self._result(job)

    def _result(self, job: str) -> None:
        self.add("tool_result", name=job.partition("_")[0], call_id=job, output=f"result of {job}")

    def _compact(self, act: Act) -> None:
        before = self.path[:-1]
        told = [event for event in self.events if _place(event) in before]
        if not told:
            return
        bounds = {
            "replaced_from_event_id": told[0]["event_id"],
            "replaced_to_event_id": told[-1]["event_id"],
            "summary": f"summary {len(self.events)}",
        }
        path = [list(pair) for pair in before]
        # Older sessions state no path, and then the summary is made of all that came before.
        paths = {} if act.mark else {"compact_path": path, "compact_source_path": path, "round": 1}
        self.add("compact_complete", **bounds, **paths)

    def _clear(self, act: Act) -> None:
        self.add("context_cleared", messages_cleared=int(act.mark))

    def _noise(self, act: Act) -> None:
        self.add("token_usage" if act.mark else "tool_wait", total_tokens=len(self.events))

    def _system(self, act: Act) -> None:
        self.add("system_prompt_set", content=f"be {'brief' if act.mark else 'kind'}")


def written(session: list[Turn], *, stated: bool, compact_in: int | None = None) -> list[Event]:
    """Returns the log of a session.

    Args:
        session: Its turns.
        stated: Whether events state their parent paths, or leave them to their place in the log.
        compact_in: The turn, by its place in the session, that ends with one summary.
    """
    log = Log(stated)
    for number, turn in enumerate(session):
        summary = (Act("compact"),) if number == compact_in else ()
        log.take(Turn(turn.again, turn.words, turn.acts + summary))
    return log.events


def _place(event: Event) -> Pair:
    turn, branch = event["turn_index"], event["branch_id"]
    assert isinstance(turn, int)
    assert isinstance(branch, int)
    return turn, branch

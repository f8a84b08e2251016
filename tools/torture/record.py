"""What one writer was acknowledged, and what of it a session lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torture.steps import branch_of, token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amberlog import SessionStore
    from torture.steps import Step

Row = dict[str, object]
APPENDS = ("event", "events")
WRITES_NOTHING = ("search", "flush", "checkpoint")
DURABLE = ("snapshot", "conversation", "state", "run", "job", "rollup", "meta", "message", "flush")
"""The steps that also commit what `batch` holds back."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A snapshot as the peer's tables show it."""

    messages: list[object]
    watermark: object
    branch: object
    turn: int


class Record:
    """The acknowledged steps of one writer, in order."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.events: list[tuple[str, str, int, int, Row]] = []
        self.messages: list[tuple[str, str, Row]] = []
        self.values: dict[tuple[str, str], Row] = {}
        self.shots: dict[str, list[Shot]] = {}
        self.last_id = 0

    def fold(self, step: Step, returned: object) -> None:
        """Adds an acknowledged step and what its call returned."""
        if step.verb in APPENDS:
            rows = step.rows or (step.fields,)
            for row, (key, event_id) in zip(
                rows, cast("list[list[object]]", returned), strict=True
            ):
                stamps = {"type": "text_chunk", "event_id": event_id, "turn_index": step.turn}
                stored = {**row, **stamps, "spawned_in_turn": step.turn}
                self.last_id = int(cast("int", event_id))
                self.events.append((step.agent, str(key), self.last_id, step.number, stored))
        elif step.verb == "message":
            self.messages.append((step.agent, str(returned), dict(step.fields)))
        elif step.verb in ("snapshot", "conversation"):
            self._fold_shot(step)
        elif step.verb == "run":
            self.values[("subagents", f"{step.agent}:explorer:{returned}:meta")] = dict(step.fields)
        elif step.verb == "state":
            self.values[("state", f"{step.agent}:scratchpad")] = dict(step.fields)
            self.values[("turn_count", step.agent)] = {"turn": step.turn}
        elif step.verb not in WRITES_NOTHING:
            self.values[_place(step)] = dict(step.fields)

    def _fold_shot(self, step: Step) -> None:
        known = self.shots.setdefault(step.agent, [])
        before = known[-1] if known else Shot([], None, None, 0)
        messages: list[object] = [dict(row) for row in step.rows]
        if step.verb == "snapshot":
            known.append(Shot(messages, self.last_id, branch_of(step), step.turn))
        else:
            known.append(Shot(messages, before.watermark, before.branch, -1))

    def settle(self, store: SessionStore, step: Step) -> bool:
        """Adds the step that was under way if all of it is there; returns whether it is.

        What was not acknowledged may be there or not; half of it is found by `faults`.
        """
        if step.verb in WRITES_NOTHING:
            return True
        traces = self._traces(store, step)
        if len(traces) < len(step.rows or (step.fields,)) and step.verb in APPENDS:
            return False
        if not traces:
            return False
        self.fold(step, traces if step.verb in APPENDS else traces[0])
        return True

    def _traces(self, store: SessionStore, step: Step) -> list[object]:
        """Returns what each record of a step that is in the session would have been called."""
        mark = (self.owner, step.number)
        if step.verb in APPENDS:
            return [
                [key, event["event_id"]]
                for key, event in store.get_all_events()
                if _mark(event) == mark
            ]
        if step.verb == "message":
            return [key.decode() for key, row in store.channels.records() if _mark(row) == mark]
        if step.verb == "run":
            runs = store.list_subagent_runs(parent=step.agent)
            return [run["run"] for run in runs if _mark(run["meta"]) == mark]
        if step.verb in ("snapshot", "conversation"):
            return [None] * (store.load_conversation(step.agent) == [dict(m) for m in step.rows])
        table, key = _place(step)
        return [None] * (_mark(_table(store, table).get(key)) == mark)

    def faults(self, store: SessionStore) -> list[str]:
        """Returns everything in which the session differs from the record."""
        return [
            *self._event_faults(store),
            *self._message_faults(store),
            *self._value_faults(store),
            *self._shot_faults(store),
        ]

    def _event_faults(self, store: SessionStore) -> Iterator[str]:
        for agent in sorted({agent for agent, *_ in self.events}):
            expected = [event for name, _, _, _, event in self.events if name == agent]
            log = store.get_events(agent)
            found = [_without_ts(event) for event in log if event.get("owner") == self.owner]
            if found != expected:
                yield f"{agent}: {_difference(expected, found)}"
            ids = [cast("int", event["event_id"]) for event in log]
            if ids != sorted(set(ids)):
                yield f"{agent}: the ids do not grow: {ids}"
        for _, key, event_id, _, _ in self.events:
            stored = store.events.get(key)
            if not isinstance(stored, dict) or stored.get("event_id") != event_id:
                yield f"{key}: not event {event_id} but {stored}"
        ids = [event_id for _, _, event_id, _, _ in self.events]
        if ids != sorted(set(ids)):
            yield f"{self.owner}: the acknowledged ids do not grow"
        if self.events and store.max_event_id() < self.events[-1][2]:
            yield f"the highest id {store.max_event_id()} is below {self.events[-1][2]}"

    def _message_faults(self, store: SessionStore) -> Iterator[str]:
        for channel in sorted({channel for channel, _, _ in self.messages}):
            expected = [message for name, _, message in self.messages if name == channel]
            found = [
                _without_ts(message)
                for message in store.get_channel_messages(channel)
                if message.get("owner") == self.owner
            ]
            if found != expected:
                yield f"channel {channel}: {_difference(expected, found)}"
        for _, key, message in self.messages:
            stored = store.channels.get(key)
            if not isinstance(stored, dict) or stored.get("step") != message["step"]:
                yield f"{key}: {stored}"

    def _value_faults(self, store: SessionStore) -> Iterator[str]:
        for (table, key), expected in self.values.items():
            if table == "turn_count":
                found: object = {"turn": store.load_turn_count(key)}
            else:
                found = _table(store, table).get(key)
            added = {"agent", "turn_index", "cost_usd"} if table == "turn_rollup" else set()
            if isinstance(found, dict):
                found = {k: v for k, v in _without_ts(found).items() if k not in added}
            if found != expected:
                yield f"{table}[{key}]: {found} is not {expected}"

    def _shot_faults(self, store: SessionStore) -> Iterator[str]:
        for agent, shots in self.shots.items():
            if store.load_conversation(agent) != shots[-1].messages:
                yield f"{agent}: the newest conversation is not the last one saved"
            if store.state.get(f"{agent}:snapshot_event_id") != shots[-1].watermark:
                found = store.state.get(f"{agent}:snapshot_event_id")
                yield f"{agent}: watermark {found}, not {shots[-1].watermark}"
            if store.state.get(f"{agent}:snapshot_branch") != shots[-1].branch:
                yield f"{agent}: branch {store.state.get(f'{agent}:snapshot_branch')}"
            for shot in shots:
                # A plain save belongs to the turn of the newest event, whose own snapshot it may
                # take the place of.
                if shot.turn < 0 or any(later.turn < 0 for later in shots):
                    continue
                if store.load_conversation(agent, turn=shot.turn) != shot.messages:
                    yield f"{agent}: the snapshot of turn {shot.turn} is another"

    def searched(self, store: SessionStore) -> list[str]:
        """Returns the faults of a search for the newest events."""
        faults = []
        for _, key, _, number, _ in self.events[-3:]:
            hits = store.search(token(self.owner, number), 20)
            if key not in [hit["meta"].get("event_key") for hit in hits]:
                faults.append(f"search: {key} is not among {hits}")
        return faults


def _place(step: Step) -> tuple[str, str]:
    return {
        "state": ("state", f"{step.agent}:scratchpad"),
        "job": ("jobs", f"job_{step.agent}"),
        "rollup": ("turn_rollup", f"{step.agent}:turn:{step.turn:06d}"),
        "meta": ("meta", f"note:{step.agent}"),
    }[step.verb]


def _table(store: SessionStore, name: str) -> Mapping[str | bytes, object]:
    return cast("Mapping[str | bytes, object]", getattr(store, name))


def _mark(value: object) -> tuple[object, object]:
    return (value.get("owner"), value.get("step")) if isinstance(value, dict) else (None, None)


def _without_ts(row: Mapping[str, object]) -> Row:
    return {name: value for name, value in row.items() if name != "ts"}


def _difference(expected: Sequence[Row], found: Sequence[Row]) -> str:
    wanted = [(row["step"], row.get("part")) for row in expected]
    got = [(row["step"], row.get("part")) for row in found]
    if wanted == got:
        return next(f"{a} is not {b}" for a, b in zip(expected, found, strict=True) if a != b)
    lost = [place for place in wanted if place not in got]
    strange = [place for place in got if place not in wanted]
    return f"lost {lost}, not acknowledged {strange}, {len(wanted)} wanted, {len(got)} found"

"""Recording: a turn of a long session, and what parent paths cost in one with branches."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import msgpack

from amberlog import Recorder, SessionStore
from amberlog.types import NewEvent, Unit
from benches.contestants import OURS, open_store
from benches.workload import AGENT, SEED, events

if TYPE_CHECKING:
    from pathlib import Path

EVENTS_A_TURN = 12
AGAIN = 0.1
"""The share of turns that are edited or regenerated."""
Place = tuple[int, int]


class _PathStore(Protocol):
    def append_event(
        self,
        agent: str,
        event_type: str,
        data: dict[str, object],
        *,
        turn_index: int,
        branch_id: int,
        parent_branch_path: list[Place],
    ) -> object: ...

    def get_events(self, agent: str) -> list[dict[str, object]]: ...

    def close(self) -> None: ...


class RecordedTurns:
    """A session that holds turns, to which one more is recorded a round."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._store: SessionStore | None = None
        self._recorder: Recorder | None = None

    def begin(self, directory: Path) -> None:
        """Makes the session of the next rounds."""
        self.close()
        self._store = SessionStore(directory / "s.kohakutr")
        self._recorder = Recorder(self._store, AGENT)
        for _ in range(self._turns):
            self.record()

    def record(self) -> None:
        """Records a turn of 14 events, end and sync included."""
        if self._recorder is None:
            return
        with self._recorder.turn("list the files and say what you think of them") as turn:
            turn.text("I will look at the files first.")
            call = turn.tool_call("bash", {"command": "ls -la"})
            turn.tool_result(call, "README.md\n" * 40)
            turn.text("There are forty files that are all called the same.")
            turn.token_usage(1_000, 50, 900)

    def close(self) -> None:
        """Closes the session."""
        if self._store is not None:
            self._store.close()
            self._store = self._recorder = None


@dataclass(slots=True)
class Branches:
    """Turns as users take them: on, and now and then again from one of the last."""

    rng: random.Random = field(default_factory=lambda: random.Random(SEED))
    branches: dict[int, int] = field(default_factory=dict)
    trail: list[Place] = field(default_factory=list)

    def next(self) -> tuple[Place, list[Place]]:
        """Returns turn and branch of the next turn, and its parent path."""
        if self.trail and self.rng.random() < AGAIN:
            self.trail = self.trail[: max(0, len(self.trail) - self.rng.randint(1, 5))]
        turn = len(self.trail) + 1
        self.branches[turn] = self.branches.get(turn, 0) + 1
        place, path = (turn, self.branches[turn]), list(self.trail)
        self.trail.append(place)
        return place, path


def path_share(name: str, path: Path, turns: int) -> dict[str, float]:
    """Records turns with branches and returns what share of the event bytes parent paths are."""
    store = cast("_PathStore", open_store(name, path))
    work = events(turns * EVENTS_A_TURN)
    walk = Branches()
    for number in range(turns):
        (turn, branch), parents = walk.next()
        part = work[number * EVENTS_A_TURN : (number + 1) * EVENTS_A_TURN]
        for kind, fields, _ in part:
            if name == OURS:
                event = NewEvent(kind, fields, turn, branch, tuple(parents))
                cast("SessionStore", store).record(AGENT, Unit(events=(event,)))
            else:
                store.append_event(
                    AGENT,
                    kind,
                    dict(fields),
                    turn_index=turn,
                    branch_id=branch,
                    parent_branch_path=parents,
                )
    stored = store.get_events(AGENT)
    store.close()
    whole = sum(len(msgpack.packb(event)) for event in stored)
    paths = sum(_path_bytes(event) for event in stored)
    return {"event bytes": whole, "path bytes": paths, "path share": paths / whole}


def _path_bytes(event: dict[str, object]) -> int:
    if "parent_branch_path" not in event:
        return 0
    rest = {key: value for key, value in event.items() if key != "parent_branch_path"}
    return len(msgpack.packb(event)) - len(msgpack.packb(rest))

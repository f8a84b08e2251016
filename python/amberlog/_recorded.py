"""What a recorder writes at one moment, and the conversation that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog._agent_state import AgentState
from amberlog.types import Position, StoredEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amberlog._tables import Key
    from amberlog.types import NewEvent, Unit


class Recorded(AgentState):
    """The part of a session store that records units and keeps conversations short."""

    def record(self, agent: str, unit: Unit, *, sync: bool = False) -> list[StoredEvent]:
        """Stores events and all that must agree with them, in one transaction: all or nothing.

        Errors are those of `append_event`. A snapshot of the unit includes its events: its
        watermark is the highest event id that there is then.

        Args:
            agent: Whose events they are.
            unit: What is stored.
            sync: Also syncs to disk before it returns, as `flush` does.

        Returns:
            What each event was given, in order.
        """
        snapshot, run = unit.snapshot, unit.run
        puts: list[tuple[str, Key, object]] = [("state", *item) for item in unit.state.items()]
        puts += [("turn_rollup", *item) for item in unit.rollups.items()]
        stored = self._bundle.record(
            agent,
            [_parts(event) for event in unit.events],
            puts,
            [],
            None
            if snapshot is None
            else (snapshot.messages, snapshot.branch, snapshot.compact_state),
            None if run is None else (run.parent, run.name, run.job_id, run.meta, run.conversation),
            sync,
            bool(self._subscribers),
        )
        for key, _, _, event in stored:
            if event is not None:
                self._notify(key, event)
        return [StoredEvent(key, event_id, states) for key, event_id, states, _ in stored]

    def position(self, agent: str) -> Position | None:
        """Returns where an agent stands: turn, branch and lineage of its last event that has them.

        Looks at the last events only. None when none of them belongs to a turn.
        """
        found = self._bundle.place_of(agent)
        return None if found is None else Position(found[0], found[1], tuple(found[2]))

    def append_compaction_checkpoint(
        self,
        agent: str,
        summary: str,
        *,
        from_event_id: int | None = None,
        to_event_id: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> bool:
        """Lets a summary stand in for older events from now on, in one transaction.

        Nothing is deleted: an event is appended that says what the summary stands for, and the
        conversation as it leaves it is stored as the agent's snapshot. The range is narrowed
        where its ends would cut an exchange with a tool in two; a call that still waits for its
        result stays outside. Reads the agent's log once.

        Args:
            agent: Whose conversation it is.
            summary: What is told instead.
            from_event_id: The first event it stands for; the first of the conversation when left
                out.
            to_event_id: The last event it stands for; the newest when left out.
            metadata: Kept in the event under `metadata`.

        Returns:
            False when the summary is blank, and nothing was written.

        Raises:
            ValueError: No event of the conversation lies in the range.
        """
        fields = None if metadata is None else {"metadata": dict(metadata)}
        stored = self._bundle.compact(
            agent, summary, from_event_id, to_event_id, fields, bool(self._subscribers)
        )
        if stored is None:
            return False
        key, _, _, event = stored
        if event is not None:
            self._notify(key, event)
        return True

    def get_working_history(
        self, agent: str, max_messages: int | None = None
    ) -> list[dict[str, object]]:
        """Returns the messages that a model is sent next: the last summary, and what followed.

        It is the newest snapshot and what happened since; the whole log is read only where that
        does not simply go on, as after a change of branch. Every call has its result: one that
        was interrupted has a result that says so.

        Args:
            agent: Whose conversation it is.
            max_messages: At most this many, the newest; None or 0 for all. The summary is always
                among them, and no result is without its call, so that there may be fewer.
        """
        if max_messages is not None and max_messages < 0:
            raise ValueError(f"max_messages must not be negative, not {max_messages}")
        return self._bundle.working_history(agent, max_messages or None)


def _parts(
    event: NewEvent,
) -> tuple[
    str, Mapping[str, object], int | None, int | None, tuple[tuple[int, int], ...] | None, bool
]:
    return (
        event.type,
        event.data,
        event.turn_index,
        event.branch_id,
        event.parent_branch_path,
        event.may_omit_path,
    )

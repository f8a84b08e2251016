"""One agent's events as a recorder writes them: open text first, everything in one transaction."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from amberlog._open_text import OpenText
from amberlog._run_state import RunState
from amberlog.types import NewEvent, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amberlog.session import SessionStore
    from amberlog.types import StoredEvent


@dataclass(frozen=True, slots=True)
class Stamps:
    """Where events belong.

    Attributes:
        turn_index: The turn; None before the first.
        branch_id: The branch of the turn.
        path: The turn and branch of every earlier turn.
        may_omit_path: Whether the path may be left out where the log implies it.
    """

    turn_index: int | None = None
    branch_id: int | None = None
    path: tuple[tuple[int, int], ...] | None = None
    may_omit_path: bool = True

    def event(self, event_type: str, data: Mapping[str, object]) -> NewEvent:
        """Returns an event that belongs here."""
        return NewEvent(
            event_type, data, self.turn_index, self.branch_id, self.path, self.may_omit_path
        )


class Track:
    """Writes the events of one namespace in order, from any thread.

    Text that streams in becomes one event when another event follows it. Until then a copy of it
    is stored, and the copy goes in the transaction that stores the event: whatever the moment of
    a kill, the text is found once. What an earlier process left is stored as an event at once.

    Args:
        store: The session.
        namespace: Whose events they are.
    """

    def __init__(self, store: SessionStore, namespace: str) -> None:
        self.store = store
        self.namespace = namespace
        self.chunk_seq = 0
        self.run = RunState(store, namespace)
        self._slot = f"{namespace}:open_text"
        self._text = OpenText()
        self._text_stamps = Stamps()
        self._lock = threading.RLock()
        if not store.readonly:
            self._recover()

    def text(self, piece: str, stamps: Stamps) -> None:
        """Takes a piece of streamed text."""
        if not piece:
            return
        with self._lock:
            if not self._text:
                self._text_stamps = stamps
            if self._text.add(piece):
                self.store.record(
                    self.namespace,
                    Unit(state={self._slot: self._text.text, **self.run.beat()}),
                )
                self._text.mirrored()

    def write(
        self, *events: NewEvent, more: Unit | None = None, sync: bool = False
    ) -> list[StoredEvent]:
        """Stores the open text as an event, then events and what belongs to them.

        Args:
            events: The events.
            more: What is stored with them.
            sync: Whether all is on disk when this returns.

        Returns:
            What each of the events was given.
        """
        more = more or Unit()
        with self._lock:
            before, state = self._open_text()
            unit = replace(
                more,
                events=(*before, *events),
                state={**self.run.beat(), **state, **more.state},
            )
            if not unit.events and not unit.state and unit.snapshot is None:
                if sync:
                    self.store.flush()
                return []
            stored = self.store.record(self.namespace, unit, sync=sync)
            if before:
                self._text.clear()
                self.chunk_seq += 1
        return stored[len(before) :]

    def _open_text(self) -> tuple[tuple[NewEvent, ...], dict[str, object]]:
        if not self._text:
            return (), {}
        chunk = {"content": self._text.text, "chunk_seq": self.chunk_seq}
        state: dict[str, object] = {self._slot: ""} if self._text.is_mirrored else {}
        return (self._text_stamps.event("text_chunk", chunk),), state

    def _recover(self) -> None:
        left = self.store.state.get(self._slot)
        if not isinstance(left, str) or not left:
            return
        place = self.store.position(self.namespace)
        stamps = Stamps()
        if place is not None:
            stamps = Stamps(place.turn_index, place.branch_id, place.parent_branch_path)
        chunk = {"content": left, "chunk_seq": self.chunk_seq, "finalize": "recovered"}
        unit = Unit(events=(stamps.event("text_chunk", chunk),), state={self._slot: ""})
        self.store.record(self.namespace, unit)
        self.chunk_seq += 1

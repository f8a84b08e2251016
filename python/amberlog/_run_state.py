"""What an agent was doing, for whoever finds the session after its process was killed."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amberlog.session import SessionStore

BOOT_ID = uuid.uuid4().hex[:16]
"""Tells the runs of this process from those of one before it."""
BEAT_S = 5.0
"""Seconds between two signs of life within a turn."""


class RunState:
    """Makes the values of `run:<agent>`; whoever uses it stores them.

    A turn that is `started` or `active` under another `boot_id` never ended.
    """

    def __init__(self, store: SessionStore, agent: str) -> None:
        self._store = store
        self._key = f"run:{agent}"
        self._turn: tuple[object, object] | None = None
        self._in_turn = False
        self._beat_at = 0.0

    def started(self, turn_id: int | None) -> dict[str, object]:
        """Returns the record of a turn that begins."""
        self._in_turn = True
        self._turn = (turn_id, time.time())
        return self._record("started")

    def beat(self) -> dict[str, object]:
        """Returns the record of a turn that goes on, when a sign of life is due; else nothing."""
        if not self._in_turn or time.monotonic() - self._beat_at < BEAT_S:
            return {}
        return self._record("active")

    def ended(self) -> dict[str, object]:
        """Returns the record of a turn that has ended."""
        self._in_turn = False
        return self._record("idle")

    def stopped(self) -> dict[str, object]:
        """Returns the record of an agent that was stopped."""
        self._in_turn = False
        return self._record("stopped")

    def _record(self, state: str) -> dict[str, object]:
        now = time.time()
        self._beat_at = time.monotonic()
        if self._turn is None:
            known = self._store.state.get(self._key)
            before = known if isinstance(known, dict) else {}
            self._turn = (before.get("turn_id"), before.get("started_at"))
        turn_id, started_at = self._turn
        record = {
            "state": state,
            "turn_id": turn_id,
            "started_at": started_at,
            "last_beat": now,
            "ended_at": now if state in ("idle", "stopped") else None,
            "boot_id": BOOT_ID,
        }
        return {self._key: record}

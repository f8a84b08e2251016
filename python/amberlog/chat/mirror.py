"""Copies of messages for a second place, sent by a thread so that no turn waits for it."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amberlog.chat.protocols import SessionMirrorProtocol

DEFAULT_MIRROR_QUEUE_SIZE = 1000
DEFAULT_MIRROR_MAX_RETRIES = 3
_FIRST_PAUSE_S = 0.05

_log = logging.getLogger(__name__)

Records = list[dict[str, object]]


class MirrorWriter:
    """Hands records to a mirror, in order, on a thread of its own.

    A mirror is no part of what a write promises: while it cannot be reached, records wait in a
    queue, and what does not fit or fails three times is left out and logged. `lost` counts it.

    Args:
        mirror: Where the records go.
        max_queue: How many batches wait at most.
        max_tries: How often a batch is tried.
    """

    def __init__(
        self,
        mirror: SessionMirrorProtocol,
        *,
        max_queue: int = DEFAULT_MIRROR_QUEUE_SIZE,
        max_tries: int = DEFAULT_MIRROR_MAX_RETRIES,
    ) -> None:
        self._mirror = mirror
        self._max_queue = max_queue
        self._max_tries = max_tries
        self.lost = 0
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[tuple[str, Records]] = deque()
        self._moved = threading.Condition()
        self._is_sending = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="amberlog-mirror", daemon=True)
        self._thread.start()

    def enqueue(self, session_id: str, records: Sequence[dict[str, object]]) -> None:
        """Takes records to be sent; never waits for the mirror."""
        if self._pid != os.getpid():
            # The thread stayed in the parent, which sends what it has.
            self._begin()
        with self._moved:
            reason = "it is closed" if self._is_closed else None
            if len(self._waiting) >= self._max_queue:
                reason = "too many records wait for it"
            if reason is None:
                self._waiting.append((session_id, copy.deepcopy(list(records))))
                self._moved.notify_all()
        if reason is not None:
            self._lose(session_id, len(records), reason)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until every record was sent or given up.

        Args:
            timeout: Seconds to wait at most; `None` for as long as it takes.

        Returns:
            Whether that is so.
        """
        if self._pid != os.getpid():
            return True
        with self._moved:
            return self._moved.wait_for(self._is_idle, timeout)

    def close(self) -> None:
        """Sends what waits, then ends the thread; what comes later is left out."""
        if self._pid != os.getpid():
            return
        with self._moved:
            self._is_closed = True
            self._moved.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_sending

    def _run(self) -> None:
        while True:
            with self._moved:
                self._moved.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                session_id, records = self._waiting.popleft()
                self._is_sending = True
            try:
                self._send(session_id, records)
            finally:
                with self._moved:
                    self._is_sending = False
                    self._moved.notify_all()

    def _send(self, session_id: str, records: Records) -> None:
        pause_s = _FIRST_PAUSE_S
        for left in reversed(range(self._max_tries)):
            try:
                # A copy for each try: the mirror may have changed the last one.
                self._mirror.append(session_id, copy.deepcopy(records))
            except Exception as error:  # noqa: BLE001  # the caller's mirror may raise anything
                if not left:
                    self._lose(session_id, len(records), str(error) or type(error).__name__)
                    return
                time.sleep(pause_s)
                pause_s *= 2
            else:
                return

    def _lose(self, session_id: str, count: int, reason: str) -> None:
        self.lost += count
        _log.warning("the mirror lacks %d records of session %r: %s", count, session_id, reason)


def record(session_id: str, message: dict[str, object]) -> dict[str, object]:
    """Returns the record of a message: the message, with an id and its session."""
    made = {**message, "id": f"{session_id}:{message.get('timestamp')}"}
    return {**made, "session_id": session_id}


__all__ = ["DEFAULT_MIRROR_MAX_RETRIES", "DEFAULT_MIRROR_QUEUE_SIZE", "MirrorWriter", "record"]

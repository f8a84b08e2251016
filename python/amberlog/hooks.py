"""What keeps an index level with a session while it is recorded."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from amberlog.errors import SessionError, SessionNotFoundError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from amberlog.index import SessionIndex
    from amberlog.session import SessionStore

logger = logging.getLogger("amberlog")

# A push costs the appender nothing but processor time and disk; this share of them at most.
_REST = 10


class SessionIndexHook:
    """Pushes a session's entry into an index after so many events, or so long after one.

    A thread of its own waits and pushes, so an append only counts. It is flushed and detached when
    the store closes. What fails is logged: the next reconcile makes up for it.

    Args:
        store: The session that is recorded; its file lies in the directory of the index.
        index: The index.
        flush_every_n_events: How many events bring a push.
        flush_every_seconds: How long an event waits for a push at most, in seconds.
        push_on_attach: Whether to push at once.

    Raises:
        ValueError: One of the numbers is not positive.
    """

    def __init__(
        self,
        store: SessionStore,
        index: SessionIndex,
        *,
        flush_every_n_events: int = 20,
        flush_every_seconds: float = 5.0,
        push_on_attach: bool = True,
    ) -> None:
        if flush_every_n_events < 1:
            raise ValueError("flush_every_n_events: a positive number is needed")
        if not flush_every_seconds > 0:
            raise ValueError("flush_every_seconds: a positive number is needed")
        self._store = store
        self._index = index
        self._events = flush_every_n_events
        self._seconds = flush_every_seconds
        self._process = os.getpid()
        self._wakes = threading.Event()
        self._pushing = threading.Lock()
        # Counted by the appending threads without a lock: an event too few only delays a push.
        self._seen = 0
        self._pushed = 0
        self._is_attached = True
        self._thread = threading.Thread(target=self._run, name="amberlog-index-hook", daemon=True)
        store.register_companion_closer(self.detach)
        store.subscribe(self._count)
        self._thread.start()
        if push_on_attach:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def flush(self) -> None:
        """Pushes what the session holds now, and returns when it is in the index."""
        if self._is_attached:
            self._push()

    def detach(self) -> None:
        """Pushes what is pending and stops. Detaching twice is no error."""
        self._store.unsubscribe(self._count)
        if os.getpid() != self._process or not self._is_attached:
            return
        self._is_attached = False
        self._wakes.set()
        self._thread.join()
        self._push()

    def _count(self, key: str, event: dict[str, object]) -> None:
        del key, event
        self._seen = seen = self._seen + 1
        if seen - self._pushed in (1, self._events):
            self._wakes.set()

    def _run(self) -> None:
        since, rested = 0.0, 0.0
        while self._is_attached:
            now = time.monotonic()
            pending = self._seen - self._pushed
            if not pending:
                since = 0.0
                self._pause(None)
                continue
            since = since or now
            due = now if pending >= self._events else since + self._seconds
            if (wait := max(due, rested) - now) > 0:
                self._pause(wait)
                continue
            since = 0.0
            self._push()
            took = time.monotonic() - now
            rested = now + took + min(took * _REST, self._seconds)

    def _pause(self, seconds: float | None) -> None:
        self._wakes.wait(seconds)
        # Whoever wakes us has counted before, and is seen when the loop looks again.
        self._wakes.clear()

    def _push(self) -> None:
        try:
            with self._pushing:
                self._pushed = self._seen
                self._index.push(self._store.path)
        except SessionNotFoundError:
            # A session that is not kept (`open_session(enabled=False)`) has nothing to be listed.
            logger.debug("%s has no file to be listed", self._store.path)
        except (SessionError, OSError, ValueError):
            logger.warning("the entry of %s was not pushed", self._store.path, exc_info=True)


def push_index_update(store: SessionStore, index: SessionIndex) -> dict[str, object] | None:
    """Pushes a session's entry into an index once; returns its row, None when that failed."""
    try:
        index.push(store.path)
    except (SessionError, OSError, ValueError):
        logger.warning("the entry of %s was not pushed", store.path, exc_info=True)
        return None
    return index.get(os.path.basename(store.path))  # noqa: PTH119  # the key is the bare name


__all__ = ["SessionIndexHook", "push_index_update"]

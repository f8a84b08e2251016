"""The handle on an open bundle: its tables, its worker thread, its end."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from amberlog._tables import EventTable, Table
from amberlog.errors import SessionClosedError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from amberlog._null import AnyBundle
    from amberlog.types import EventCallback

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("amberlog")


class StoreHandle:
    """What every part of a session store stands on.

    Attributes:
        meta: What the session says about itself.
        state: The state of its agents.
        events: The events by key; they are read here and added by `append_event`.
        channels: The messages of its channels.
        subagents: The runs of its sub-agents.
        jobs: Its jobs.
        conversation: The conversation snapshots as the peer sees them; `load_conversation` may
            know a newer one.
        turn_rollup: Its turn rollups.
    """

    def __init__(self, bundle: AnyBundle) -> None:
        bundle = self._around(bundle)
        self._bundle = bundle
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closing = False
        self._worker: ThreadPoolExecutor | None = None
        self._worker_thread: int | None = None
        self._closers: list[Callable[[], object]] = []
        self._subscribers: tuple[EventCallback, ...] = ()
        self.meta = Table(bundle, "meta")
        self.state = Table(bundle, "state")
        self.events = EventTable(bundle, "events")
        self.channels = Table(bundle, "channels")
        self.subagents = Table(bundle, "subagents")
        self.jobs = Table(bundle, "jobs")
        self.conversation = Table(bundle, "conversation")
        self.turn_rollup = Table(bundle, "turn_rollup")

    def __enter__(self) -> Self:
        self._check_accepting()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def path(self) -> str:
        """The path of the session's file."""
        return self._bundle.path

    @property
    def readonly(self) -> bool:
        """Whether every write is refused."""
        return self._bundle.readonly

    @property
    def is_ready(self) -> bool:
        """Whether the session is open."""
        return not self._closing

    @property
    def session_id(self) -> str:
        """The session's id: what its meta says, else the stem of its file's name."""
        stored = self.meta.get("session_id")
        return str(stored) if stored else Path(self.path).stem

    def subscribe(self, callback: EventCallback) -> None:
        """Calls `callback(key, event)` after each append, on the appending thread.

        The event is the one that was stored, with its stamps. By then it is stored, so a callback
        that raises undoes nothing: the error is logged to the logger `amberlog`. A callback that
        is subscribed already is not called twice.
        """
        self._check_accepting()
        with self._lock:
            if callback not in self._subscribers:
                self._subscribers = (*self._subscribers, callback)

    def unsubscribe(self, callback: EventCallback) -> None:
        """Stops calling `callback`; does nothing when it is not subscribed."""
        with self._lock:
            self._subscribers = tuple(known for known in self._subscribers if known != callback)

    def register_companion_closer(self, closer: Callable[[], object]) -> None:
        """Has `close` call `closer`, the last one registered first, while the store still works.

        Registering the same closer again changes nothing.
        """
        self._check_accepting()
        with self._lock:
            if closer not in self._closers:
                self._closers.append(closer)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs a call on the store's one worker thread, after all that were submitted before.

        The thread is made by the first call. What was accepted runs to its end before `close`
        closes the session.

        Raises:
            SessionClosedError: Closing has begun, or this is a fork of the process that opened it.
        """
        if os.getpid() != self._process:
            raise SessionClosedError("a forked process has no worker", path=self.path)
        with self._lock:
            self._check_accepting()
            if self._worker is None:
                self._worker = ThreadPoolExecutor(
                    1, thread_name_prefix="amberlog-store", initializer=self._mark_worker
                )
            return self._worker.submit(fn, *args, **kwargs)

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Awaits a call that runs as by `submit`.

        Cancelling stops the waiting only: the call keeps its place and runs.
        """
        return await asyncio.shield(asyncio.wrap_future(self.submit(fn, *args, **kwargs)))

    def flush(self) -> None:
        """Syncs everything that was appended to disk, and brings the search index level.

        Costs one sync of the device; what it covers survives a power cut.
        """
        self._bundle.flush()

    def checkpoint(self) -> None:
        """Flushes, and moves the write-ahead log into the file as far as readers allow."""
        self._bundle.checkpoint()

    def close(self, update_status: bool = True) -> None:  # noqa: FBT001, FBT002  # as the peer's
        """Closes the session: everything is on disk when it returns. Closing twice is no error.

        In this order: no more work is accepted, the accepted work is finished, the status becomes
        `paused`, the companion closers run, the bundle is flushed and closed. Each step is taken
        even if one before it failed; the first error is raised at the end.

        Args:
            update_status: False leaves the status as it is, as does a session open for reading.
        """
        if os.getpid() != self._process:
            # The worker and the companions live in the process that was forked, and the lock may
            # be held by one of its threads for ever. Only this copy of the handle is given up.
            self._closing = True
            self._bundle.close()
            return
        with self._lock:
            if threading.get_ident() == self._worker_thread:
                raise SessionError("a store cannot be closed by its own worker", path=self.path)
            if self._closing:
                return
            self._closing = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=True)
        steps: list[Callable[[], object]] = [*reversed(self._closers), self._bundle.close]
        if update_status and not self.readonly:
            steps.insert(0, self._pause)
        _take_all(steps)

    def _around(self, bundle: AnyBundle) -> AnyBundle:
        """Returns what the store works on; a drop-in store puts its own contract around it."""
        return bundle

    def _pause(self) -> None:
        """What marks the session as paused when it closes."""

    def _mark_worker(self) -> None:
        self._worker_thread = threading.get_ident()

    def _check_open(self) -> None:
        # Until the bundle is closed the work and the companions that `close` waits for may read
        # and write.
        if self._bundle.closed:
            raise SessionClosedError("the session is closed", path=self.path)

    def _check_accepting(self) -> None:
        if self._closing:
            raise SessionClosedError("the session is closed", path=self.path)

    def _notify(self, key: str, event: dict[str, object]) -> None:
        for callback in self._subscribers:
            try:
                callback(key, event)
            except Exception:  # the event is stored, whatever a listener does
                logger.warning("a subscriber failed on event %s", key, exc_info=True)


def _take_all(steps: list[Callable[[], object]]) -> None:
    first: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001  # raised below, after the steps left
            first = first or error
    if first is not None:
        raise first

"""Builds that run while the server answers."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from amberlog._building import Built, build
from amberlog.errors import SessionBusyError, SessionClosedError

if TYPE_CHECKING:
    from amberlog._building import EmbedderSettings

    State = Literal["idle", "running", "done", "failed", "cancelled"]

# Builds are long, and answers come first.
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class BuildReport:
    """How a build stands.

    Attributes:
        state: `idle` where none was asked for since the server started.
        done: How many blocks were looked at.
        total: How many there are to look at.
        indexed: How many were new, once it is done.
        error: Why it failed.
    """

    state: State
    done: int = 0
    total: int = 0
    indexed: int = 0
    error: str | None = None


@dataclass(slots=True)
class _Build:
    future: Future[Built]
    done: int = 0
    total: int = 0


@dataclass(slots=True)
class Builds:
    """The builds of a server: one for each session, and few at once.

    Closing it ends those that run after the batch that each is at; what they have made stays.
    """

    _by_path: dict[Path, _Build] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_closing: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="amberlog-build")
    )

    def start(self, path: Path, settings: EmbedderSettings, *, anew: bool = False) -> None:
        """Begins to build the memory of a session, or to build it anew.

        Raises:
            SessionBusyError: One that was begun has not ended.
            SessionClosedError: The server is ending.
        """
        with self._lock:
            if self._is_closing.is_set():
                raise SessionClosedError("the server is ending", path=str(path))
            running = self._by_path.get(path)
            if running is not None and not running.future.done():
                raise SessionBusyError(f"`{path.name}` is being built", path=str(path))
            begun = threading.Event()
            future = self._pool.submit(self._run, path, settings, begun, anew)
            self._by_path[path] = _Build(future)
            begun.set()

    def report(self, path: Path) -> BuildReport:
        """Returns how the last build of a session stands."""
        with self._lock:
            one = self._by_path.get(path)
        if one is None:
            return BuildReport("idle")
        future = one.future
        if not future.done():
            return BuildReport("running", one.done, one.total)
        if future.cancelled():
            return BuildReport("cancelled", one.done, one.total)
        error = future.exception()
        if isinstance(error, SessionClosedError):
            return BuildReport("cancelled", one.done, one.total, error=str(error))
        if error is not None:
            return BuildReport(
                "failed", one.done, one.total, error=str(error) or type(error).__name__
            )
        return BuildReport("done", one.done, one.total, future.result().indexed)

    def close(self) -> None:
        """Ends all builds and waits for them."""
        with self._lock:
            self._is_closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(
        self,
        path: Path,
        settings: EmbedderSettings,
        begun: threading.Event,
        anew: bool,  # noqa: FBT001  # a pool passes no keywords
    ) -> Built:
        begun.wait()

        def progress(done: int, total: int) -> None:
            if self._is_closing.is_set():
                raise SessionClosedError("the server is ending", path=str(path))
            one = self._by_path[path]
            one.done, one.total = done, total

        return build(path, settings, anew=anew, progress=progress)


__all__ = ["BuildReport", "Builds"]

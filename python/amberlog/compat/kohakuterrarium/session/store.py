"""The session store under the peer's contract, which is looser than ours."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import amberlog.session
from amberlog import errors
from amberlog.compat._relaxed import RelaxedBundle
from amberlog.compat.kohakuterrarium.errors import SessionLockedError
from amberlog.session import FORMAT_VERSION, iter_kv_keys

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from amberlog._null import AnyBundle
    from amberlog.types import Durability

P = ParamSpec("P")
T = TypeVar("T")

# A call that itself waits for the thread that reads must not keep that thread for ever.
_PATIENCE_S = 1.0

# The peer's readers ask it for a store that holds a file, before they open the file themselves.
_REGISTRY = "kohakuterrarium.session.open_registry"


class SessionStore(amberlog.session.SessionStore):
    """`amberlog.SessionStore` with what code written for the peer expects of it.

    Tuples are stored as lists instead of refused. A read waits, at most a second, for the calls
    that were submitted before: the peer's recorder writes through `submit`, and its reads are slow
    enough to come after that as a rule, which is what the code that reads relies on.

    The attributes with an underscore are those that the peer's own modules use. Whoever asks the
    peer for the open store of a file is given it.

    Args:
        path: The file; it is created with its parents when it is missing.
        durability: What a returned append promises, as of `amberlog.SessionStore`.
        writer_lock: Takes the session's writer lock, so that no other process can write to it.
        peer_fts: Also keeps the peer's text index.
        flush_every_n_events: Without effect, since nothing waits to be flushed.
        flush_every_n_seconds: Without effect, since nothing waits to be flushed.

    Raises:
        SessionLockedError: Somebody else holds the writer lock.
    """

    # Every event is committed when it is appended.
    DEFAULT_FLUSH_EVERY_N_EVENTS = 1
    DEFAULT_FLUSH_EVERY_N_SECONDS = 0.0

    _submitted: Future[object] | None = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "process",
        writer_lock: bool = False,
        peer_fts: bool = True,
        flush_every_n_events: int | None = None,
        flush_every_n_seconds: float | None = None,
    ) -> None:
        try:
            super().__init__(
                path,
                durability=durability,
                writer_lock=writer_lock,
                peer_fts=peer_fts,
                flush_every_n_events=flush_every_n_events,
                flush_every_n_seconds=flush_every_n_seconds,
            )
        except errors.SessionLockedError as error:
            raise SessionLockedError(
                error.message, path=error.path, holder_pid=error.holder_pid
            ) from error

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs a call on the store's one worker thread, as `amberlog.SessionStore.submit` does."""
        future = super().submit(fn, *args, **kwargs)
        self._submitted = cast("Future[object]", future)
        return future

    def close(self, update_status: bool = True) -> None:  # noqa: FBT001, FBT002  # as the peer's
        """Closes the session, as `amberlog.SessionStore.close` does."""
        if registry := sys.modules.get(_REGISTRY):
            registry.unregister_open_store(self.path, self)
        super().close(update_status)

    def _around(self, bundle: AnyBundle) -> AnyBundle:
        if registry := sys.modules.get(_REGISTRY):
            registry.register_open_store(bundle.path, self)
        return cast("AnyBundle", RelaxedBundle(bundle, self._settle))

    def _settle(self) -> None:
        """Waits for what was submitted; the worker itself never waits for its own queue."""
        last = self._submitted
        if last is None or last.done() or threading.get_ident() == self._worker_thread:
            return
        wait([last], _PATIENCE_S)

    @property
    def _path(self) -> str:
        return self.path

    @property
    def _closed(self) -> bool:
        return self._closing

    @property
    def _companion_closers(self) -> list[Callable[[], object]]:
        return self._closers

    def _ensure_affinity(self) -> None:
        # The worker is made by the first call that it gets.
        self._check_accepting()

    def _iter_events(
        self, agent: str, since_event_id: int | None = None
    ) -> Iterator[dict[str, object]]:
        return self.iter_events(agent, since=since_event_id)


__all__ = ["FORMAT_VERSION", "SessionLockedError", "SessionStore", "iter_kv_keys"]

"""What keeps an index level with a session while it is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import amberlog.hooks
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.entry import SessionIndexEntry

if TYPE_CHECKING:
    from amberlog.index import SessionIndex
    from amberlog.session import SessionStore


class SessionIndexHook(amberlog.hooks.SessionIndexHook):
    """`amberlog.SessionIndexHook` with the peer's defaults.

    Args:
        store: The session that is recorded.
        index: The index.
        flush_every_n_events: How many events bring a push.
        flush_every_seconds: How long an event waits for a push at most, in seconds.
        push_on_attach: Whether to push at once.
    """

    DEFAULT_FLUSH_EVERY_N_EVENTS = 20
    DEFAULT_FLUSH_EVERY_SECONDS = 5.0

    def __init__(
        self,
        store: SessionStore,
        index: SessionIndex,
        *,
        flush_every_n_events: int | None = None,
        flush_every_seconds: float | None = None,
        push_on_attach: bool = True,
    ) -> None:
        events, seconds = flush_every_n_events, flush_every_seconds
        super().__init__(
            store,
            index,
            flush_every_n_events=(
                self.DEFAULT_FLUSH_EVERY_N_EVENTS if events is None else max(1, int(events))
            ),
            flush_every_seconds=(
                self.DEFAULT_FLUSH_EVERY_SECONDS if seconds is None else max(0.001, float(seconds))
            ),
            push_on_attach=push_on_attach,
        )


def push_index_update(store: SessionStore, index: SessionIndex) -> SessionIndexEntry | None:
    """Pushes a session's entry into an index once; None when that failed, which is logged."""
    row = amberlog.hooks.push_index_update(store, index)
    return None if row is None else SessionIndexEntry.from_dict(row)


__all__ = ["SessionIndexHook", "push_index_update"]

"""Forks and snapshots by the contract of the peer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import amberlog.chat
from amberlog.chat.hierarchy import ExtendedSessionData, SessionSnapshot
from amberlog.compat.praisonai._peer import peer
from amberlog.compat.praisonai._places import default_session_dir
from amberlog.compat.praisonai._stores import DefaultSessionStore

if TYPE_CHECKING:
    from amberlog.chat.messages import SessionData
    from amberlog.chat.title import TitleWriter

_MOST_KEPT = 256


class HierarchicalSessionStore(DefaultSessionStore, amberlog.chat.HierarchicalSessionStore):
    """`amberlog.chat.HierarchicalSessionStore` by the contract of the peer.

    `get_extended_session` returns the same object while the session is the same.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as they are, to the store
        self._extended_cache: OrderedDict[str, ExtendedSessionData] = OrderedDict()
        self._extended_lock = threading.Lock()

    def get_extended_session(
        self,
        session_id: str,
        force_reload: bool = False,  # noqa: FBT001, FBT002  # the peer's signature
    ) -> ExtendedSessionData:
        """Returns a session with its relatives: the object returned before, if it still says so."""
        return self._load_extended_session(session_id, force_reload=force_reload)

    def get_session(self, session_id: str) -> SessionData:
        """Returns a session with its relatives, read anew."""
        return super().get_extended_session(session_id)

    async def auto_title(self, session_id: str, write: TitleWriter | None = None) -> bool:
        """Gives a session without a title one; the peer's model writes it, where there is one."""
        theirs = peer("session.title")
        given = write or (None if theirs is None else theirs.generate_title_async)
        return await super().auto_title(session_id, given)

    def invalidate_cache(self, session_id: str | None = None) -> None:
        """Lets go of the memory of a session, or of all."""
        super().invalidate_cache(session_id)
        with self._extended_lock:
            if session_id is None:
                self._extended_cache.clear()
            else:
                self._extended_cache.pop(session_id, None)

    def _load_extended_session(
        self,
        session_id: str,
        force_reload: bool = False,  # noqa: FBT001, FBT002  # the peer's signature
    ) -> ExtendedSessionData:
        read = super().get_extended_session(session_id)
        with self._extended_lock:
            kept = self._extended_cache.get(session_id)
            if kept is not None and not force_reload and kept == read:
                return kept
            self._extended_cache[session_id] = read
            self._extended_cache.move_to_end(session_id)
            while len(self._extended_cache) > _MOST_KEPT:
                self._extended_cache.popitem(last=False)
        return read

    def _is_cache_valid(self, session_id: str) -> bool | None:
        """Returns whether the object that was returned last still is the session; `None`: none."""
        kept = self._extended_cache.get(session_id)
        return None if kept is None else kept == super().get_extended_session(session_id)

    def _session_of(self, stored: dict[str, object]) -> SessionData:
        return ExtendedSessionData.from_dict(stored)


_hierarchical_store: HierarchicalSessionStore | None = None
_hierarchical_lock = threading.Lock()


def get_hierarchical_session_store() -> HierarchicalSessionStore:
    """Returns the store of the directory that is now the default; one for the process."""
    global _hierarchical_store  # noqa: PLW0603  # one for the process, made on first use
    directory = default_session_dir()
    with _hierarchical_lock:
        if _hierarchical_store is None or _hierarchical_store.session_dir != directory:
            _hierarchical_store = HierarchicalSessionStore(directory)
        return _hierarchical_store


__all__ = [
    "ExtendedSessionData",
    "HierarchicalSessionStore",
    "SessionSnapshot",
    "get_hierarchical_session_store",
]

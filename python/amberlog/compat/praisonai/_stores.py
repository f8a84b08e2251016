"""The default store under the peer's contract, with the seams that code written for it uses.

The classes are not in `store`, which is loaded again by those who want to see it without `fcntl`:
a class that is made twice is two.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

import amberlog.chat
from amberlog.chat._lenient import LenientChat
from amberlog.chat.messages import SessionData
from amberlog.compat.praisonai import _reading
from amberlog.compat.praisonai._failures import fire
from amberlog.compat.praisonai._lock import FileLock
from amberlog.compat.praisonai._places import default_session_dir
from amberlog.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amberlog.chat._lenient import PersistFailure
    from amberlog.chat.protocols import SessionMirrorProtocol

logger = logging.getLogger("amberlog")

ARCHIVE_WARN_THRESHOLD = 10_000
Mutator = Callable[[SessionData], None]


class DefaultSessionStore(amberlog.chat.DefaultSessionStore):
    """`amberlog.chat.DefaultSessionStore` by the contract of the peer.

    It is not strict, and takes the peer's directory where none is given. A subclass, or an
    instance, that has a method `_atomic_write_json` of its own is asked to write by it.

    Args:
        session_dir: The directory; `None` is the peer's.
        max_messages: How many messages the window has, and a working history at most.
        lock_timeout: Seconds that a write waits for another writer of the session.
        retention: What happens to messages beyond the window.
        active_window: How many messages the window has, where that is not `max_messages`.
        mirror: A second place that gets a copy of each message.
        cache_maxsize: How many sessions are kept in memory at most.
        **beneath: What the store beneath takes besides.
    """

    BOOKEND_SIZE = 2
    AUTOMATED_RATE_THRESHOLD = 60.0
    AUTOMATED_DEMOTION = 0.25

    _session_title = staticmethod(_reading.title)
    _is_automated_session = staticmethod(_reading.is_automated)
    _lineage_key = staticmethod(_reading.lineage_key)
    _bookends = staticmethod(_reading.bookends)
    _make_snippet = staticmethod(_reading.snippet)
    _searchable_messages = staticmethod(_reading.searchable_messages)

    def __init__(  # the peer's signature
        self,
        session_dir: str | None = None,
        max_messages: int = 100,
        lock_timeout: float = 5.0,
        retention: str | None = None,
        active_window: int | None = None,
        mirror: SessionMirrorProtocol | None = None,
        cache_maxsize: int = 256,
        **beneath: object,
    ) -> None:
        super().__init__(
            session_dir=session_dir or default_session_dir(),
            max_messages=max_messages,
            lock_timeout=lock_timeout,
            retention=retention,
            active_window=active_window,
            mirror=mirror,
            cache_maxsize=cache_maxsize or 0,
            strict=False,
            **beneath,  # type: ignore[arg-type]  # as it is, to the store beneath
        )

    def _edit(self, session_id: str, *edits: tuple[object, ...]) -> bool:
        if not self._writes_itself():
            return self._edit_by_seam(session_id, list(edits))
        before = self._archived(session_id)
        is_made = super()._edit(session_id, *edits)
        count = self._archived(session_id)
        if count > before:
            logger.info("session %r: compacted %d messages", session_id, count - before)
        if count > ARCHIVE_WARN_THRESHOLD:
            logger.warning("session %r has %d archived messages", session_id, count)
        return is_made

    def _edit_by_seam(self, session_id: str, edits: list[tuple[object, ...]]) -> bool:
        core = cast("LenientChat", self._core)
        policy = (self.retention, self.active_window)
        try:
            with FileLock(self._get_session_path(session_id), self.lock_timeout):
                found = core.preview(session_id, edits, now=time.time(), policy=policy)
                if found is None or self._atomic_write_json(*found):
                    return True
                error = f"cannot write {found[0]!r}"
        except (SessionError, TypeError, ValueError) as failed:
            error = str(failed)
        core.salvage(session_id, edits, error)
        return False

    def _report_failure(self, failure: PersistFailure) -> None:
        super()._report_failure(failure)
        fire(failure)

    def _archived(self, session_id: str) -> int:
        core: object = self._core
        is_asked = self.retention == "compact" and isinstance(core, LenientChat)
        return cast("LenientChat", core).archived(session_id) if is_asked else 0

    def _writes_itself(self) -> bool:
        """Returns whether nobody put another method in the place of ours."""
        name = "_atomic_write_json"
        is_ours = getattr(type(self), name) is vars(DefaultSessionStore)[name]
        return is_ours and name not in vars(self)

    def _atomic_write_json(self, filepath: str, data: Mapping[str, object]) -> bool:
        """Puts a document in the place of a file, whose lock the caller holds."""
        try:
            cast("LenientChat", self._core).put(filepath, dict(data))
        except (SessionError, TypeError, ValueError) as error:
            logger.error("cannot write %r: %s", filepath, error)  # noqa: TRY400
            return False
        return True

    def _get_session_path(self, session_id: str) -> str:
        return self._core.path(session_id)

    def _load_session(self, session_id: str) -> SessionData:
        return self.get_session(session_id)

    def _load_session_from_disk(
        self,
        session_id: str,
        filepath: str,  # noqa: ARG002  # the peer's signature
    ) -> SessionData:
        return self.get_session(session_id)

    def _read_session_fresh(self, session_id: str) -> SessionData:
        return self.get_session(session_id)

    def _session_to_storage(self, session: SessionData) -> dict[str, object]:
        return session.to_dict()

    def _save_session(self, session: SessionData) -> bool:
        """Puts a session in the place of the stored one, whatever that was."""
        session.updated_at = datetime.now(timezone.utc).isoformat()
        return self._replace(session.session_id, lambda _: session, fits=True)

    def _save_imported_session(self, session: SessionData, *, overwrite: bool = True) -> bool:
        if not overwrite and self.session_exists(session.session_id):
            raise FileExistsError(self._get_session_path(session.session_id))
        return self._replace(session.session_id, lambda _: session, fits=False)

    def _modify_session_locked(
        self,
        session_id: str,
        mutator: Mutator,
        *,
        error_label: str = "modify session",  # noqa: ARG002  # the peer's signature
        apply_retention: bool = True,
    ) -> bool:
        """Lets a function change a session, between reading and writing it under its lock."""

        def changed(session: SessionData) -> SessionData:
            mutator(session)
            return session

        return self._replace(session_id, changed, fits=apply_retention)

    def _session_of(self, stored: dict[str, object]) -> SessionData:
        return SessionData.from_dict(stored)

    def _replace(
        self, session_id: str, change: Callable[[SessionData], SessionData], *, fits: bool
    ) -> bool:
        def changed(stored: dict[str, object]) -> dict[str, object]:
            return self._session_to_storage(change(self._session_of(stored)))

        policy = (self.retention, self.active_window) if fits else None
        try:
            if not self._writes_itself():
                with FileLock(self._get_session_path(session_id), self.lock_timeout):
                    stored = changed(self.get_session(session_id).to_dict())
                    return self._atomic_write_json(self._get_session_path(session_id), stored)
            self._core.change(
                session_id, changed, now=time.time(), timeout_s=self.lock_timeout, policy=policy
            )
        except (SessionError, TypeError, ValueError) as error:
            logger.error("cannot write session %r: %s", session_id, error)  # noqa: TRY400
            return False
        return True


__all__ = ["ARCHIVE_WARN_THRESHOLD", "DefaultSessionStore"]

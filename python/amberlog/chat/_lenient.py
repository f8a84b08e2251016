"""A chat store by the contract of the peer: damage and failed writes are answers, not errors."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from amberlog._core import ChatRescue, ChatStore
from amberlog.errors import SessionDamagedError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from amberlog.chat._cores import KinCore, Mutate, Policy

    Edit = tuple[object, ...]

T = TypeVar("T")

logger = logging.getLogger("amberlog")


@dataclass(frozen=True, slots=True)
class PersistFailure:
    """What a store that is not strict tells instead of raising.

    Attributes:
        session_id: The session.
        error: What went wrong.
        role: Whose message could not be stored; empty where it was no message.
        content: The message.
        spilled: Whether nothing is lost: the message, or the file's bytes, are kept elsewhere.
        spill_path: Where they are.
    """

    session_id: str
    error: str
    role: str = ""
    content: str = ""
    spilled: bool = False
    spill_path: str | None = None


class LenientChat:
    """Everything that the core of a chat store is, with answers in the place of errors.

    A damaged file is set aside, and its session is empty. A message that cannot be written is
    spilled, and comes back with the next call about its session. Each failure is reported. Where
    sessions have no files of their own there is nothing to set aside, and nothing is spilled.

    Args:
        core: The core.
        spills: The directory of what could not be written.
        policy: The retention and the window, for messages that come back.
        timeout_s: How long a write waits for another writer.
        report: What is told of each failure.
    """

    def __init__(
        self,
        core: KinCore,
        spills: Path,
        policy: Policy,
        timeout_s: float,
        report: Callable[[PersistFailure], None],
    ) -> None:
        self._core = core
        self._rescue = ChatRescue(core, spills) if isinstance(core, ChatStore) else None
        self._policy = policy
        self._timeout_s = timeout_s
        self._report = report
        self._known: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> object:
        return getattr(self._core, name)

    def edit(
        self,
        session_id: str,
        edits: list[Edit],
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
    ) -> bool | None:
        """Makes changes in one write; `None` where they are not made."""

        def made(edits: list[Edit]) -> bool:
            write = partial(self._core.edit, session_id, edits, now=now)
            return self._mended(session_id, partial(write, timeout_s=timeout_s, policy=policy))

        self._recover(session_id)
        try:
            try:
                return made(edits)
            except (TypeError, ValueError):
                # What Python's writer of JSON can write, the peer stores.
                return made([tuple(map(_spelled, edit)) for edit in edits])
        except (SessionError, TypeError, ValueError) as error:
            self.salvage(session_id, edits, str(error))
            return None

    def delete(self, session_id: str, *, timeout_s: float) -> bool | None:
        """Removes a session; `None` where that failed."""
        try:
            return self._core.delete(session_id, timeout_s=timeout_s)
        except SessionError as error:
            self._report(PersistFailure(session_id, str(error)))
            return None

    def change(
        self,
        session_id: str,
        mutate: Mutate,
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
        only_new: bool = False,
        keep_time: bool = False,
    ) -> bool:
        """Puts another document in the place of one, as the core does."""
        change = partial(self._core.change, session_id, mutate, now=now, timeout_s=timeout_s)
        options = {"only_new": only_new, "keep_time": keep_time}
        return self._mended(session_id, partial(change, policy=policy, **options))

    def fork(
        self,
        session_id: str,
        child_id: str,
        at: int | None,
        title: str | None,
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
    ) -> None:
        """Makes a session of another's messages, as the core does."""
        self._recover(session_id)
        fork = partial(self._core.fork, session_id, child_id, at, title, now=now)
        self._mended(session_id, partial(fork, timeout_s=timeout_s, policy=policy))

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored; `None` where it cannot be read."""
        return self._read(session_id, partial(self._core.document, session_id), None)

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with its snapshots; `None` where it cannot be read."""
        return self._read(session_id, partial(self._core.portable, session_id), None)

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages; none where they cannot be read."""
        return self._read(
            session_id, partial(self._core.chat_history, session_id, max_messages), []
        )

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns what a model needs to go on; nothing where it cannot be read."""
        read = partial(self._core.working_history, session_id, max_messages)
        return self._read(session_id, partial(read, with_archive=with_archive), [])

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one; none where they cannot be read."""
        return self._read(session_id, partial(self._core.window, session_id, around, window), [])

    def archived(self, session_id: str) -> int:
        """Returns how many messages were moved out of the window."""
        if not isinstance(self._core, ChatStore):
            return 0
        try:
            return self._core.archived(session_id)
        except (SessionError, ValueError):
            # Whoever reads the session is told.
            return 0

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, and tells of files that it leaves out for the first time."""
        rows = self._core.rows(limit, now=now)
        unreadable = dict(self._core.unreadable(now=now))
        for path in unreadable.keys() - self._known:
            stem = path.rpartition("/")[2].removesuffix(".json")
            self._report(PersistFailure(stem, f"corrupt session file: {unreadable[path]}"))
        self._known = frozenset(unreadable)
        return rows

    def preview(
        self,
        session_id: str,
        edits: list[Edit],
        *,
        now: float,
        policy: Policy | None,
    ) -> tuple[str, dict[str, object]] | None:
        """Returns the file that changes would write and its document; `None` if nothing changes."""
        if self._rescue is None:
            return None
        preview = partial(self._rescue.preview, session_id, edits, now=now, policy=policy)
        return self._mended(session_id, preview)

    def put(self, path: str, document: object) -> None:
        """Puts a document in the place of a file, for whoever holds its lock."""
        if self._rescue is not None:
            self._rescue.put(path, _spelled(document))

    def salvage(self, session_id: str, edits: list[Edit], error: str) -> None:
        """Spills the message that changes would have added, and reports what happened."""
        words = {edit[0]: edit[1:] for edit in edits}
        message = words["append"][0] if "append" in words else None
        if not isinstance(message, dict) or self._rescue is None:
            self._report(PersistFailure(session_id, error))
            return
        path = None
        try:
            path = self._rescue.keep(session_id, _spelled(message), now=time.time())
        except (SessionError, TypeError, ValueError) as failed:
            error = f"{error}; and not spilled: {failed}"
        role, content = str(message.get("role") or ""), str(message.get("content") or "")
        self._report(PersistFailure(session_id, error, role, content, path is not None, path))

    def _read(self, session_id: str, read: Callable[[], T], nothing: T) -> T:
        self._recover(session_id)
        try:
            return self._mended(session_id, read)
        except (SessionError, ValueError) as error:
            logger.error("cannot read session %r: %s", session_id, error)  # noqa: TRY400
            return nothing

    def _mended(self, session_id: str, call: Callable[[], T]) -> T:
        """Calls again once a file that is no session is out of the way."""
        try:
            return call()
        except SessionDamagedError as damage:
            if damage.path is None or self._rescue is None:
                raise
            aside = self._rescue.set_aside(damage.path, now=time.time(), timeout_s=self._timeout_s)
            told = f"corrupt session file: {damage}"
            is_kept = aside is not None
            self._report(PersistFailure(session_id, told, spilled=is_kept, spill_path=aside))
        return call()

    def _recover(self, session_id: str) -> None:
        if self._rescue is None:
            return
        recover = partial(self._rescue.recover, session_id, now=time.time())
        try:
            self._mended(
                session_id, partial(recover, timeout_s=self._timeout_s, policy=self._policy)
            )
        except (SessionError, ValueError) as error:
            # What was spilled stays where it is, for the next call.
            logger.error("cannot recover messages of %r: %s", session_id, error)  # noqa: TRY400


def _spelled(value: object) -> object:
    """Returns a value as the bytes of the JSON that Python writes of it; plain ones as they are."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, list | tuple) and all(type(item) is str for item in value):
        return list(value)
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return list(map(_spelled, value))
    return json.dumps(value).encode()


__all__ = ["LenientChat", "PersistFailure"]

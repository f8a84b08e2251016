"""A chat store by the contract of the peer: damage and failed writes are answers, not errors."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from amberlog._core import ChatRescue, ChatStore
from amberlog.errors import SessionDamagedError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from amberlog.chat._cores import KinCore

P = ParamSpec("P")
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
        policy: tuple[str, int | None],
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
        edits: list[tuple[object, ...]],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> bool | None:
        """Makes changes in one write; `None` where they are not made."""
        self._recover(session_id)
        write = self._core.edit
        try:
            try:
                return self._mended(
                    session_id, write, session_id, edits, now=now, timeout_s=timeout_s, policy=policy
                )
            except (TypeError, ValueError):
                # What Python's writer of JSON can write, the peer stores.
                spelled = [tuple(map(_spelled, edit)) for edit in edits]
                return self._mended(
                    session_id, write, session_id, spelled, now=now, timeout_s=timeout_s, policy=policy
                )
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
        mutate: Callable[[dict[str, object]], dict[str, object] | None],
        **options: object,
    ) -> bool:
        """Puts another document in the place of one, as the core does."""
        change: Callable[..., bool] = self._core.change
        return self._mended(session_id, change, session_id, mutate, **options)

    def fork(self, session_id: str, *arguments: object, **options: object) -> None:
        """Makes a session of another's messages, as the core does."""
        self._recover(session_id)
        fork: Callable[..., None] = self._core.fork
        self._mended(session_id, fork, session_id, *arguments, **options)

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored; `None` where it cannot be read."""
        return self._read(session_id, None, self._core.document)

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with its snapshots; `None` where it cannot be read."""
        return self._read(session_id, None, self._core.portable)

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages; none where they cannot be read."""
        return self._read(session_id, [], self._core.chat_history, max_messages)

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns what a model needs to go on; nothing where it cannot be read."""
        read = self._core.working_history
        return self._read(session_id, [], read, max_messages, with_archive=with_archive)

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one; none where they cannot be read."""
        return self._read(session_id, [], self._core.window, around, window)

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
        edits: list[tuple[object, ...]],
        *,
        now: float,
        policy: tuple[str, int | None] | None,
    ) -> tuple[str, dict[str, object]] | None:
        """Returns the file that changes would write and its document; `None` if nothing changes."""
        if self._rescue is None:
            return None
        preview = self._rescue.preview
        return self._mended(session_id, preview, session_id, edits, now=now, policy=policy)

    def put(self, path: str, document: object) -> None:
        """Puts a document in the place of a file, for whoever holds its lock."""
        if self._rescue is not None:
            self._rescue.put(path, _spelled(document))

    def salvage(self, session_id: str, edits: list[tuple[object, ...]], error: str) -> None:
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

    def _read(
        self, session_id: str, nothing: T, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._recover(session_id)
        try:
            return self._mended(session_id, read, session_id, *args, **kwargs)  # type: ignore[arg-type]
        except (SessionError, ValueError) as error:
            logger.error("cannot read session %r: %s", session_id, error)  # noqa: TRY400
            return nothing

    def _mended(
        self, session_id: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Calls again once a file that is no session is out of the way."""
        try:
            return call(*args, **kwargs)
        except SessionDamagedError as damage:
            if damage.path is None or self._rescue is None:
                raise
            aside = self._rescue.set_aside(
                damage.path, now=time.time(), timeout_s=self._timeout_s
            )
            error = f"corrupt session file: {damage}"
            self._report(
                PersistFailure(session_id, error, spilled=aside is not None, spill_path=aside)
            )
        return call(*args, **kwargs)

    def _recover(self, session_id: str) -> None:
        if self._rescue is None:
            return
        recover = self._rescue.recover
        try:
            self._mended(
                session_id,
                recover,
                session_id,
                now=time.time(),
                timeout_s=self._timeout_s,
                policy=self._policy,
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

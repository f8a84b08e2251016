"""Sessions with parents, forks and snapshots to come back to."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, cast

from amberlog.chat.messages import SessionData
from amberlog.chat.store import DefaultSessionStore
from amberlog.chat.title import first_exchange, title_of
from amberlog.config import chat_session_dir
from amberlog.errors import SessionNotFoundError

if TYPE_CHECKING:
    from amberlog.chat._cores import KinCore
    from amberlog.chat.title import TitleWriter


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass
class SessionSnapshot:
    """A moment of a session to come back to.

    Attributes:
        id: Its id, one in the session.
        session_id: The session.
        message_index: The place of the last message that there was; -1 when there was none.
        created_at: Seconds since 1970.
        label: What people call it.
        metadata: The caller's own.
        transcript: What there was: `messages`, `archived_messages` and `last_compaction`; `None`
            in snapshots of an old form, which only counted the messages.
        invalidated: Whether one of the old form counts messages that have changed since.
    """

    id: str = field(default_factory=_new_id)
    session_id: str = ""
    message_index: int = 0
    created_at: float = field(default_factory=time.time)
    label: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    transcript: dict[str, object] | None = None
    invalidated: bool = False

    def to_dict(self) -> dict[str, object]:
        """Returns the snapshot in its portable form."""
        stored = {one.name: getattr(self, one.name) for one in fields(self)}
        left_out = {"transcript": self.transcript is None, "invalidated": not self.invalidated}
        return {name: value for name, value in stored.items() if not left_out.get(name)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> SessionSnapshot:
        """Builds a snapshot from its portable form, in which every key may be missing."""
        known = {one.name for one in fields(cls)}
        return cls(**{key: data[key] for key in data if key in known})  # type: ignore[arg-type]


@dataclass
class ExtendedSessionData(SessionData):
    """A session with its place among others.

    Attributes:
        parent_id: The session that it was cut from, or made under.
        forked_from_message_id: The place of the last message that it has from its parent.
        children_ids: The sessions that were cut from it, or made under it.
        snapshots: The moments that it can come back to.
        is_shared: Whether it is open to others.
        title: What people call it.
    """

    parent_id: str | None = None
    forked_from_message_id: str | None = None
    children_ids: list[str] = field(default_factory=list)
    snapshots: list[SessionSnapshot] = field(default_factory=list)
    is_shared: bool = False
    title: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the session in its portable form, the transcripts of snapshots included."""
        return {
            **super().to_dict(),
            "parent_id": self.parent_id,
            "forked_from_message_id": self.forked_from_message_id,
            "children_ids": self.children_ids,
            "snapshots": [snapshot.to_dict() for snapshot in self.snapshots],
            "is_shared": self.is_shared,
            "title": self.title,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ExtendedSessionData:
        """Builds a session from its portable form, in which every key may be missing."""
        session = cls.from_session_data(SessionData.from_dict(data))
        for name in _OWN:
            if name in session.extra:
                setattr(session, name, session.extra.pop(name))
        raw = session.snapshots
        session.snapshots = [
            SessionSnapshot.from_dict(one) for one in raw if isinstance(one, Mapping)
        ]
        return session

    @classmethod
    def from_session_data(cls, session: SessionData) -> ExtendedSessionData:
        """Builds a session without relatives."""
        return cls(**{one.name: getattr(session, one.name) for one in fields(SessionData)})


_OWN = tuple(one.name for one in fields(ExtendedSessionData)[len(fields(SessionData)) :])


class HierarchicalSessionStore(DefaultSessionStore):
    """Sessions that know their parents and children, can be forked, and can be taken back.

    The arguments are those of `DefaultSessionStore`, whose files these are: either store leaves
    what the other wrote whole.
    """

    _core: KinCore

    def create_session(
        self,
        session_id: str | None = None,
        title: str | None = None,
        parent_id: str | None = None,
        agent_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Makes a session without messages and returns its id.

        Args:
            session_id: The id; `None` for one that nobody has.
            title: What people call it.
            parent_id: The session under which it is made.
            agent_name: The agent that will talk.
            metadata: The caller's own.

        Raises:
            SessionExistsError: There is such a session; it is left as it is.
            SessionNotFoundError: There is no such parent; nothing is made.
            ValueError: The session would be its own parent.
        """
        made = session_id or _new_id()
        if parent_id == made:
            raise ValueError(f"a session cannot be its own parent: {made!r}")
        if parent_id and not self.session_exists(parent_id):
            path = self._core.path(parent_id)
            raise SessionNotFoundError(f"there is no session {parent_id!r}", path=path)
        session = ExtendedSessionData(
            made,
            title=title,
            parent_id=parent_id,
            agent_name=agent_name,
            metadata=dict(metadata or {}),
        )
        self._put(made, session.to_dict())
        if parent_id:
            self._core.adopt(parent_id, made, now=time.time(), timeout_s=self.lock_timeout)
        return made

    def fork_session(
        self, session_id: str, from_message_index: int | None = None, title: str | None = None
    ) -> str:
        """Makes a session of another's messages and returns its id; neither changes the other.

        The archive goes with them, and the checkpoint where it speaks of no later message.

        Args:
            session_id: The session that is forked.
            from_message_index: The place of the last message that the fork has; `None` for all.
            title: What people call the fork; `None` for `Fork of` and the parent's title or id.

        Raises:
            SessionNotFoundError: There is no such session.
            ValueError: There is no such message.
        """
        made = _new_id()
        self._core.fork(
            session_id,
            made,
            from_message_index,
            title or None,
            now=time.time(),
            timeout_s=self.lock_timeout,
            policy=(self.retention, self.active_window),
        )
        return made

    def get_extended_session(
        self,
        session_id: str,
        force_reload: bool = False,  # noqa: ARG002, FBT001, FBT002  # the peer's signature
    ) -> ExtendedSessionData:
        """Returns a session with its relatives; one that is not there is empty.

        What is returned is always the file's; `force_reload` changes nothing.

        Raises:
            SessionDamagedError: The file is no session; it is left as it is.
            ValueError: Its snapshots point to records that it does not have.
        """
        stored = self._core.portable(session_id)
        if stored is None:
            return ExtendedSessionData(session_id)
        return ExtendedSessionData.from_dict(stored)

    def get_children(self, session_id: str) -> list[str]:
        """Returns the sessions that were cut from a session, or made under it."""
        return self.get_extended_session(session_id).children_ids

    def get_parent(self, session_id: str) -> str | None:
        """Returns the session that a session was cut from, or made under."""
        return self.get_extended_session(session_id).parent_id

    def get_session_tree(self, session_id: str) -> dict[str, object]:
        """Returns a session's `session_id`, `title`, `message_count` and `children`, each the same.

        Raises:
            ValueError: A session is among its own children.
        """
        root, children = self._node(session_id)
        # Not by recursion: a chain of forks may be longer than Python's stack.
        path: list[tuple[dict[str, object], Iterator[str]]] = [(root, iter(children))]
        ids = [session_id]
        while path:
            node, rest = path[-1]
            child_id = next(rest, None)
            if child_id is None:
                path.pop()
                ids.pop()
                continue
            if child_id in ids:
                raise ValueError(f"a session is among its own children: {child_id!r}")
            child, children = self._node(child_id)
            cast("list[object]", node["children"]).append(child)
            path.append((child, iter(children)))
            ids.append(child_id)
        return root

    def create_snapshot(
        self,
        session_id: str,
        label: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Keeps a session as it is now, to come back to, and returns the snapshot's id.

        What was kept before is not kept twice: a snapshot costs what is new.

        Args:
            session_id: The session.
            label: What people call the snapshot.
            metadata: The caller's own.
        """
        made = _new_id()
        given = dict(metadata or {})
        self._change(session_id, ("snapshot", made, session_id, time.time(), label, given))
        return made

    def get_snapshots(self, session_id: str) -> list[SessionSnapshot]:
        """Returns a session's snapshots, oldest first."""
        return self.get_extended_session(session_id).snapshots

    def revert_to_snapshot(self, session_id: str, snapshot_id: str) -> bool:
        """Brings messages, archive and checkpoint of a snapshot back; later snapshots stay.

        Returns:
            Whether there was such a snapshot; else nothing has changed.
        """
        return self._change(session_id, ("revert_to_snapshot", snapshot_id))

    def revert_to_message(self, session_id: str, message_index: int) -> bool:
        """Drops the messages after one, and a checkpoint that speaks of them.

        Args:
            session_id: The session.
            message_index: The place of the message in the window.

        Returns:
            `True`. `False`, and nothing has changed, only where the store is not strict and there
            is no such message.

        Raises:
            ValueError: There is no such message; it says which there are. Nothing has changed.
        """
        reverted = self._change(session_id, ("revert_to_message", message_index))
        if not reverted and self.strict:
            count = len(self.get_extended_session(session_id).messages)
            there = f"has 0 to {count - 1}" if count else "is empty"
            raise ValueError(f"message_index: {message_index}, where the window {there}")
        return reverted

    def share_session(self, session_id: str) -> bool:
        """Marks a session as open to others."""
        return self._edit(session_id, ("set", ["is_shared"], True))

    def unshare_session(self, session_id: str) -> bool:
        """Takes the mark away."""
        return self._edit(session_id, ("set", ["is_shared"], False))

    def is_shared(self, session_id: str) -> bool:
        """Returns whether a session is open to others."""
        return self.get_extended_session(session_id).is_shared

    def set_title(self, session_id: str, title: str) -> bool:
        """Sets what people call a session."""
        return self._edit(session_id, ("set", ["title"], title))

    async def auto_title(self, session_id: str, write: TitleWriter | None = None) -> bool:
        """Gives a session without a title one, after the first exchange.

        Args:
            session_id: The session.
            write: Makes a title of what the user said first and the answer, such as a model;
                `None` for the first sentence of what the user said.

        Returns:
            Whether it got one: not before there is an answer, nor where somebody was quicker.
        """
        session = await asyncio.to_thread(self.get_extended_session, session_id)
        exchange = first_exchange(session)
        if exchange is None or (session.title or "").strip():
            return False
        written = await write(*exchange) if write else title_of(exchange[0])
        title = (written or "").strip()
        return bool(title) and await asyncio.to_thread(self._title, session_id, title)

    def _title(self, session_id: str, title: str) -> bool:
        def titled(stored: dict[str, object]) -> dict[str, object] | None:
            is_free = not str(stored.get("title") or "").strip()
            return {**stored, "title": title} if is_free else None

        return self._core.change(session_id, titled, now=time.time(), timeout_s=self.lock_timeout)

    def export_session(
        self,
        session_id: str,
        *,
        include_lineage: bool = True,  # noqa: ARG002  # the base's signature
    ) -> dict[str, object]:
        """Returns a session as `to_dict` does, its snapshots included, for `import_session`."""
        return self.get_extended_session(session_id).to_dict()

    def import_session(self, data: Mapping[str, object], new_session_id: str | None = None) -> str:
        """Makes a session of what `export_session` returned, and returns its id.

        Snapshots and title come with it, relatives do not.

        Args:
            data: The exported session.
            new_session_id: The id; `None` for one that nobody has.

        Raises:
            SessionExistsError: There is such a session; it is left as it is.
        """
        made = new_session_id or _new_id()
        alone: dict[str, object] = {
            "parent_id": None,
            "children_ids": [],
            "forked_from_message_id": None,
        }
        self._put(made, {**data, "session_id": made, **alone})
        return made

    def _node(self, session_id: str) -> tuple[dict[str, object], list[str]]:
        session = self.get_extended_session(session_id)
        node: dict[str, object] = {
            "session_id": session.session_id,
            "title": session.title,
            "message_count": len(session.messages),
            "children": [],
        }
        return node, session.children_ids

    def _put(self, session_id: str, stored: dict[str, object]) -> None:
        self._core.change(
            session_id,
            lambda _: stored,
            now=time.time(),
            timeout_s=self.lock_timeout,
            only_new=True,
        )

    def _change(self, session_id: str, edit: tuple[object, ...]) -> bool:
        """Makes one change without a look at the window, and returns whether there was any."""
        return self._core.edit(session_id, [edit], now=time.time(), timeout_s=self.lock_timeout)


_default_store: HierarchicalSessionStore | None = None
_default_lock = threading.Lock()


def get_hierarchical_session_store() -> HierarchicalSessionStore:
    """Returns the store of the directory that `amberlog.config.chat_session_dir()` now names.

    It is one for the process, until the directory changes.
    """
    global _default_store  # noqa: PLW0603  # one for the process, made on first use
    directory = str(chat_session_dir())
    with _default_lock:
        if _default_store is None or _default_store.session_dir != directory:
            _default_store = HierarchicalSessionStore(directory)
        return _default_store


__all__ = [
    "ExtendedSessionData",
    "HierarchicalSessionStore",
    "SessionSnapshot",
    "get_hierarchical_session_store",
]

"""The default store of chat sessions: JSON files that can be listed, routed, searched, carried."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, cast

from amberlog.chat import portable
from amberlog.chat._conversations import (
    DEFAULT_CACHE_MAXSIZE,
    DEFAULT_LOCK_TIMEOUT,
    DEFAULT_MAX_MESSAGES,
    RETENTION_COMPACT,
    RETENTION_KEEP_ALL,
    RETENTION_TRUNCATE,
    Conversations,
)
from amberlog.chat.messages import SessionData
from amberlog.chat.protocols import ImportReport, SessionHit, SessionSummary
from amberlog.config import chat_session_dir

if TYPE_CHECKING:
    from collections.abc import Mapping


# What makes a session where it is missing, and changes nothing else.
_TOUCH: tuple[object, ...] = ("merge", ["metadata"], {}, {})
_HALVES = re.compile("[\ud800-\udfff]")
_ROUTED = ("agent_id", "agent_name", "user_id")


def _whole(text: str) -> str:
    """Returns text with U+FFFD for each half of a character."""
    return _HALVES.sub("\ufffd", text)


class DefaultSessionStore(Conversations):
    """Sessions of messages, each a JSON file in one directory; also found by what they hold.

    What is asked about all sessions costs a look at the directory while nothing was written, and
    else a look at each file, of which only changed ones are read; `search` reads all. A file that
    is no session is left out of every answer, and listed by `unreadable_sessions`.

    The arguments are those of `Conversations`.
    """

    def list_sessions(self, limit: int | None = 50) -> list[dict[str, object]]:
        """Returns sessions, those last written first.

        Args:
            limit: How many at most; `None` is all.

        Returns:
            For each: `session_id` (also as `id`), `agent_name`, `title`, `agent_id`, `source`,
            `parent_id`, `parent_session_id`, `agent_key`, `created_at`, `updated_at`,
            `message_count`, `model`, `total_tokens`, `cost`.
        """
        return self._core.rows(limit, now=time.time())

    def unreadable_sessions(self) -> list[tuple[str, str]]:
        """Returns the files that are no sessions: their paths, and why they cannot be read."""
        return self._core.unreadable(now=time.time())

    def recent(self, *, limit: int = 10) -> list[SessionSummary]:
        """Returns the sessions that were last written.

        Args:
            limit: How many at most.
        """
        return [
            SessionSummary(
                session_id=str(row["session_id"]),
                title=str(row["agent_name"] or row["session_id"]),
                when=cast("str | None", row["updated_at"] or row["created_at"]),
                message_count=cast("int", row["message_count"]),
            )
            for row in self.list_sessions(limit)
        ]

    def search(self, query: str, *, limit: int = 5, window: int = 5) -> list[SessionHit]:
        """Returns the sessions that best hold the words, archived messages included.

        A word counts wherever it stands, within another word too; the words together count more.
        Sessions that went on with another count as one, those without a conversation for less.

        Args:
            query: Words; no character has a meaning of its own. A blank query finds nothing.
            limit: How many sessions at most, and at least one.
            window: How many messages are shown before and after the best one.
        """
        text = _whole(query or "")
        found = self._core.search(text, limit=limit, window=window, now=time.time())
        return [SessionHit(**hit) for hit in found]  # type: ignore[arg-type]

    def window(
        self, session_id: str, around_message_id: str | None = None, *, window: int = 5
    ) -> list[dict[str, object]]:
        """Returns messages around one of a session, archived messages counted first.

        Args:
            session_id: The session.
            around_message_id: The message's place; the last one when it is no number.
            window: How many messages before and after it.
        """
        try:
            around = None if around_message_id is None else int(around_message_id)
        except (TypeError, ValueError):
            around = None
        return self._core.window(session_id, around, window)

    def list_sessions_by_agent(self, agent_name: str, limit: int | None = 50) -> list[str]:
        """Returns the ids of an agent's sessions, by the names of their files."""
        return self._core.ids_where("agent_name", agent_name, now=time.time())[:limit]

    def get_sessions_by_agent(self, agent_name: str, limit: int = 10) -> list[SessionData]:
        """Returns an agent's sessions."""
        return [self.get_session(found) for found in self.list_sessions_by_agent(agent_name, limit)]

    def get_agent_chat_history(
        self, agent_name: str, max_messages: int | None = None, max_sessions: int = 5
    ) -> list[dict[str, object]]:
        """Returns messages of an agent's sessions, each with `session_id` and `agent_name`."""
        return [
            {**message, "session_id": session_id, "agent_name": agent_name}
            for session_id in self.list_sessions_by_agent(agent_name, max_sessions)
            for message in self.get_chat_history(session_id, max_messages)
        ]

    def get_by_gateway_session(self, gateway_session_id: str) -> SessionData | None:
        """Returns the session that an outside id leads to: of several the last one written."""
        found = self._core.route(gateway_session_id, now=time.time())
        return None if found is None else SessionData.of_text(*found)

    def list_sessions_by_gateway_agent(self, agent_id: str, limit: int | None = 50) -> list[str]:
        """Returns the ids of the sessions of a gateway's agent, by the names of their files."""
        return self._core.ids_where("agent_id", agent_id, now=time.time())[:limit]

    def set_gateway_info(
        self, session_id: str, gateway_session_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """Lets an outside id, or a gateway's agent, lead to a session; what is not given stays.

        An outside id leads to the session that it was last given to.
        """
        self._set(session_id, gateway_session_id=gateway_session_id, agent_id=agent_id)
        for other in self._linked(gateway_session_id) if gateway_session_id else []:
            if other != session_id:
                self._edit(other, ("set", ["gateway_session_id"], None))
        return True

    def clear_gateway_info(self, session_id: str) -> bool:
        """Unlinks a session from its outside id and from its gateway's agent."""
        paths = (["gateway_session_id"], ["agent_id"])
        return self._edit(session_id, *(("set", path, None) for path in paths))

    def set_agent_info(
        self, session_id: str, agent_name: str | None = None, user_id: str | None = None
    ) -> bool:
        """Notes who talks in a session; what is not given stays."""
        return self._set(session_id, agent_name=agent_name, user_id=user_id)

    def update_session_metadata(self, session_id: str, **fields: object) -> bool:
        """Sets keys of a session's metadata; `None` leaves a key as it is.

        `agent_id`, `agent_name` and `user_id` are set for the session too.
        """
        given = {key: value for key, value in fields.items() if value is not None}
        if not fields:
            return True
        inner = (("set", ["metadata", key], value) for key, value in given.items())
        outer = (("set", [key], given[key]) for key in _ROUTED if key in given)
        return self._edit(session_id, _TOUCH, *inner, *outer)

    def merge_session_metadata_map(
        self,
        session_id: str,
        key: str,
        updates: Mapping[str, object],
        *,
        defaults: Mapping[str, object] | None = None,
    ) -> bool:
        """Sets keys of a mapping in a session's metadata.

        Args:
            session_id: The session.
            key: Where in the metadata the mapping is.
            updates: What its keys get.
            defaults: What keys get that it does not have.
        """
        return self._edit(
            session_id, ("merge", ["metadata", key], dict(defaults or {}), dict(updates))
        )

    def rename_session(self, session_id: str, title: str) -> bool:
        """Gives a session a title; a blank one takes it away."""
        path = ["metadata", "title"]
        title = (title or "").strip()
        return self._edit(session_id, _TOUCH, ("set", path, title) if title else ("remove", path))

    def export_session(self, session_id: str, *, include_lineage: bool = True) -> dict[str, object]:
        """Returns a session in the portable form: `version` and `sessions`, JSON values all.

        Args:
            session_id: The session; of one that is not there `sessions` is empty.
            include_lineage: Whether the sessions go with it that are one conversation with it.

        Raises:
            SessionDamagedError: A file is no session, and may be one of them.
        """
        sessions: list[dict[str, object]] = []
        if self.session_exists(session_id):
            sessions.append(self.get_session(session_id).to_dict())
            if include_lineage:
                sessions += self._core.documents(session_id, now=time.time())
        return {"version": portable.VERSION, "sessions": sessions}

    def export_all(self) -> dict[str, object]:
        """Returns all sessions in the portable form, with everything that their files hold.

        Raises:
            SessionDamagedError: A file is no session: no backup is better than half of one.
        """
        return {"version": portable.VERSION, "sessions": self._core.documents(now=time.time())}

    def import_sessions(
        self,
        payload: Mapping[str, object],
        *,
        max_sessions: int = 10_000,
        reset_live_fields: bool = True,
        overwrite: bool = False,
    ) -> ImportReport:
        """Writes the sessions of a portable form, whole and with the times that they have.

        What cannot be imported is skipped, and why is reported; nothing is written of it.

        Args:
            payload: What `export_session` or `export_all` returned.
            max_sessions: How many are written at most.
            reset_live_fields: Whether they lose their outside id and their gateway's agent, which
                may lead to a live conversation elsewhere.
            overwrite: Whether a session that exists is replaced.
        """
        return portable.import_sessions(
            payload, self._restore, max_sessions, reset=reset_live_fields, overwrite=overwrite
        )

    def _restore(self, session_id: str, stored: dict[str, object], overwrite: bool) -> None:  # noqa: FBT001  # a callback's argument
        self._core.change(
            session_id,
            lambda _: stored,
            now=time.time(),
            timeout_s=self.lock_timeout,
            only_new=not overwrite,
            keep_time=True,
        )

    def _set(self, session_id: str, **fields: str | None) -> bool:
        edits = (("set", [key], value) for key, value in fields.items() if value)
        return self._edit(session_id, _TOUCH, *edits)

    def _linked(self, gateway_session_id: str) -> list[str]:
        return self._core.ids_where("gateway_session_id", gateway_session_id, now=time.time())


_default_store: DefaultSessionStore | None = None
_default_lock = threading.Lock()


def get_default_session_store() -> DefaultSessionStore:
    """Returns the store of the directory that `amberlog.config.chat_session_dir()` now names.

    It is one for the process, until the directory changes.
    """
    global _default_store  # noqa: PLW0603  # one for the process, made on first use
    directory = str(chat_session_dir())
    with _default_lock:
        if _default_store is None or _default_store.session_dir != directory:
            _default_store = DefaultSessionStore(directory)
        return _default_store


__all__ = [
    "DEFAULT_CACHE_MAXSIZE",
    "DEFAULT_LOCK_TIMEOUT",
    "DEFAULT_MAX_MESSAGES",
    "RETENTION_COMPACT",
    "RETENTION_KEEP_ALL",
    "RETENTION_TRUNCATE",
    "DefaultSessionStore",
    "get_default_session_store",
]

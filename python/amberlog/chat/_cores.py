"""What a store asks of the home that its sessions live in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    Policy = tuple[str, int | None]
    Mutate = Callable[[dict[str, object]], dict[str, object] | None]


class ChatCore(Protocol):
    """A home of sessions; its verbs are those of `amberlog._core.ChatStore`."""

    def edit(
        self,
        session_id: str,
        edits: list[tuple[object, ...]],
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
    ) -> bool:
        """Makes changes in one write, and returns whether there was anything to change."""
        ...

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
        """Puts what `mutate` returns in the place of a document; nothing where it is `None`."""
        ...

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored."""
        ...

    def documents(self, session_id: str | None = None, *, now: float) -> list[dict[str, object]]:
        """Returns all sessions, or those that are one conversation with a session."""
        ...

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""
        ...

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns the summary that stands in for older messages, and what came after it."""
        ...

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one, archived ones counted first."""
        ...

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, the sessions last written first."""
        ...

    def ids_where(
        self, field: str, wanted: str, limit: int | None = None, *, now: float
    ) -> list[str]:
        """Returns the ids of the sessions of an `agent_name`, `gateway_session_id`, `agent_id`."""
        ...

    def route(
        self, gateway_session_id: str, *, now: float
    ) -> tuple[dict[str, object], bytes] | None:
        """Returns the session that an outside id leads to: short values of it, and all as JSON.

        Without short values it is taken apart at once.
        """
        ...

    def unreadable(self, *, now: float) -> list[tuple[str, str]]:
        """Returns what holds no session, and why."""
        ...

    def search(self, query: str, *, limit: int, window: int, now: float) -> list[dict[str, object]]:
        """Returns the sessions that best hold the words."""
        ...

    def path(self, session_id: str) -> str:
        """Returns the file of a session, or the one that it would get."""
        ...

    def exists(self, session_id: str) -> bool:
        """Returns whether there is a session, readable or not."""
        ...

    def delete(self, session_id: str, *, timeout_s: float) -> bool:
        """Removes a session, and returns whether there was one."""
        ...

    def forget(self, session_id: str | None = None) -> None:
        """Lets go of what is kept in memory."""
        ...


class IndexedCore(ChatCore, Protocol):
    """A home that keeps an index of its sessions."""

    def index_fault(self) -> str | None:
        """Returns why the index could not be used when it was last asked."""
        ...

    def settle_index(self, *, now: float) -> None:
        """Brings the index level, and what the peer reads of it."""
        ...

    def ask_index(self, statement: str, values: list[object]) -> list[list[object]]:
        """Runs a statement of somebody else's on the index, and returns its rows."""
        ...


class KinCore(ChatCore, Protocol):
    """A home whose sessions can be cut from each other."""

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with the transcripts of its snapshots in their places."""
        ...

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
        """Makes a session of another's messages, and notes it there."""
        ...

    def adopt(self, session_id: str, child_id: str, *, now: float, timeout_s: float) -> None:
        """Notes a child in a session."""
        ...


__all__ = ["ChatCore", "IndexedCore", "KinCore"]

"""The part of the compiled core that keeps chat sessions."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, final

_ChatEdit: TypeAlias = tuple[object, ...]

@final
class ChatStore:
    """The chat sessions of one directory. Safe to share between threads, and over a fork.

    Times are seconds since 1970. A value that would not come back equal is refused.
    """

    def __new__(
        cls,
        directory: Path,
        *,
        sync: bool,
        kept: int,
        index: Path | None = None,
        full_text: bool = True,
    ) -> ChatStore:
        """Opens a directory, which is made where it is missing, with an index or without one."""

    def edit(
        self,
        session_id: str,
        edits: list[_ChatEdit],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> bool:
        """Makes changes in one write, and returns whether there was anything to change."""

    def change(
        self,
        session_id: str,
        mutate: Callable[[dict[str, object]], dict[str, object] | None],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
        only_new: bool = False,
        keep_time: bool = False,
    ) -> bool:
        """Puts what `mutate` returns in the place of a document; nothing where it is `None`."""

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored."""

    def documents(self, session_id: str | None = None, *, now: float) -> list[dict[str, object]]:
        """Returns all sessions, or those that are one conversation with a session."""

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with the transcripts of its snapshots in their places."""

    def fork(
        self,
        session_id: str,
        child_id: str,
        at: int | None,
        title: str | None,
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> None:
        """Makes a session of another's messages, and notes it there."""

    def adopt(self, session_id: str, child_id: str, *, now: float, timeout_s: float) -> None:
        """Notes a child in a session."""

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns the summary that stands in for older messages, and what came after it."""

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one, archived ones counted first."""

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, the sessions last written first."""

    def ids_where(
        self, field: str, wanted: str, limit: int | None = None, *, now: float
    ) -> list[str]:
        """Returns the ids of the sessions of an `agent_name`, `gateway_session_id`, `agent_id`."""

    def route(
        self, gateway_session_id: str, *, now: float
    ) -> tuple[dict[str, object], bytes] | None:
        """Returns the session that an outside id leads to: its short values, and all of it as JSON.

        There are no short values where one is missing, or where the session has a checkpoint.
        """

    def index_fault(self) -> str | None:
        """Returns why the index could not be used when it was last asked."""

    def settle_index(self, *, now: float) -> None:
        """Brings the index level, and what the peer reads of it."""

    def ask_index(self, statement: str, values: list[object]) -> list[list[object]]:
        """Runs a statement of somebody else's on the index, and returns its rows."""

    def unreadable(self, *, now: float) -> list[tuple[str, str]]:
        """Returns the files that are no sessions, and why."""

    def search(self, query: str, *, limit: int, window: int, now: float) -> list[dict[str, object]]:
        """Returns the sessions that best hold the words."""

    def archived(self, session_id: str) -> int:
        """Returns how many messages were moved out of the window."""

    def path(self, session_id: str) -> str:
        """Returns the file of a session, or the one that it would get."""

    def exists(self, session_id: str) -> bool:
        """Returns whether a session has a file."""

    def delete(self, session_id: str, *, timeout_s: float) -> bool:
        """Removes a session, and returns whether there was one."""

    def forget(self, session_id: str | None = None) -> None:
        """Lets go of what is kept in memory."""

@final
class ChatRescue:
    """What is kept of a store's sessions that cannot be read or written."""

    def __new__(cls, store: ChatStore, spills: Path) -> ChatRescue:
        """Names the directory of spilled messages, which need not exist."""

    def keep(self, session_id: str, message: object, *, now: float) -> str:
        """Spills a message, and returns the file; a message is a dict, or the bytes of its JSON."""

    def recover(
        self,
        session_id: str,
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> int:
        """Gives a session what was spilled for it, and returns how many files that were."""

    def set_aside(self, path: str, *, now: float, timeout_s: float) -> str | None:
        """Renames a damaged file, and returns its new name; `None` when it is not damaged."""

    def preview(
        self,
        session_id: str,
        edits: list[_ChatEdit],
        *,
        now: float,
        policy: tuple[str, int | None] | None = None,
    ) -> tuple[str, dict[str, object]] | None:
        """Returns the file that changes would write, and its document."""

    def put(self, path: str, document: object) -> None:
        """Puts a document in the place of a file, for whoever holds its lock."""

@final
class ChatLock:
    """The lock around reading and replacing one file; not reentrant."""

    def __new__(cls, path: Path, *, timeout_s: float) -> ChatLock:
        """Names the file; nothing is locked yet."""

    def acquire(self) -> bool:
        """Waits for the lock, and returns whether it is held."""

    def release(self) -> None:
        """Lets go of the lock."""

@final
class TranscriptStore:
    """The chat sessions of one database, each a row; its verbs are those of `ChatStore`.

    Safe to share between threads, and over a fork unless it is in memory.
    """

    def __new__(
        cls, path: Path, directory: Path, *, sync: bool, kept: int, now: float
    ) -> TranscriptStore:
        """Opens a database; a new one gets the documents of `directory` as its sessions."""

    def edit(
        self,
        session_id: str,
        edits: list[_ChatEdit],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
    ) -> bool:
        """Makes changes in one write, and returns whether there was anything to change."""

    def change(
        self,
        session_id: str,
        mutate: Callable[[dict[str, object]], dict[str, object] | None],
        *,
        now: float,
        timeout_s: float,
        policy: tuple[str, int | None] | None = None,
        only_new: bool = False,
        keep_time: bool = False,
    ) -> bool:
        """Puts what `mutate` returns in the place of a document; nothing where it is `None`."""

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session as it is stored."""

    def documents(self, session_id: str | None = None, *, now: float) -> list[dict[str, object]]:
        """Returns all sessions, or those that are one conversation with a session."""

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages for a model."""

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns the summary that stands in for older messages, and what came after it."""

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one, archived ones counted first."""

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, the sessions last written first."""

    def ids_where(
        self, field: str, wanted: str, limit: int | None = None, *, now: float
    ) -> list[str]:
        """Returns the ids of the sessions of an `agent_name`, `gateway_session_id`, `agent_id`."""

    def route(
        self, gateway_session_id: str, *, now: float
    ) -> tuple[dict[str, object], bytes] | None:
        """Returns the session that an outside id leads to: nothing short, and all of it as JSON."""

    def unreadable(self, *, now: float) -> list[tuple[str, str]]:
        """Returns the files that are no sessions, and why."""

    def search(self, query: str, *, limit: int, window: int, now: float) -> list[dict[str, object]]:
        """Returns the sessions that best hold the words."""

    def path(self, session_id: str) -> str:
        """Returns the file of a session, or the one that it would get."""

    def exists(self, session_id: str) -> bool:
        """Returns whether a session has a file."""

    def delete(self, session_id: str, *, timeout_s: float) -> bool:
        """Removes a session, and returns whether there was one."""

    def forget(self, session_id: str | None = None) -> None:
        """Lets go of what is kept in memory."""

    def faults(self) -> list[str]:
        """Returns what SQLite finds wrong with the database, one line a fault."""

@final
class IdentityLinks:
    """One file of links, shared with other processes."""

    def __new__(cls, path: Path, *, timeout_s: float) -> IdentityLinks:
        """Names a file, which need not exist."""

    def all(self) -> list[tuple[str, str]]:
        """Returns all links in the order in which they were made."""

    def get(self, key: str) -> str | None:
        """Returns where a key leads."""

    def link(self, key: str, target: str, *, replace: bool) -> None:
        """Lets a key lead somewhere; elsewhere than it does only to replace it."""

    def unlink(self, key: str) -> None:
        """Lets a key lead nowhere."""

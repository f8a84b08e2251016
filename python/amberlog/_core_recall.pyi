"""The part of the compiled core that searches all sessions of a directory."""

from collections.abc import Callable, Sequence
from typing import TypedDict, final

class BlockFields(TypedDict):
    """A block that was found, in the fields of `RecallHit`."""

    session: str
    path: str
    block_id: str
    agent: str
    block_type: str
    round_num: int
    block_num: int
    turn: int | None
    ts: float
    event_id: int
    event_key: str
    tool_name: str
    channel: str
    content: str
    snippet: str
    score: float

class CountFields(TypedDict):
    """What an index holds, in the fields of `RecallStats`."""

    sessions: int
    blocks: int
    unreadable: int
    bytes: int
    in_memory: bool

class ReportFields(TypedDict):
    """What a refresh found and did, in the fields of `ReconcileReport`."""

    read: int
    deleted: int
    total: int
    unchanged: int
    unreadable: list[tuple[str, str]]
    elapsed_ms: float
    aborted: bool

@final
class Recall:
    """The search over one session directory. Safe to share between threads."""

    @staticmethod
    def open(directory: str) -> Recall:
        """Opens the search; nothing is read until it is asked."""

    def refresh(
        self, full: bool, workers: int | None, progress: Callable[[int, int], object] | None
    ) -> ReportFields:
        """Brings the index level with the sessions."""

    def find(
        self,
        query: str,
        most: int,
        session: str | None,
        agent: str | None,
        kinds: Sequence[str] | None,
        tool: str | None,
        since: float | None,
        until: float | None,
        turns: tuple[int, int] | None,
        by_session: bool,
        level: bool,
    ) -> list[BlockFields]:
        """Returns the best blocks, or the best block of each of the best sessions."""

    def block(self, session: str, name: str) -> BlockFields | None:
        """Returns one block of a session, as it stands there."""

    def counts(self) -> CountFields:
        """Returns what the index holds."""

    def close(self) -> None:
        """Closes the search. A second call does nothing."""

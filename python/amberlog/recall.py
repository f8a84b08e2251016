"""One query over all sessions of a directory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._core import Recall as Core
from amberlog.errors import NoEmbedderError
from amberlog.types import ReconcileReport, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import Self

    from amberlog.embedding import Embedder

RECALL_NAME = ".amberlog-recall"
"""How the directory of the index is called in a session directory; it can always be deleted."""

RECALL_MODES = ("auto", "fts", "semantic", "hybrid")
"""How a directory can be asked."""

RECALL_KINDS = ("user", "text", "tool", "trigger", "subagent", "channel", "summary")
"""What a block can be."""

_MOST = 10_000
_MINUTE_S, _HOUR_S = 60, 3_600


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A block of a session that was found.

    Attributes:
        session: The name of the session.
        path: The session's file, below the directory.
        block_id: Its name in its session, by which `read_block` reads it again, and
            `SessionMemory.read_block` too.
        agent: Whose log it is in; of a channel's message, the channel.
        block_type: One of `RECALL_KINDS`.
        round_num: The round of the agent, from 1; 0 outside of any.
        block_num: The place within the round, from 0.
        turn: The turn of the event; None where it has none.
        ts: When it happened, in seconds since 1970; 0 when that is not known.
        event_id: The event; 0 for a message of a channel.
        event_key: The key of its row.
        tool_name: The tool that was called; "" for what is no call or result.
        channel: The channel of a message, or of what a message started; else "".
        content: The whole text.
        snippet: A part of it, with the words that were found in `«»`.
        score: How well it matches; with `by_session` how well the session does.
    """

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

    @property
    def age_str(self) -> str:
        """How long ago: `12s ago`, `5m ago`, `1.2h ago`; empty when that is not known."""
        if self.ts <= 0:
            return ""
        age_s = max(0.0, time.time() - self.ts)
        if age_s < _MINUTE_S:
            return f"{int(age_s)}s ago"
        if age_s < _HOUR_S:
            return f"{int(age_s / _MINUTE_S)}m ago"
        return f"{age_s / _HOUR_S:.1f}h ago"


@dataclass(frozen=True, slots=True)
class RecallStats:
    """What the index of a directory holds.

    Attributes:
        sessions: Sessions with something to find.
        blocks: Their blocks; one that forks share is counted in each.
        unreadable: Sessions that could not be read, or not all of them.
        bytes: What the index takes on disk.
        in_memory: Whether it is kept in memory, since nothing may be written beside the sessions.
    """

    sessions: int
    blocks: int
    unreadable: int
    bytes: int
    in_memory: bool


class Recall:
    """Finds what was said in any session of a directory.

    Sessions may be open and written to meanwhile, by any process: what was committed before a
    search is found by it. The index lies in a directory beside the sessions; it is derived, and is
    made again when it is deleted, damaged or of another version. Where it cannot be written it is
    kept in memory. It may be shared between threads, and several processes may use the same one.

    Args:
        directory: The session directory.
        embedder: What would make vectors of texts. Sessions are searched together by keyword
            alone as yet, so it is not asked.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, embedder: Embedder | None = None
    ) -> None:
        self._directory = Path(os.fsdecode(directory))
        self._embedder = embedder
        self._core = Core.open(os.fsdecode(directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Recall({str(self._directory)!r})"

    @property
    def directory(self) -> Path:
        """The session directory."""
        return self._directory

    @property
    def embedder(self) -> Embedder | None:
        """What was given as the embedder."""
        return self._embedder

    def refresh(
        self,
        *,
        full: bool = False,
        workers: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> ReconcileReport:
        """Brings the index level with the sessions; every search does so first.

        Only sessions that changed are read, and of one that grew only what is new is indexed. A
        session that cannot be read is reported and not tried again until it changes; of one that
        is damaged in places the rest is found.

        Args:
            full: Begins the index anew and reads everything.
            workers: How many threads read; by default one for each processor, eight at most.
            progress: Called with the number of sessions done and to do. What it raises stops the
                work and is raised here; what was done until then stays.

        Raises:
            SessionBusyError: Another process was at it for longer than a minute.
            ValueError: `workers` is not positive.
        """
        if workers is not None and workers < 1:
            raise ValueError(f"workers: {workers} threads read nothing")
        report = self._core.refresh(full, workers, progress)
        unreadable = tuple(Unreadable(path, reason) for path, reason in report["unreadable"])
        return ReconcileReport(
            read=report["read"],
            deleted=report["deleted"],
            total=report["total"],
            unchanged=report["unchanged"],
            unreadable=unreadable,
            elapsed_ms=report["elapsed_ms"],
            aborted=report["aborted"],
        )

    def search(  # noqa: PLR0913  # these are what a search can ask for
        self,
        query: str,
        mode: str = "auto",
        k: int = 10,
        *,
        session: str | None = None,
        agent: str | None = None,
        kinds: Iterable[str] | None = None,
        tool: str | None = None,
        since: float | datetime | None = None,
        until: float | datetime | None = None,
        turns: tuple[int, int] | None = None,
        by_session: bool = False,
        level: bool = True,
    ) -> list[RecallHit]:
        """Returns the best blocks for a query, the best first.

        Words are OR-ed and ranked; a phrase stands in double quotes; no query is an error. What
        forks and copies of a session share is found once, in the one that was made last. Sessions
        that run by themselves (`source` or `automated` in their meta) count a quarter. Equal hits
        come with the newest first.

        Args:
            query: What to look for. Nothing is found for one without a word.
            mode: `auto` and `fts` search by keyword.
            k: The most hits, 10,000 at most.
            session: Only the session of exactly this name, or of this file.
            agent: Only blocks of exactly this agent, or messages of exactly this channel.
            kinds: Only blocks of these kinds; see `RECALL_KINDS`.
            tool: Only calls and results of exactly this tool.
            since: Only from this moment on; a number is in seconds since 1970.
            until: Only up to this moment.
            turns: Only from this turn to that one.
            by_session: One hit a session, its best, and sessions in the order of the sum of their
                three best blocks.
            level: Whether to look for changes on disk first, which costs a look at each file.

        Raises:
            NoEmbedderError: `semantic` or `hybrid`: there are no vectors over all sessions.
            ValueError: An argument is none of these.
        """
        if mode not in RECALL_MODES:
            raise ValueError(f"mode: {mode!r} is not one of {', '.join(RECALL_MODES)}")
        if mode in ("semantic", "hybrid"):
            raise NoEmbedderError(
                f"mode {mode!r}: all sessions are searched together by keyword alone"
            )
        if not 0 <= k <= _MOST:
            raise ValueError(f"k: {k} is not between 0 and {_MOST:,}")
        found = self._core.find(
            query,
            k,
            session,
            agent,
            _kinds(kinds),
            tool,
            _moment("since", since),
            _moment("until", until),
            turns,
            by_session,
            level,
        )
        return [RecallHit(**hit) for hit in found]

    def read_block(self, session: str, block_id: str) -> RecallHit:
        """Returns a block with its whole text, as it stands in the session now.

        Round and block are 0, and the snippet is empty: they belong to a search.

        Args:
            session: The exact name of the session, or of its file.
            block_id: The `block_id` of a hit.

        Raises:
            SessionNotFoundError: There is no session of that name.
            KeyError: The session has no such block.
        """
        found = self._core.block(session, block_id)
        if found is None:
            raise KeyError(f"{session} has no block {block_id}")
        return RecallHit(**found)

    def stats(self) -> RecallStats:
        """Returns what the index holds, without bringing it level."""
        return RecallStats(**self._core.counts())

    def close(self) -> None:
        """Closes the search. Closing twice is no error."""
        self._core.close()


def _kinds(kinds: Iterable[str] | None) -> list[str] | None:
    if kinds is None:
        return None
    if isinstance(kinds, str):
        raise TypeError("kinds: several names are expected, not one text")
    return list(kinds)


def _moment(name: str, moment: float | datetime | None) -> float | None:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{name}: a moment without a time zone is not one moment")
        return moment.timestamp()
    return None if moment is None else float(moment)


__all__ = [
    "RECALL_KINDS",
    "RECALL_MODES",
    "RECALL_NAME",
    "Recall",
    "RecallHit",
    "RecallStats",
]

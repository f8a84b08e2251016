"""Memory search: what was said and done in a session, found again by its words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from amberlog._meaning import Meaning
from amberlog.errors import SessionError
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from amberlog._core import BlockHit
    from amberlog.embedding import Embedder

MODES = ("auto", "fts", "semantic", "hybrid")
ENGINES = ("auto", "scan", "hnsw")
MINUTE, HOUR = 60, 3600
SearchMode = Literal["auto", "fts", "semantic", "hybrid"]
SearchEngine = Literal["auto", "scan", "hnsw"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A block that a search found: a piece of what was said or done.

    Attributes:
        content: Its text, whole.
        round_num: The round of its agent, from 1; 0 for what stands in none.
        block_num: Its place within the round, from 0.
        agent: The agent, or the channel of a message.
        block_type: `user`, `text`, `tool`, `trigger`, `subagent`, `channel`, `summary` or, for what
            only `SessionStore.search` finds, `other`.
        score: How well it fits; higher is better. Scores of two searches do not compare.
        ts: When it happened, in seconds since 1970; 0 when that is not known.
        tool_name: The tool that was called.
        channel: The channel of a message, or of what a message started.
        block_id: Its name, by which `SessionMemory.read_block` reads it again.
        event_id: The id of its event; 0 for a message of a channel.
        event_key: The key of its event or message; empty for an event beside the log.
        turn: The turn of its event.
        snippet: The part that holds words of the query, these between `«` and `»`, on one line.
        keyword_rank: Its rank among what the words found, from 0; None when they did not find it.
        vector_rank: Its rank among what the meaning found, from 0; None when it did not find it.
    """

    content: str
    round_num: int
    block_num: int
    agent: str
    block_type: str
    score: float
    ts: float = 0.0
    tool_name: str = ""
    channel: str = ""
    block_id: str = ""
    event_id: int = 0
    event_key: str = ""
    turn: int | None = None
    snippet: str = ""
    keyword_rank: int | None = None
    vector_rank: int | None = None

    @property
    def age_str(self) -> str:
        """How long ago it happened, as `12s ago`, `5m ago`, `1.2h ago`; empty when not known."""
        if self.ts <= 0:
            return ""
        elapsed = time.time() - self.ts
        if elapsed < MINUTE:
            return f"{int(elapsed)}s ago"
        if elapsed < HOUR:
            return f"{int(elapsed / MINUTE)}m ago"
        return f"{elapsed / HOUR:.1f}h ago"


class SessionMemory:
    """The search over the blocks of one session.

    A search sees everything that was appended before it: what the index lacks is indexed first, at
    a cost that does not grow with the session.

    Args:
        path_or_store: The session's file, which is opened and closed here, or an open store, which
            stays open.
        embedder: Makes vectors of blocks and queries, so that blocks are found by meaning too. An
            append never waits for it, and what it has not embedded yet is found by its words.
        engine: How the nearest vectors are found. `scan` looks at all of them; `hnsw` walks a graph
            of neighbours, which `index` makes and the file keeps, and may miss some of the nearest;
            `auto` scans but where there is a graph of some 300,000 vectors or more.

    Raises:
        ValueError: An unknown engine.
    """

    def __init__(
        self,
        path_or_store: str | os.PathLike[str] | SessionStore,
        embedder: Embedder | None = None,
        *,
        engine: SearchEngine = "auto",
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"unknown engine {engine!r}: it is one of {', '.join(ENGINES)}")
        self._engine = engine
        self._owned: SessionStore | None = None
        if isinstance(path_or_store, SessionStore):
            self._store = path_or_store
        else:
            self._store = self._owned = SessionStore(path_or_store)
        self._bundle = self._store._bundle  # noqa: SLF001  # one room, two files
        self._meaning: Meaning | None = None
        if embedder is not None and embedder.dimensions > 0:
            self._meaning = Meaning(self._bundle, embedder)
        self._notice: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def has_vectors(self) -> bool:
        """Whether there is an embedder, so that blocks can be found by their meaning too."""
        return self._meaning is not None

    @property
    def notice(self) -> str | None:
        """Why the last search went by words alone, though more was asked; None if it did not."""
        return self._notice

    def is_level(self) -> bool:
        """Whether `index` has nothing to do, as the file stands; changes nothing."""
        is_full = self._meaning is None or self._meaning.is_full
        return is_full and self._bundle.memory_is_level()

    def models(self) -> list[tuple[str, int, int]]:
        """Returns the models that blocks have vectors of: name, size, and of how many blocks.

        The peer's vectors have no name.
        """
        return [
            (name, size, self._bundle.memory_stats(name, size)["vectors"])
            for name, size in self._bundle.memory_models()
        ]

    def rebuild(self) -> None:
        """Throws the index of words away and makes it anew; what is found stays the same."""
        self._bundle.memory_rebuild()

    def index(
        self, agent: str | None = None, *, progress: Callable[[int, int], object] | None = None
    ) -> int:
        """Indexes what is missing; returns how many blocks are new.

        With an embedder, every block without a vector of it is embedded, batch by batch, each kept
        before the next; appends go on meanwhile.

        Args:
            agent: Counts only blocks of this agent.
            progress: Called with how many blocks are done and how many there are to do; of all
                agents, and with an embedder while blocks are embedded.

        Raises:
            EmbedderFailedError: The embedder raised; what it made before is kept, and words find
                everything.
            EmbeddingError: It made what are no vectors.
        """
        count = self._bundle.memory_index(agent)
        if self._meaning is not None:
            self._meaning.fill(progress)
            self._meaning.link(self._engine)
        elif progress is not None:
            progress(count, count)
        return count

    def index_events(
        self,
        agent: str,
        events: Sequence[Mapping[str, object]] | None = None,
        start_from: int = 0,
    ) -> int:
        """Indexes the events of an agent; returns how many blocks are new, or have new vectors.

        Events of the session's log need not be passed: they are read from it. Others are kept
        beside the log, for the search alone.

        Args:
            agent: The agent.
            events: Its events in their order. A list whose first and last event stand in the log
                is taken for the log.
            start_from: The place in `events` of the first one to index.

        Raises:
            EmbedderFailedError: The embedder raised; see `index`.
            EmbeddingError: It made what are no vectors.
        """
        if events and not self._is_log(agent, events):
            self._bundle.memory_give(agent, start_from, [dict(e) for e in events[start_from:]])
        count = self._bundle.memory_index(agent)
        if self._meaning is None:
            return count
        embedded = self._meaning.fill()
        self._meaning.link(self._engine)
        return max(count, embedded)

    def _is_log(self, agent: str, events: Sequence[Mapping[str, object]]) -> bool:
        for event in (events[0], events[-1]):
            number = event.get("event_id")
            if not isinstance(number, int) or self._bundle.event_by_id(agent, number) != event:
                return False
        return True

    def search(  # noqa: PLR0913  # the peer's four, and what a search is narrowed to
        self,
        query: str,
        mode: SearchMode = "auto",
        k: int = 10,
        agent: str | None = None,
        *,
        kinds: Collection[str] | None = None,
        tool: str | None = None,
        since: float | datetime | None = None,
        until: float | datetime | None = None,
        turns: tuple[int | None, int | None] | None = None,
        all_branches: bool = False,
    ) -> list[SearchResult]:
        """Returns the blocks that fit best, best first, and those that fit equally in their order.

        Words are found in any order and form, a phrase stands in double quotes, and no query
        raises. A filter is part of the question: what it leaves out takes no hit's place.

        Args:
            query: What to look for; a blank one has no hits.
            mode: `fts` looks for words, `semantic` for meaning, `hybrid` for both, `auto` for both
                where blocks have vectors of the embedder and else for words. Where both are asked
                for and meaning cannot be had, words answer, and `notice` says why.
            k: At most this many.
            agent: Only blocks of this agent, or of this channel.
            kinds: Only blocks of these types; all but `other` when left out.
            tool: Only calls of this tool and their results.
            since: Only blocks of this time or later, in seconds since 1970 or with a time zone.
            until: Only blocks of this time or earlier.
            turns: Only blocks from the first of these turns to the last, either of them None for
                no bound.
            all_branches: Also finds what branches hold that were left.

        Raises:
            ValueError: An unknown mode or type, `semantic` without an embedder, or a negative `k`.
            NoVectorsError: `semantic`, and the session has only vectors of other embedders.
            EmbedderFailedError: `semantic`, and the embedder raised.
            EmbeddingError: `semantic`, and it made what is no vector.
        """
        if mode not in MODES:
            raise ValueError(f"unknown search mode {mode!r}: it is one of {', '.join(MODES)}")
        if isinstance(kinds, str):
            raise TypeError("kinds must be a collection of names, not one string")
        if k < 0:
            raise ValueError(f"k must not be negative, not {k}")
        if mode == "semantic" and self._meaning is None:
            raise ValueError("a semantic search needs an embedder")
        # A lone surrogate is in no stored text, but whoever typed it wants an answer, not an error.
        words = query.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        vector = self._vector(words, mode) if words.strip() else None
        hits = self._bundle.memory_find(
            words,
            "fts" if vector is None else "semantic" if mode == "semantic" else "hybrid",
            k,
            vector=vector,
            model=None if vector is None or self._meaning is None else self._meaning.model,
            engine=self._engine,
            agent=agent,
            kinds=None if kinds is None else list(kinds),
            tool=tool,
            since=_seconds(since),
            until=_seconds(until),
            turns=turns,
            all_branches=all_branches,
        )
        return [_result(hit) for hit in hits]

    def _vector(self, query: str, mode: SearchMode) -> bytes | None:
        """Returns the vector of a query; None where words have to do, and says why."""
        self._notice = None
        meaning = self._meaning
        if meaning is None or mode == "fts":
            return None
        try:
            if not meaning.has_vectors:
                meaning.refuse_others()
                if mode != "semantic":
                    return None
            return meaning.vector(query)
        except SessionError as error:
            if mode == "semantic":
                raise
            self._notice = f"searched by words alone: {error}"
            return None

    def read_block(self, block_id: str) -> SearchResult:
        """Returns one block, whole.

        Raises:
            KeyError: No block has that id.
        """
        hit = self._bundle.memory_block(block_id)
        if hit is None:
            raise KeyError(block_id)
        return _result(hit)

    def get_stats(self) -> dict[str, int | bool]:
        """Returns how many blocks are found by words (`fts_blocks`) and by meaning (`vec_blocks`).

        `has_vectors` says whether there is an embedder and `dimensions` how long its vectors are.
        """
        stats = self._bundle.memory_stats()
        return {
            "fts_blocks": stats["blocks"],
            "vec_blocks": 0 if self._meaning is None else self._meaning.count(),
            "has_vectors": self.has_vectors,
            "dimensions": 0 if self._meaning is None else self._meaning.dimensions,
        }

    def close(self) -> None:
        """Closes the session's file if it was opened here. Calling it again does nothing."""
        if self._owned is not None:
            self._owned.close(update_status=False)


def _seconds(moment: float | datetime | None) -> float | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"the time {moment.isoformat()} has no time zone")
    return moment.timestamp()


def _result(hit: BlockHit) -> SearchResult:
    return SearchResult(
        content=hit.content,
        round_num=hit.round,
        block_num=hit.block,
        agent=hit.agent,
        block_type=hit.kind,
        score=hit.score,
        ts=hit.ts,
        tool_name=hit.tool_name,
        channel=hit.channel,
        block_id=hit.block_id,
        event_id=hit.event_id,
        event_key=hit.event_key,
        turn=hit.turn,
        snippet=hit.snippet,
        keyword_rank=hit.keyword_rank,
        vector_rank=hit.vector_rank,
    )


__all__ = ["SearchEngine", "SearchMode", "SearchResult", "SessionMemory"]

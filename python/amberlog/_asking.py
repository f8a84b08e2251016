"""A question to the memory of a session, and the way to its answer, for tools, commands and routes.

The index is brought level first. An embedder that fails costs the meaning, not the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from amberlog.embedding import NullEmbedder, create_embedder
from amberlog.errors import (
    EmbedderFailedError,
    EmbeddingError,
    EmbeddingRequestError,
    MissingExtraError,
    NoEmbedderError,
    NoVectorsError,
    SessionBusyError,
    SessionLockedError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)
from amberlog.memory import SearchResult, SessionMemory
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from amberlog.embedding import Embedder
    from amberlog.memory import SearchMode

MODES = ("auto", "fts", "semantic", "hybrid")
"""How a memory can be searched."""

SETTINGS = "embedding_config"
"""The key of a session's state that says by which embedder its vectors were made, as the peer's."""

# Whoever gives us a session must not choose where keys and texts are sent, so no address and no
# name of a key is taken from it.
_SAVED = ("provider", "model", "dimensions")

_NO_EMBEDDER = (
    EmbedderFailedError,
    EmbeddingError,
    EmbeddingRequestError,
    MissingExtraError,
    NoEmbedderError,
    NoVectorsError,
)
_UNAVAILABLE = "Embedding unavailable; using keyword search"
_NOT_TO_BE_WRITTEN = (
    SessionBusyError,
    SessionLockedError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a memory.

    Attributes:
        query: Words; a phrase stands in double quotes. A blank one has no answer.
        mode: One of `MODES`.
        k: At most this many hits.
        agent: Only what this agent has.
        kinds: Only blocks of these kinds; empty for what a memory holds by default.
        since: Only what happened at this time or later, in seconds since 1970.
        until: Only what happened at this time or earlier.
        all_branches: Also what the branches hold that were left.
    """

    query: str
    mode: str = "auto"
    k: int = 10
    agent: str | None = None
    kinds: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    all_branches: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode: there is no {self.mode!r}; there are {', '.join(MODES)}")
        if self.k < 0:
            raise ValueError(f"k: {self.k} is negative")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a memory has to say.

    Attributes:
        hits: The blocks, best first.
        mode: How they were found: `fts`, `semantic` or `hybrid`.
        notice: Why that is not as it was asked; None where it is.
    """

    hits: tuple[SearchResult, ...]
    mode: str
    notice: str | None = None


def ask(
    store: SessionStore,
    question: Question,
    *,
    embedder: Embedder | None = None,
    falls_back: bool = False,
) -> Answer:
    """Returns what the memory of an open session says.

    What was appended since the last question is indexed first, where the session may be written;
    only that costs.

    Args:
        store: The session.
        question: What is asked.
        embedder: Makes vectors; by default that of the session's `embedding_config`. Where there is
            none, `auto` asks by keyword, and the other modes use the built-in one.
        falls_back: Whether keywords answer also where only meaning was asked for.

    Raises:
        EmbeddingError: There is no embedder, and only meaning was asked for.
        EmbedderFailedError: It failed, likewise.
        EmbeddingRequestError: Its endpoint failed, likewise.
    """
    words = question.query.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if not words.strip() or question.k == 0:
        return Answer((), "fts" if question.mode == "auto" else question.mode)
    try:
        chosen = embedder_of(store, question.mode, embedder)
        if chosen is None and question.mode == "semantic":
            raise NoEmbedderError("a search by meaning needs an embedder: none is configured")
        with SessionMemory(store, chosen) as memory:
            # A search indexes words by itself.
            if chosen is not None and not store.readonly:
                memory.index()
            mode = _resolved(question.mode, has_embedder=chosen is not None)
            hits = _found(memory, question, words, mode)
            if memory.notice is None:
                return Answer(hits, mode)
            return Answer(hits, "fts", f"{_UNAVAILABLE}: {memory.notice}")
    except _NO_EMBEDDER as error:
        if question.mode == "semantic" and not falls_back:
            raise
        notice = f"{_UNAVAILABLE}: {error}"
    with SessionMemory(store) as memory:
        return Answer(_found(memory, question, words, "fts"), "fts", notice)


@contextmanager
def asked(
    place: str | os.PathLike[str], mode: str, *, embedder: Embedder | None = None
) -> Iterator[SessionStore]:
    """Opens the session of a file for a question; to write only where its index is behind.

    A file that may not be written is read: its keywords are indexed in memory, and of its vectors
    those that are there count.

    Raises:
        SessionNotFoundError: There is no such file.
    """
    with SessionStore.open_readonly(place) as reader:
        if not _is_behind(reader, mode, embedder):
            yield reader
            return
        try:
            writer = SessionStore(place, present_only=True)
        except _NOT_TO_BE_WRITTEN:
            yield reader
            return
    try:
        yield writer
    finally:
        # Nobody worked in the session: it stays running, paused or whatever it was.
        writer.close(update_status=False)


def embedder_of(
    store: SessionStore, mode: str, embedder: Embedder | None = None
) -> Embedder | None:
    """Returns the embedder to answer with; None where keywords are all there is or is wanted.

    Raises:
        EmbeddingError: The session's settings do not make one.
        MissingExtraError: Its package is not installed.
    """
    if mode == "fts":
        return None
    if embedder is not None:
        return None if isinstance(embedder, NullEmbedder) else embedder
    saved = store.state.get(SETTINGS)
    if not isinstance(saved, Mapping) and mode == "auto":
        return None
    settings = saved if isinstance(saved, Mapping) else {"provider": "auto"}
    try:
        made = create_embedder({name: settings.get(name) for name in _SAVED})
    except (TypeError, ValueError) as error:
        raise EmbeddingError(str(error)) from error
    return None if isinstance(made, NullEmbedder) else made


def moment_of(name: str, value: object) -> float | None:
    """Returns a time as seconds since 1970, from such seconds or from ISO 8601; None for None.

    A time without a zone is one of UTC, a date alone the midnight that it begins with.

    Raises:
        ValueError: It is neither; the message begins with the name.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, datetime):
        seconds = _stamp(value)
    else:
        seconds = _spelt_moment(name, str(value).strip())
    if not math.isfinite(seconds):
        raise ValueError(f"{name}: {value!r} is no time")
    return seconds


def _spelt_moment(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        # Before 3.11 the letter is not understood.
        return _stamp(datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{name}: {text!r} is neither an ISO 8601 time nor seconds since 1970"
        ) from None


def _stamp(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _is_behind(reader: SessionStore, mode: str, embedder: Embedder | None) -> bool:
    try:
        chosen = embedder_of(reader, mode, embedder)
    except _NO_EMBEDDER:
        chosen = None
    with SessionMemory(reader, chosen) as memory:
        return not memory.is_level()


def _resolved(mode: str, *, has_embedder: bool) -> SearchMode:
    """Returns by which mode is asked: `auto` and `hybrid` take what there is."""
    if mode in ("auto", "hybrid"):
        return "hybrid" if has_embedder else "fts"
    return "semantic" if mode == "semantic" else "fts"


def _found(
    memory: SessionMemory, question: Question, words: str, mode: SearchMode
) -> tuple[SearchResult, ...]:
    kinds: Sequence[str] | None = question.kinds or None
    return tuple(
        memory.search(
            words,
            mode,
            question.k,
            question.agent,
            kinds=kinds,
            since=question.since,
            until=question.until,
            all_branches=question.all_branches,
        )
    )


__all__ = [
    "MODES",
    "SETTINGS",
    "Answer",
    "Question",
    "ask",
    "asked",
    "embedder_of",
    "moment_of",
]

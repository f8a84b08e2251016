"""A question to all sessions of a directory, for tools, commands and routes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from amberlog._shared_indexes import shared_indexes
from amberlog.errors import NoEmbedderError
from amberlog.recall import Recall, RecallHit

if TYPE_CHECKING:
    from amberlog._asking import Question
    from amberlog._shared_indexes import Place

_WORDS_ONLY = "all sessions are searched together by their words alone"


@dataclass(frozen=True, slots=True)
class AnswerOfAll:
    """What the sessions of a directory have to say.

    Attributes:
        hits: The blocks, best first.
        notice: Why they were not found as it was asked; None where they were.
        mode: How they were found.
    """

    hits: tuple[RecallHit, ...]
    notice: str | None = None
    mode: str = "fts"


def ask_all(
    directory: str | os.PathLike[str],
    question: Question,
    *,
    session: str | None = None,
    by_session: bool = False,
    falls_back: bool = False,
) -> AnswerOfAll:
    """Returns what the sessions of a directory say; their index is brought level first.

    Args:
        directory: The session directory.
        question: What is asked. What branches hold that were left is not found.
        session: Only the session of exactly this name.
        by_session: One hit a session, the best one.
        falls_back: Whether words answer also where only meaning was asked for.

    Raises:
        NoEmbedderError: Only meaning was asked for.
    """
    notice = None
    if question.mode == "semantic" and not falls_back:
        raise NoEmbedderError(f"mode: {_WORDS_ONLY}")
    if question.mode in ("semantic", "hybrid"):
        notice = f"Embedding unavailable; using keyword search: {_WORDS_ONLY}"
    hits = shared_recall(directory).search(
        question.query.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        "fts",
        question.k,
        session=session,
        agent=question.agent,
        kinds=question.kinds or None,
        since=question.since,
        until=question.until,
        by_session=by_session,
    )
    return AnswerOfAll(tuple(hits), notice)


def shared_recall(directory: str | os.PathLike[str]) -> Recall:
    """Returns the one `Recall` that this process has for a session directory.

    `close_session_index` closes it with the other indexes.
    """
    home = Path(os.fsdecode(directory)).expanduser().resolve()
    place: Place = (Recall, home)
    shared = shared_indexes()
    with shared.lock:
        if place not in shared.by_place:
            shared.by_place[place] = Recall(home)
        return cast("Recall", shared.by_place[place])


__all__ = ["AnswerOfAll", "ask_all", "shared_recall"]

"""The commands that ask a session's memory. Each returns the exit code."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from amberlog import mcp
from amberlog._asking import ask, asked
from amberlog._asking_all import ask_all
from amberlog._building import build
from amberlog._named import named_session
from amberlog.cli.directory import existing
from amberlog.cli.lookup import session_file
from amberlog.cli.terminal import complain, console, emit, line, preview
from amberlog.errors import SessionError
from amberlog.index import get_session_index_default
from amberlog.recall import RecallHit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from amberlog._asking import Answer, Question
    from amberlog._building import Built, EmbedderSettings
    from amberlog.memory import SearchResult
    from amberlog.session import SessionStore

    Hit = SearchResult | RecallHit

_WIDTH = 200


def search(session: str, question: Question, *, as_json: bool) -> int:
    """Prints what the memory of a session says, best first."""
    with asked(session_file(session), question.mode) as store:
        answer = ask(store, question)
        hits = [*answer.hits, *_untold(store, question, answer)]
    _print(question, hits, answer.mode, answer.notice, as_json=as_json)
    return 0


def search_all(
    directory: Path | None, question: Question, *, by_session: bool, as_json: bool
) -> int:
    """Prints what the sessions of a directory say, best first."""
    home = existing(directory)
    answer = ask_all(home, question, by_session=by_session)
    _print(question, answer.hits, answer.mode, answer.notice, as_json=as_json)
    return 0


def embedding(session: str, settings: EmbedderSettings, *, as_json: bool) -> int:
    """Makes the vectors that a session lacks."""
    path = session_file(session)
    with _bar(as_json=as_json) as progress:
        built = build(path, settings, progress=progress)
    if as_json:
        emit(_told(path, built))
    else:
        line(_summary(path, built))
    return 0


def embedding_all(directory: Path | None, settings: EmbedderSettings, *, as_json: bool) -> int:
    """Makes the vectors that the sessions of a directory lack; 1 when one of them fails."""
    home = existing(directory)
    index = get_session_index_default(home)
    failed = [f"{one.path} cannot be read: {one.reason}" for one in index.unreadable()]
    told = []
    for name in index.all_filenames():
        path = named_session(home, name)
        try:
            with _bar(as_json=as_json) as progress:
                built = build(path, settings, progress=progress)
        except SessionError as error:
            failed.append(str(error))
            continue
        told.append(_told(path, built))
        if not as_json:
            line(_summary(path, built))
    if as_json:
        emit({"sessions": told, "failed": failed})
    for one in failed:
        complain(one)
    return 1 if failed else 0


def mcp_server(session: str | None, directory: Path | None) -> int:
    """Answers agents on standard input and output until the input ends."""
    mcp.serve(existing(directory) if session is None else session_file(session))
    return 0


def _untold(store: SessionStore, question: Question, answer: Answer) -> list[SearchResult]:
    """Returns what only the events hold, where the blocks leave room.

    A memory does not tell twice what was said once, nor what stands in no round; somebody who reads
    a log may look for it.
    """
    room = question.k - len(answer.hits)
    if question.kinds or answer.mode == "semantic" or room <= 0:
        return []
    told = {(hit.agent, hit.content) for hit in answer.hits}
    others = ask(store, replace(question, mode="fts", kinds=("other",))).hits
    return [hit for hit in others if (hit.agent, hit.content) not in told][:room]


def _print(
    question: Question, hits: Sequence[Hit], mode: str, notice: str | None, *, as_json: bool
) -> None:
    if notice:
        complain(notice)
    if as_json:
        plain = [_plain(hit) for hit in hits]
        emit({"query": question.query, "mode": mode, "notice": notice, "hits": plain})
        return
    if not hits:
        line("no hits")
    for place, hit in enumerate(hits, 1):
        tool = f":{hit.tool_name}" if hit.tool_name else ""
        among = f"{hit.session}  " if isinstance(hit, RecallHit) else ""
        line(
            f"{place:>3}. {hit.score:.3f}  {among}{hit.block_id}  {hit.block_type}{tool}"
            f"  round {hit.round_num}  {hit.age_str}".rstrip(),
            "bold",
        )
        line(f"     {_shown(hit)}")


def _shown(hit: Hit) -> str:
    # A long text is shown around the words that were found.
    return preview(
        hit.content if len(hit.content) <= _WIDTH else hit.snippet or hit.content, _WIDTH
    )


def _plain(hit: Hit) -> dict[str, object]:
    place = (
        {"session": hit.session, "path": hit.path}
        if isinstance(hit, RecallHit)
        else {"keyword_rank": hit.keyword_rank, "vector_rank": hit.vector_rank}
    )
    return {
        **place,
        "block_id": hit.block_id,
        "agent": hit.agent,
        "kind": hit.block_type,
        "round": hit.round_num,
        "block": hit.block_num,
        "turn": hit.turn,
        "ts": hit.ts,
        "tool_name": hit.tool_name,
        "channel": hit.channel,
        "event_id": hit.event_id,
        "event_key": hit.event_key,
        "score": hit.score,
        "snippet": hit.snippet,
        "text": hit.content,
    }


@contextmanager
def _bar(*, as_json: bool) -> Iterator[Callable[[int, int], object]]:
    with Progress(
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(),
        transient=True,
        disable=as_json or not sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task("index", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _told(path: Path, built: Built) -> dict[str, object]:
    return {
        "path": str(path),
        "indexed": built.indexed,
        "blocks": built.blocks,
        "vectors": built.vectors,
        "model_id": built.model_id,
        "dimensions": built.dimensions,
        "agents": list(built.agents),
    }


def _summary(path: Path, built: Built) -> str:
    by = f" by {built.model_id}" if built.dimensions else ""
    return f"{path}: {built.blocks} blocks, {built.vectors} vectors{by}, {built.indexed} new"

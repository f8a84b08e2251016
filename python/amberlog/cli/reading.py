"""The commands that read a session. Each returns the exit code."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from amberlog._asking import Question
from amberlog.cli.lookup import last_said, session_file
from amberlog.cli.terminal import (
    block,
    console,
    emit,
    line,
    moment,
    preview,
    safe,
    text_of_event,
)
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_TABLES = (
    "events",
    "channels",
    "subagents",
    "jobs",
    "conversation",
    "turn_rollup",
    "state",
    "meta",
)


def show(session: str, messages: int, *, as_json: bool) -> int:
    """Prints what a session says about itself, what it holds, and what was said last."""
    with SessionStore.open_readonly(session_file(session)) as store:
        meta = store.load_meta()
        counts = {name: len(getattr(store, name)) for name in _TABLES}
        speakers = [*dict.fromkeys([*_names(meta.get("agents")), *store.namespaces()])]
        said = {name: last_said(store, name, messages) for name in speakers}
        session_id = store.session_id
        path = store.path
    if as_json:
        emit(
            {
                "path": path,
                "session_id": session_id,
                "meta": meta,
                "counts": counts,
                "agents": speakers,
                "last_messages": {
                    name: [{"role": role, "text": text} for role, text in spoken]
                    for name, spoken in said.items()
                },
            }
        )
        return 0
    line(f"session {session_id}", "bold")
    line(f"  file  {path}")
    for key in ("status", "created_at", "last_active", "config_type", "config_path", "pwd"):
        if key in meta:
            line(f"  {key}  {preview(meta[key])}")
    line(f"  agents  {', '.join(_names(meta.get('agents'))) or 'none'}")
    line("  " + "  ".join(f"{name} {count}" for name, count in counts.items()))
    for name, spoken in said.items():
        _print_said(name, spoken)
    return 0


def events(
    session: str,
    *,
    agent: str | None,
    types: Sequence[str],
    since: int | None,
    limit: int | None,
    reverse: bool,
    as_json: bool,
) -> int:
    """Prints events of one agent, or of all in the order of their ids."""
    with SessionStore.open_readonly(session_file(session)) as store:
        streams = [
            _named(store, name, types, since, limit, reverse=reverse)
            for name in ([agent] if agent is not None else store.namespaces())
        ]
        together = merge(*streams, key=lambda pair: _event_id(pair[1]), reverse=reverse)
        for name, event in islice(together, limit):
            if as_json:
                emit({"agent": name, "event": event})
            else:
                line(
                    f"{_event_id(event):>6}  {moment(event.get('ts'))}  {name}  "
                    f"{event.get('type')}  {preview(text_of_event(event))}"
                )
    return 0


def search(session: str, question: Question, types: Sequence[str], *, as_json: bool) -> int:
    """Prints the events of some types that match a query, best first."""
    if question != Question(question.query, question.mode, question.k, question.agent) or (
        question.mode not in ("auto", "fts")
    ):
        raise ValueError("--type goes with --agent and -k only")
    query = question.query
    with SessionStore.open_readonly(session_file(session)) as store:
        hits = store.search(query, question.k, agent=question.agent, types=types)
        found = [(hit, _text_of_hit(store, hit["meta"])) for hit in hits]
    if as_json:
        emit({"query": query, "hits": [{**hit, "text": text} for hit, text in found]})
        return 0
    if not found:
        line("no hits")
    for place, (hit, text) in enumerate(found, 1):
        meta = hit["meta"]
        where = meta.get("event_key") or meta.get("channel_key")
        line(f"{place:>3}. {hit['score']:.3f}  {where}  {meta.get('type')}", "bold")
        line(f"     {preview(text, 200)}")
    return 0


def verify(session: str, *, as_json: bool) -> int:
    """Reads everything; returns 1 when something is wrong."""
    with SessionStore.open_readonly(session_file(session)) as store:
        report = store.verify()
    if as_json:
        problems = [
            {"file": str(found.file), "table": found.table, "key": found.key, "what": found.what}
            for found in report.problems
        ]
        emit(
            {
                "file": str(report.file),
                "ok": report.ok,
                "counts": dict(report.counts),
                "problems": problems,
            }
        )
        return 0 if report.ok else 1
    read = "  ".join(f"{name} {count}" for name, count in report.counts.items())
    line(f"{report.file}: {'ok' if report.ok else f'{len(report.problems)} problems'}", "bold")
    line(f"  {read}")
    if report.problems:
        table = Table("table", "key", "what")
        for found in report.problems:
            table.add_row(*(Text(safe(cell)) for cell in (found.table, found.key, found.what)))
        console().print(table)
    return 0 if report.ok else 1


def backup(session: str, target: Path, *, as_json: bool) -> int:
    """Copies a session whole, while others may write to it."""
    with SessionStore.open_readonly(session_file(session)) as store:
        store.backup(target)
        source = store.path
    size = target.stat().st_size
    if as_json:
        emit({"source": source, "target": str(target), "bytes": size})
    else:
        line(f"{target}: {size} bytes, a copy of {source}")
    return 0


def _named(
    store: SessionStore,
    agent: str,
    types: Sequence[str],
    since: int | None,
    limit: int | None,
    *,
    reverse: bool,
) -> Iterator[tuple[str, Mapping[str, object]]]:
    events = store.iter_events(
        agent, since=since, types=list(types) or None, limit=limit, reverse=reverse
    )
    return ((agent, event) for event in events)


def _event_id(event: Mapping[str, object]) -> int:
    # Events of the first format version have no id; they keep the order of their namespace.
    event_id = event.get("event_id")
    return event_id if isinstance(event_id, int) else 0


def _text_of_hit(store: SessionStore, meta: Mapping[str, object]) -> str:
    key = meta.get("event_key")
    record = store.events.get(str(key)) if key else store.channels.get(str(meta.get("channel_key")))
    return text_of_event(record) if isinstance(record, dict) else ""


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _print_said(agent: str, spoken: Sequence[tuple[str, str]]) -> None:
    if not spoken:
        return
    line(f"last messages of {agent}", "bold")
    for role, text in spoken:
        line(f"  {role}")
        block(text if len(text) <= _LONG else text[:_LONG] + "…")


_LONG = 2_000

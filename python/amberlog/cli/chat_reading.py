"""The commands that look at chat sessions, or change one. Each returns the exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from amberlog.chat import DefaultSessionStore, SqliteSessionStore, SqliteTranscriptStore
from amberlog.cli.chat_place import known
from amberlog.cli.terminal import (
    block,
    complain,
    console,
    emit,
    line,
    moment,
    preview,
    safe,
    text_of,
)
from amberlog.errors import SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amberlog.chat import CompactionCheckpoint, SessionHit
    from amberlog.cli.chat_place import Place

FAILED = 1


def list_chats(place: Place, agent: str | None, limit: int, *, as_json: bool) -> int:
    """Prints the sessions, the one last written first."""
    store = place.existing()
    rows = store.list_sessions(limit if agent is None else None)
    if agent is not None:
        rows = [row for row in rows if row["agent_name"] == agent][:limit]
    unreadable = store.unreadable_sessions()
    if as_json:
        named = [{"path": path, "reason": reason} for path, reason in unreadable]
        emit({"sessions": rows, "unreadable": named})
        return 0
    if rows:
        console().print(_table(rows))
    line(f"{len(rows)} sessions")
    for path, reason in unreadable:
        complain(f"{path} cannot be listed: {reason}")
    return 0


def show(place: Place, session_id: str, messages: int, *, as_json: bool) -> int:
    """Prints what a session says of itself, and its newest messages."""
    store = place.existing()
    known(store, session_id)
    if as_json:
        emit(store.stored_session(session_id))
        return 0
    session = store.get_session(session_id)
    line(f"session {session.session_id or session_id}", "bold")
    counts = f"{len(session.messages)} messages, {len(session.archived_messages)} archived"
    for name, value in (
        ("title", session.metadata.get("title")),
        ("agent", session.agent_name),
        ("user", session.user_id),
        ("outside id", session.gateway_session_id),
        ("written", session.updated_at),
        ("holds", counts),
    ):
        if value:
            line(f"  {name}  {preview(value)}")
    if session.last_compaction is not None:
        _print_checkpoint(session.last_compaction)
    for message in session.messages[-messages:] if messages else []:
        line(f"  {message.role}  {moment(message.timestamp)}")
        block(text_of(message.content) or preview(message.tool_calls))
    return 0


def search(place: Place, query: str, k: int, window: int, *, as_json: bool) -> int:
    """Prints the sessions that best hold the words, best first."""
    hits = place.existing().search(query, limit=k, window=window)
    if as_json:
        emit({"query": query, "hits": [hit.as_dict() for hit in hits]})
        return 0
    for hit in hits:
        _print_hit(hit)
    if not hits:
        line("nothing found")
    return 0


def route(place: Place, outside: str, *, as_json: bool) -> int:
    """Prints the session that an id outside leads to."""
    session = place.existing().get_by_gateway_session(outside)
    if session is None:
        raise SessionNotFoundError(f"`{outside}` leads to no chat session")
    if as_json:
        emit(
            {
                "gateway_session_id": outside,
                "session_id": session.session_id,
                "agent_id": session.agent_id,
            }
        )
    else:
        line(session.session_id)
    return 0


def link(
    place: Place, outside: str, session_id: str, agent_id: str | None, *, as_json: bool
) -> int:
    """Lets an id outside lead to a session."""
    store = place.existing()
    store.set_gateway_info(known(store, session_id), outside, agent_id)
    return route(place, outside, as_json=as_json)


def unlink(place: Place, outside: str, *, as_json: bool) -> int:
    """Lets an id outside lead nowhere."""
    store = place.existing()
    session = store.get_by_gateway_session(outside)
    if session is None:
        raise SessionNotFoundError(f"`{outside}` leads to no chat session")
    store.clear_gateway_info(session.session_id)
    if as_json:
        emit({"gateway_session_id": outside, "session_id": None, "was": session.session_id})
    else:
        line(f"{outside} leads no more to {session.session_id}")
    return 0


def checkpoint(place: Place, session_id: str, summary: str | None, *, as_json: bool) -> int:
    """Prints the checkpoint of a session, which is made where there is a summary."""
    store = place.existing()
    known(store, session_id)
    if summary is not None and not store.append_compaction_checkpoint(session_id, summary):
        raise ValueError("--summary: a blank text sums nothing up")
    found = store.get_session(session_id).last_compaction
    if as_json:
        emit({"session_id": session_id, "checkpoint": None if found is None else found.to_dict()})
    elif found is None:
        line("no checkpoint")
    else:
        _print_checkpoint(found)
    return 0


def verify(place: Place, *, as_json: bool) -> int:
    """Reads every session and says what cannot be read."""
    store = place.existing()
    found = []
    if isinstance(store, SqliteTranscriptStore):
        found += [(store.db_path, fault) for fault in store.verify()]
    else:
        # Not by the index: it only reads what has changed.
        fault = store.index_fault() if isinstance(store, SqliteSessionStore) else None
        found += [(store.session_dir, fault)] if fault else []
        store = DefaultSessionStore(store.session_dir)
    found += store.unreadable_sessions()
    sessions = len(store.list_sessions(None))
    problems = [{"path": path, "what": what} for path, what in found]
    if as_json:
        emit({"ok": not problems, "sessions": sessions, "problems": problems})
    else:
        line(f"{sessions} sessions read, {len(problems)} problems")
        for problem in problems:
            line(f"  {problem['path']}: {problem['what']}")
    return FAILED if problems else 0


def _print_hit(hit: SessionHit) -> None:
    line(f"{hit.session_id}  {hit.score:g}", "bold")
    line(f"  {preview(hit.title)}  {hit.when or ''}")
    for message in hit.messages:
        mark = ">" if message["index"] == hit.anchor_index else " "
        line(f"  {mark} {message['role']}  {preview(message['content'])}")


def _print_checkpoint(found: CompactionCheckpoint) -> None:
    line(f"  checkpoint at message {found.message_index}")
    block(text_of(asdict(found)["summary"]))


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("session", "written", "messages", "agent", "title"):
        table.add_column(heading, overflow="fold" if heading == "session" else "ellipsis")
    for row in rows:
        cells = (
            str(row["session_id"]),
            str(row["updated_at"] or "")[:19].replace("T", " "),
            str(row["message_count"]),
            str(row["agent_name"] or ""),
            preview(row["title"], 60),
        )
        table.add_row(*(Text(safe(cell)) for cell in cells))
    return table


__all__ = ["checkpoint", "link", "list_chats", "route", "search", "show", "unlink", "verify"]

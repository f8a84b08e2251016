"""The commands over all sessions of a directory. Each returns the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from amberlog import config
from amberlog.cli.terminal import complain, console, emit, line, preview, safe
from amberlog.errors import SessionNotFoundError
from amberlog.index import SessionIndex, delete_session, get_session_index_default, reconcile
from amberlog.watching import check_extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from amberlog.types import SessionPage, Unreadable


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a listing; the fields are the arguments of `SessionIndex.list`."""

    search: str
    status: str | None
    config_type: str | None
    node_id: str | None
    sort: str
    order: str
    limit: int
    offset: int
    cursor: str | None


def list_sessions(directory: Path | None, wanted: Wanted, *, as_json: bool) -> int:
    """Prints one page of the sessions of a directory, the one last active first."""
    index = get_session_index_default(existing(directory))
    page = index.list(
        search=wanted.search,
        status=wanted.status,
        config_type=wanted.config_type,
        node_id=wanted.node_id,
        sort=wanted.sort,
        order=wanted.order,
        limit=wanted.limit,
        offset=wanted.offset,
        cursor=wanted.cursor,
    )
    if as_json:
        emit(
            {
                **page.to_dict(),
                "next_cursor": page.next_cursor,
                "unreadable": _plain(page.unreadable),
            }
        )
        return 0
    if page.rows:
        console().print(_table(page))
    line(f"{len(page.rows)} of {page.total} sessions")
    if page.next_cursor:
        line(f"more with --cursor {page.next_cursor}")
    for one in page.unreadable:
        complain(f"{one.path} cannot be listed: {one.reason}")
    return 0


def delete(name: str, directory: Path | None, *, as_json: bool) -> int:
    """Deletes one session with all that belongs to it."""
    home = existing(directory)
    removed = delete_session(home, name)
    if as_json:
        emit({"status": "deleted", "name": name, "files": [path.name for path in removed]})
        return 0
    for path in removed:
        line(f"deleted {path}")
    return 0


def stats(directory: Path | None, *, as_json: bool) -> int:
    """Prints counts over all sessions of a directory, and what they take on disk."""
    index = get_session_index_default(existing(directory))
    counts, usage = index.stats(), index.disk_usage()
    unreadable = index.unreadable()
    if as_json:
        emit({**counts, "disk_usage": usage, "unreadable": _plain(unreadable)})
        return 0
    line(f"{counts['count']} sessions in {usage['session_dir']}", "bold")
    line(f"  sessions  {usage['session_bytes']} bytes")
    line(f"  artifacts  {usage['artifacts_bytes']} bytes")
    for field in ("by_status", "by_config_type", "by_recency", "by_format_version"):
        found = cast("Mapping[str, int]", counts[field])
        line(f"  {field}  " + "  ".join(f"{name} {count}" for name, count in found.items()))
    agents = cast("list[tuple[str, int]]", counts["agents_top"])
    line("  agents  " + ("  ".join(f"{name} {count}" for name, count in agents) or "none"))
    line(f"  unreadable  {len(unreadable)}")
    return 0


def reindex(directory: Path | None, *, full: bool, workers: int | None, as_json: bool) -> int:
    """Brings the index of a directory level with its sessions."""
    home = existing(directory)
    with (
        SessionIndex.open(home) as index,
        Progress(
            TextColumn("reading sessions"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console(),
            transient=True,
            disable=as_json or not sys.stdout.isatty(),
        ) as bar,
    ):
        task = bar.add_task("read", total=None)
        report = reconcile(
            index,
            home,
            full=full,
            workers=workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        emit(
            {
                "read": report.read,
                "deleted": report.deleted,
                "total": report.total,
                "unchanged": report.unchanged,
                "unreadable": _plain(report.unreadable),
                "elapsed_ms": report.elapsed_ms,
                "aborted": report.aborted,
            }
        )
    else:
        line(
            f"{report.total} sessions: {report.read} read, {report.unchanged} unchanged, "
            f"{report.deleted} gone, {len(report.unreadable)} unreadable, "
            f"in {report.elapsed_ms:.0f} ms"
        )
        for one in report.unreadable:
            complain(f"{one.path} cannot be listed: {one.reason}")
    return 1 if report.aborted else 0


def serve(directory: Path | None, *, host: str, port: int, watch: bool) -> int:
    """Serves the sessions of a directory over HTTP until it is interrupted."""
    home = existing(directory)
    try:
        # An extra that nobody else needs.
        from amberlog.server import serve as run  # noqa: PLC0415
    except ImportError as error:
        complain(f"install amberlog[server] to serve: {error}")
        return 1
    if watch:
        check_extra()
    line(f"serving {home} on http://{host}:{port}/api/sessions")
    sys.stdout.flush()
    run(home, host=host, port=port, token=config.server_token(), watch=watch)
    return 0


def existing(directory: Path | None) -> Path:
    """Returns the session directory that is meant: a listing makes none."""
    home = config.session_dir() if directory is None else directory.expanduser()
    if not home.is_dir():
        raise SessionNotFoundError(f"there is no directory `{home}`", path=str(home))
    return home


def _table(page: SessionPage) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("session", "status", "last active", "events", "agents", "said last"):
        table.add_column(heading, overflow="fold" if heading == "session" else "ellipsis")
    for row in page.rows:
        agents = cast("list[str]", row["agents"])
        said = str(row["title"] or row["preview"])
        cells = (
            str(row["name"]),
            str(row["status"]),
            str(row["last_active"])[:19].replace("T", " "),
            str(row["event_count"]),
            ", ".join(agents),
            preview(said, 60),
        )
        table.add_row(*(Text(safe(cell)) for cell in cells))
    return table


def _plain(unreadable: Iterable[Unreadable]) -> list[dict[str, str]]:
    return [{"path": one.path, "reason": one.reason} for one in unreadable]

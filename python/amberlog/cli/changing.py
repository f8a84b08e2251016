"""The commands that make a new session of an old one. Each returns the exit code."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from rich.progress import track

from amberlog import migration
from amberlog.attaching import fork_path
from amberlog.cli.lookup import session_file
from amberlog.cli.terminal import complain, emit, error_console, line
from amberlog.errors import SessionError, SessionNotFoundError, SessionVersionError
from amberlog.session import FORMAT_VERSION, SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amberlog.migration import MigrationReport

FAILED = 1

_SUFFIXES = (".kohakutr", ".kt")


def fork(
    session: str,
    at: int,
    *,
    name: str | None,
    drop_trailing: bool,
    edit: str | None,
    as_json: bool,
) -> int:
    """Makes a new session of one as it stood at an event, beside it."""
    path = session_file(session)
    version = migration.detect_format_version(path)
    if version < FORMAT_VERSION:
        raise SessionVersionError(
            f"`{path}` has format version {version}: migrate it first",
            path=str(path),
            found=version,
            supported=FORMAT_VERSION,
        )
    target = fork_path(path, name or f"fork-{uuid4().hex[:8]}")
    parent = SessionStore(path)
    try:
        if edit is not None:
            _check_editable(parent, at)

        def mutate(event: dict[str, object]) -> Mapping[str, object] | None:
            return None if edit is None else {**event, "content": edit}

        changes = mutate if drop_trailing or edit is not None else None
        child = parent.fork(target, at_event_id=at, mutate=changes, name=name)
        try:
            made = {
                "source": parent.path,
                "target": child.path,
                "session_id": child.session_id,
                "fork_point": at,
                "events": len(child.events),
            }
        finally:
            child.close(update_status=False)
    finally:
        parent.close(update_status=False)
    if as_json:
        emit(made)
    else:
        line(f"{made['target']}: {made['events']} events of {made['source']}, up to {at}")
    return 0


def migrate(session: str, *, dry_run: bool, as_json: bool) -> int:
    """Migrates a session, or every session of a directory that needs it."""
    directory = Path(session).expanduser()
    if not directory.is_dir():
        report = migration.run(session_file(session), dry_run=dry_run)
        if as_json:
            emit(_document(report, dry_run=dry_run))
        else:
            _print(report, dry_run=dry_run)
        return 0
    reports: list[MigrationReport] = []
    failed: dict[str, str] = {}
    for file in _shown(_old_sessions(directory, failed)):
        try:
            reports.append(migration.run(file, dry_run=dry_run))
        except SessionError as error:
            failed[str(file)] = str(error)
    for what in failed.values():
        complain(what)
    if as_json:
        documents = [_document(report, dry_run=dry_run) for report in reports]
        emit({"directory": str(directory), "sessions": documents, "failed": failed})
    else:
        for report in reports:
            _print(report, dry_run=dry_run)
        line(f"{directory}: {_counted(len(reports), 'session')}, {len(failed)} failed")
    return FAILED if failed else 0


def _old_sessions(directory: Path, failed: dict[str, str]) -> list[Path]:
    old = []
    for file in sorted(directory.iterdir()):
        if file.suffix not in _SUFFIXES or not file.is_file():
            continue
        try:
            if migration.detect_format_version(file) < FORMAT_VERSION:
                old.append(file)
        except SessionNotFoundError:
            continue  # It was deleted while the directory was read.
        except SessionError as error:
            failed[str(file)] = str(error)
    return old


def _shown(files: list[Path]) -> Iterable[Path]:
    """Returns the files, with a bar on standard error where that is a terminal."""
    console = error_console()
    if not console.is_terminal:
        return files
    return track(files, "migrating", console=console, transient=True)


def _check_editable(store: SessionStore, point: int) -> None:
    found = (store.get_event_by_id(name, point) for name in store.namespaces())
    event = next((event for event in found if event is not None), None)
    kind = None if event is None else event.get("type")
    if kind != "user_message":
        raise ValueError(f"only a user_message can be edited: event {point} is {kind or 'missing'}")


def _document(report: MigrationReport, *, dry_run: bool) -> dict[str, object]:
    paths = {"source": str(report.source), "target": str(report.target)}
    return {**asdict(report), **paths, "dry_run": dry_run}


def _print(report: MigrationReport, *, dry_run: bool) -> None:
    if report.source == report.target:
        line(f"{report.source}: is of the present format")
    elif report.reused and not dry_run:
        line(f"{report.target}: was there already")
    else:
        read, written = (sum(m.values()) for m in (report.events_read, report.events_written))
        would = "would be made" if dry_run else "made"
        line(f"{report.target}: {would} of {report.source}")
        line(f"  {_counted(read, 'event')} became {written}")
        line(f"  {_counted(len(report.agents), 'agent')}")
        for name in (
            "turns",
            "snapshots",
            "channel_messages",
            "subagent_runs",
            "jobs",
            "artifacts",
        ):
            if count := getattr(report, name):
                line(f"  {_counted(count, name.replace('_', ' ').removesuffix('s'))}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

"""The commands that carry chat sessions from one place to another. Each returns the exit code."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.progress import track

from amberlog.chat_homes import migrate_sessions, open_home
from amberlog.cli.chat_place import known
from amberlog.cli.terminal import complain, emit, error_console, line
from amberlog.errors import SessionDamagedError, SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amberlog.chat_homes import ChatMigrationReport
    from amberlog.cli.chat_place import Place

FAILED = 1
KINDS = ("json", "transcript", "bundle")
_DATABASES = (".db", ".sqlite", ".sqlite3")


@dataclass(frozen=True, slots=True)
class Importing:
    """How sessions are added.

    Attributes:
        overwrite: Whether a session that is there is replaced.
        keep_routes: Whether they keep the ids that lead to them from outside.
    """

    overwrite: bool
    keep_routes: bool


@dataclass(frozen=True, slots=True)
class Ends:
    """From where to where sessions are carried.

    Attributes:
        source: The home that they are in.
        target: The home that they go to.
        from_kind: What kind of home the first is; None to look.
        to_kind: What kind the second is; None to go by its name.
    """

    source: Path
    target: Path
    from_kind: str | None
    to_kind: str | None


def export(place: Place, session_ids: Sequence[str], output: Path | None, *, as_json: bool) -> int:
    """Writes sessions in the portable form."""
    store = place.existing()
    if session_ids:
        found = [store.stored_session(known(store, one)) for one in _shown(session_ids)]
        payload: dict[str, object] = {"version": 1, "sessions": found}
    else:
        payload = store.export_all()
    if output is None:
        emit(payload)
        return 0
    # The whole text first: a value that is no JSON must not leave half a file.
    text = json.dumps(payload, ensure_ascii=False, indent=2)
    with output.open("x", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    count = len(cast("list[object]", payload["sessions"]))
    if as_json:
        emit({"file": str(output), "sessions": count})
    else:
        line(f"{output}: {count} sessions")
    return 0


def import_chats(place: Place, file: Path, how: Importing, *, as_json: bool) -> int:
    """Adds the sessions of an export."""
    payload = _payload(file)
    report = place.made().import_sessions(
        payload, reset_live_fields=not how.keep_routes, overwrite=how.overwrite
    )
    if as_json:
        emit({"imported": report.imported, "skipped": report.skipped})
    else:
        line(f"{report.imported} sessions added, {report.skipped_count} not")
        for one in report.skipped:
            complain(f"{one['session_id'] or file}: {one['reason']}")
    return FAILED if report.skipped else 0


def migrate(ends: Ends, *, overwrite: bool, dry_run: bool, as_json: bool) -> int:
    """Copies all sessions of a home to another."""
    source, target = ends.source.expanduser(), ends.target.expanduser()
    if not source.exists():
        raise SessionNotFoundError(f"there is nothing at `{source}`", path=str(source))
    from_kind = _kind("--from", ends.from_kind) or _look(source)
    to_kind = _kind("--to", ends.to_kind) or _look(target)
    if (from_kind, source.resolve()) == (to_kind, target.resolve()):
        raise ValueError("target: the sessions are there already")
    report = migrate_sessions(
        open_home(from_kind, source),
        # A home that is not there is not made to see what would be written to it.
        None if dry_run and not target.exists() else open_home(to_kind, target),
        overwrite=overwrite,
        dry_run=dry_run,
        progress=_shown,
    )
    places = {"source": str(source), "target": str(target), "from": from_kind, "to": to_kind}
    if as_json:
        emit({**places, **asdict(report), "dry_run": dry_run})
    else:
        _print(places, report, dry_run=dry_run)
    return FAILED if report.failed or report.differing else 0


def _print(places: Mapping[str, str], report: ChatMigrationReport, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    line(f"{places['source']} ({places['from']}) to {places['target']} ({places['to']})", "bold")
    line(f"  {report.read} sessions read")
    line(f"  {len(report.written)} {would}written, {report.messages} messages with those replaced")
    line(f"  {len(report.replaced)} {would}replaced")
    line(f"  {report.unchanged} there already")
    for session_id in report.differing:
        complain(f"{session_id}: is there and differs; --overwrite replaces it")
    for what, reason in report.failed.items():
        complain(f"{what}: {reason}")


def _payload(file: Path) -> Mapping[str, object]:
    try:
        payload: object = json.loads(file.read_bytes())
    except ValueError as error:
        raise SessionDamagedError(
            f"`{file}` is no export: {error}", path=str(file), what=str(error)
        ) from error
    if not isinstance(payload, dict) or not isinstance(payload.get("sessions"), list):
        raise SessionDamagedError(f"`{file}` is no export: it has no sessions", path=str(file))
    return payload


def _kind(option: str, given: str | None) -> str | None:
    if given is not None and given not in KINDS:
        raise ValueError(f"{option}: {given!r} is none of {', '.join(KINDS)}")
    return given


def _look(path: Path) -> str:
    if path.is_file() or path.suffix in _DATABASES:
        return "transcript"
    return "bundle" if any(path.glob("*.kohakutr*")) else "json"


def _shown(ids: Iterable[str], total: int | None = None) -> Iterable[str]:
    """Returns the ids, with a bar on standard error where that is a terminal."""
    console = error_console()
    if not console.is_terminal:
        return ids
    return track(ids, "sessions", total=total, console=console, transient=True)


__all__ = ["Ends", "Importing", "export", "import_chats", "migrate"]

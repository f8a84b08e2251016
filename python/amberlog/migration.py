"""Sessions of the first format, made into sessions of the present one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, cast

from amberlog._core import migrate as migrate_file
from amberlog._core import stated_version
from amberlog._versions import (
    detect_format_version,
    discover_versions,
    latest_readable_version,
    migration_source,
    path_for_version,
)
from amberlog.errors import SessionDamagedError, SessionNotFoundError, SessionVersionError
from amberlog.session import FORMAT_VERSION

if TYPE_CHECKING:
    import os
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What was read of an old session, and what was or would be made of it.

    Attributes:
        source: The session that was asked for; it is never changed.
        target: The session in the present format; `source` itself when it is in that format.
        agents: The names of its agents.
        events_read: How many events of each type the source has.
        events_written: How many events of each type the target gets.
        turns: How many turns its agents have, all together.
        snapshots: How many agents have messages.
        channel_messages: How many messages its channels have.
        subagent_runs: How many runs of sub-agents it has.
        jobs: How many jobs it has.
        artifacts: How many files lie beside it.
        preserved: Whether its events already were those of the present format, and are kept.
        reused: Whether the target was there already. `run` counts nothing then.
    """

    source: Path
    target: Path
    agents: tuple[str, ...] = ()
    events_read: Mapping[str, int] = field(default_factory=dict)
    events_written: Mapping[str, int] = field(default_factory=dict)
    turns: int = 0
    snapshots: int = 0
    channel_messages: int = 0
    subagent_runs: int = 0
    jobs: int = 0
    artifacts: int = 0
    preserved: bool = False
    reused: bool = False


def migrate(path: str | os.PathLike[str], *, dry_run: bool = False) -> Path:
    """Makes a session in the present format of an old one, beside it, and returns its path.

    `x.kohakutr` becomes `x.kohakutr.v2`, with the artifacts. Costs one pass over the session. The
    new file appears whole and on disk, or not at all, and one that is there already is returned as
    it is; so is a session that needs no migration. What a killed migration left is finished. The
    old session is only read: not a byte of it changes.

    Args:
        path: A session.
        dry_run: Writes nothing, and returns the path that the new session would have.

    Raises:
        SessionNotFoundError: There is no such file.
        SessionVersionError: A newer version wrote it.
        SessionDamagedError: It cannot be read.
        SessionLockedError: It is open in some process, whose next events would be missing.
        SessionBusyError: It changed while it was read.
        SessionMigrationError: Its events are in part of one format and in part of the other, or
            somebody has gone on with what a killed migration of another program left.
        SessionWriteError: The system refused the new file.
    """
    return run(path, dry_run=dry_run).target


def migration_report(path: str | os.PathLike[str]) -> MigrationReport:
    """Returns what a migration makes of a session, and raises what it raises; writes nothing.

    Costs one pass over the session.
    """
    return run(path, dry_run=True)


def run(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    target: str | os.PathLike[str] | None = None,
) -> MigrationReport:
    """Does what `migrate` does and returns what was counted on the way.

    Args:
        path: A session.
        dry_run: Writes nothing.
        target: The path of the new session, where it is not to lie beside the old one.
    """
    source = Path(path).expanduser()
    if not source.is_file():
        raise SessionNotFoundError(f"there is no session at `{source}`", path=str(source))
    version = detect_format_version(source)
    if version > FORMAT_VERSION:
        raise SessionVersionError(
            f"`{source}` has format version {version}, newer than {FORMAT_VERSION}",
            path=str(source),
            found=version,
            supported=FORMAT_VERSION,
        )
    if version == FORMAT_VERSION:
        return MigrationReport(source, source, reused=True)
    made = Path(target) if target is not None else path_for_version(source, FORMAT_VERSION)
    at = datetime.now(timezone.utc).isoformat()
    return _reported(source, made, migrate_file(str(source), str(made), at, dry_run))


def ensure_latest_version(path: str | os.PathLike[str]) -> Path:
    """Returns the session to open instead of the one at `path`, migrated where it is an old one.

    That is the newest of `x.kohakutr`, `x.kohakutr.v2` and so on that this version can read. Where
    all of them are newer it is the newest, and where there is none it is `path`: whoever opens it
    gets the error. What a killed migration of another program left is made whole first.

    Raises:
        What `migrate` raises, but for a missing file and for one that a newer version wrote.
    """
    newest = latest_readable_version(Path(path).expanduser())
    source = Path(migration_source(str(newest)))
    if source != newest:
        # A fork or a session of its own may have the name, and then there is nothing to finish.
        return migrate(source) if is_old(source) else newest
    if not newest.is_file() or detect_format_version(newest) >= FORMAT_VERSION:
        return newest
    return migrate(newest)


def is_old(path: str | os.PathLike[str]) -> bool:
    """Returns whether a session lies there that needs a migration; a damaged one does not."""
    if (stated_version(str(path)) or 0) >= FORMAT_VERSION:
        return False
    try:
        return Path(path).is_file() and detect_format_version(path) < FORMAT_VERSION
    except SessionDamagedError:
        return False


def _reported(source: Path, target: Path, counted: Mapping[str, object]) -> MigrationReport:
    count = {name: value for name, value in counted.items() if isinstance(value, int)}
    return MigrationReport(
        source,
        target,
        tuple(cast("Collection[str]", counted["agents"])),
        cast("dict[str, int]", counted["events_read"]),
        cast("dict[str, int]", counted["events_written"]),
        turns=count["turns"],
        snapshots=count["snapshots"],
        channel_messages=count["channel_messages"],
        subagent_runs=count["subagent_runs"],
        jobs=count["jobs"],
        artifacts=count["artifacts"],
        preserved=bool(counted["preserved"]),
        reused=bool(counted["reused"]),
    )


__all__ = [
    "MigrationReport",
    "detect_format_version",
    "discover_versions",
    "ensure_latest_version",
    "latest_readable_version",
    "migrate",
    "migration_report",
    "path_for_version",
    "run",
]

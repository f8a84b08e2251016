"""Which session of the session directory was written last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from amberlog import config
from amberlog._versions import session_in_name
from amberlog.errors import SessionError, SessionNotFoundError
from amberlog.session import SessionStore


@dataclass(frozen=True, slots=True)
class Skipped:
    """A session that was written later and cannot be read.

    Attributes:
        path: Its file.
        reason: Why it cannot be read.
    """

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class LastSession:
    """The session that was written last.

    Attributes:
        path: Its file, of the highest version.
        skipped: Those that were written later and cannot be read.
    """

    path: Path
    skipped: tuple[Skipped, ...]


def last_session() -> LastSession:
    """Returns the session written last that can be read; of equal times the first by name.

    What another process has written and not yet moved into the file counts. Forks, versions and
    legacy names are sessions like others; of several versions of one session the highest stands
    for all.

    Raises:
        SessionNotFoundError: There is none.
    """
    directory = config.session_dir()
    skipped = []
    for path in sorted(_candidates(directory), key=lambda path: (-_written_ns(path), path.name)):
        try:
            SessionStore.open_readonly(path).close()
        except SessionError as error:
            skipped.append(Skipped(path, str(error)))
            continue
        return LastSession(path, tuple(skipped))
    raise SessionNotFoundError(
        f"there is no session that can be read in `{directory}`", path=str(directory)
    )


def _candidates(directory: Path) -> list[Path]:
    highest: dict[str, tuple[int, Path]] = {}
    for file in sorted(directory.iterdir()) if directory.is_dir() else []:
        found = session_in_name(file.name)
        if found is None or not file.is_file():
            continue
        name, version = found
        if version >= highest.get(name, (-1, file))[0]:
            highest[name] = (version, file)
    return [file for _, file in highest.values()]


def _written_ns(path: Path) -> int:
    written = path.stat().st_mtime_ns
    log = path.with_name(f"{path.name}-wal")
    try:
        found = log.stat()
    except FileNotFoundError:
        return written
    return max(written, found.st_mtime_ns) if found.st_size else written

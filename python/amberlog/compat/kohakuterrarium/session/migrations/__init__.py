"""Old sessions made into present ones, and the files of a session by their versions."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import migration
from amberlog.compat.kohakuterrarium.session.version import detect_format_version
from amberlog.errors import SessionDamagedError, SessionMigrationError
from amberlog.session import FORMAT_VERSION as MAX_SUPPORTED_VERSION

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


def migrate(source_path: str | os.PathLike[str], target_version: int) -> Path:
    """Makes a session of a version of an older one, beside it, and returns its path.

    A session that is of that version already is returned as it is.

    Raises:
        SessionNotFoundError: There is no such file.
        ValueError: No migration leads to that version.
        RuntimeError: It could not be migrated; the cause says why.
    """
    if detect_format_version(source_path) >= target_version:
        return Path(source_path)
    if target_version > MAX_SUPPORTED_VERSION:
        raise ValueError(f"no migration leads to format version {target_version}")
    with _failing_as_the_peers(source_path):
        return migration.migrate(source_path)


def ensure_latest_version(base_path: str | os.PathLike[str]) -> Path:
    """Returns the session to open instead of the one at `base_path`, migrated if need be.

    Raises:
        RuntimeError: It could not be migrated; the cause says why.
    """
    with _failing_as_the_peers(base_path):
        return migration.ensure_latest_version(base_path)


def latest_readable_version(base_path: str | os.PathLike[str]) -> Path:
    """Returns the newest file of a session that can be read; nothing is migrated."""
    return migration.latest_readable_version(base_path)


def discover_versions(base_path: str | os.PathLike[str]) -> list[tuple[int, Path]]:
    """Returns version and path of the files of a session, the highest version first.

    By the peer's contract a file that cannot be read is of version 1.
    """
    found = migration.discover_versions(base_path)
    return [(version or 1, path) for version, path in found]


def path_for_version(base_path: str | os.PathLike[str], version: int) -> Path:
    """Returns where a session of that version lies."""
    return migration.path_for_version(base_path, version)


@contextmanager
def _failing_as_the_peers(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except (SessionDamagedError, SessionMigrationError) as error:
        raise RuntimeError(f"migration of {path} failed: {error}") from error


__all__ = [
    "MAX_SUPPORTED_VERSION",
    "discover_versions",
    "ensure_latest_version",
    "latest_readable_version",
    "migrate",
    "path_for_version",
]

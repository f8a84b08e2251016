"""Old sessions made into present ones, and the files of a session by their versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import migration
from amberlog.compat.kohakuterrarium.session.version import detect_format_version
from amberlog.errors import SessionError, SessionNotFoundError
from amberlog.migration import (
    discover_versions,
    ensure_latest_version,
    latest_readable_version,
    path_for_version,
)
from amberlog.session import FORMAT_VERSION as MAX_SUPPORTED_VERSION

if TYPE_CHECKING:
    import os


def migrate(source_path: str | os.PathLike[str], target_version: int) -> Path:
    """Makes a session of a version of an older one, beside it, and returns its path.

    A session that is of that version already is returned as it is.

    Raises:
        SessionNotFoundError: There is no such file.
        RuntimeError: It could not be migrated; the cause says why.
    """
    if detect_format_version(source_path) >= target_version:
        return Path(source_path)
    if target_version > MAX_SUPPORTED_VERSION:
        raise ValueError(f"no migration leads to format version {target_version}")
    try:
        return migration.migrate(source_path)
    except SessionNotFoundError:
        raise
    except SessionError as error:
        raise RuntimeError(f"migration of {source_path} failed: {error}") from error


__all__ = [
    "MAX_SUPPORTED_VERSION",
    "discover_versions",
    "ensure_latest_version",
    "latest_readable_version",
    "migrate",
    "path_for_version",
]

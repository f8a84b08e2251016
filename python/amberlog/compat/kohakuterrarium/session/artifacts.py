"""The bytes that are kept beside a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog import artifacts

if TYPE_CHECKING:
    from pathlib import Path


def artifacts_dir_for(session_path: Path) -> Path:
    """Returns the directory of a session's artifacts, and creates it."""
    directory = artifacts.artifacts_dir_for(session_path)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def write_artifact_bytes(artifacts_dir: Path, filename: str, data: bytes) -> Path:
    """Writes an artifact whole and returns its path; it is on disk by then.

    Raises:
        ValueError: The name is empty, absolute, or leads out of the directory.
    """
    return artifacts.write(artifacts_dir, filename, data)


__all__ = ["artifacts_dir_for", "write_artifact_bytes"]

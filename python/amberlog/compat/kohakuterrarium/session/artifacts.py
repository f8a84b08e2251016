"""The bytes that are kept beside a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog import artifacts
from amberlog.artifacts import write as write_artifact_bytes

if TYPE_CHECKING:
    from pathlib import Path


def artifacts_dir_for(session_path: Path) -> Path:
    """Returns the directory of a session's artifacts, and creates it."""
    directory = artifacts.artifacts_dir_for(session_path)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


__all__ = ["artifacts_dir_for", "write_artifact_bytes"]

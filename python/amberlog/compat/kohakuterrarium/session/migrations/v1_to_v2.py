"""Sessions of the first format made into sessions of the second."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import migration
from amberlog.errors import SessionExistsError

if TYPE_CHECKING:
    import os


def migrate(source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]) -> None:
    """Makes a session of the second format at `target_path`; the source is only read.

    Raises:
        SessionNotFoundError: There is no source.
        SessionExistsError: There is a target.
        SessionMigrationError: What the source holds cannot be told apart.
    """
    if Path(target_path).exists():
        raise SessionExistsError(f"`{target_path}` exists", path=str(target_path))
    migration.run(source_path, target=target_path)


__all__ = ["migrate"]

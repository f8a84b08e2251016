"""The index of a session directory, as KohakuTerrarium's package of it offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog.compat.kohakuterrarium.studio.persistence.session_index.entry import (
    SCHEMA_VERSION,
    SessionIndexEntry,
)
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.hooks import (
    SessionIndexHook,
    push_index_update,
)
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.reconcile import (
    ReconcileReport,
    read_entry_from_disk,
)
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.stats import aggregate_stats
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.store import (
    SEARCH_COLUMNS,
    SessionIndex,
    SessionIndexPage,
)
from amberlog.index import SIDECAR_NAME, close_session_index, shared_index

if TYPE_CHECKING:
    import os
    from pathlib import Path


def get_session_index_default(
    session_dir: str | os.PathLike[str] | None = None,
) -> SessionIndex:
    """Returns the one index that this process has for a session directory.

    The first call brings it level with the disk. If that fails the error is logged, and the next
    call tries again.
    """
    return shared_index(SessionIndex, session_dir)


def sidecar_path_for(session_dir: Path) -> Path:
    """Returns where the index of a session directory is kept."""
    return session_dir / SIDECAR_NAME


def _get_open_index(session_dir: str | os.PathLike[str] | None = None) -> SessionIndex:
    """Returns the same index, without looking at the sessions; the peer's hooks are given it."""
    return shared_index(SessionIndex, session_dir, level=False)


__all__ = [
    "SCHEMA_VERSION",
    "SEARCH_COLUMNS",
    "ReconcileReport",
    "SessionIndex",
    "SessionIndexEntry",
    "SessionIndexHook",
    "SessionIndexPage",
    "_get_open_index",
    "aggregate_stats",
    "close_session_index",
    "get_session_index_default",
    "push_index_update",
    "read_entry_from_disk",
    "sidecar_path_for",
]

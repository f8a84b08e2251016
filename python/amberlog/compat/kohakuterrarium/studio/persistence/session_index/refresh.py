"""Scans that callers who come at once share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import amberlog.index
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.reconcile import reported

if TYPE_CHECKING:
    import os


def reconcile_guarded(
    session_dir: str | os.PathLike[str],
    index: amberlog.index.SessionIndex,
    *,
    full_rescan: bool,
) -> None:
    """Brings an index level, as `amberlog.index.refresh` does."""
    reported(amberlog.index.refresh(index, session_dir, full=full_rescan))


__all__ = ["reconcile_guarded"]

"""Bringing the index level with the disk, with the peer's report."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import amberlog.index
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.entry import (
    SessionIndexEntry,
    entry_of_file,
)
from amberlog.errors import SessionError

if TYPE_CHECKING:
    from pathlib import Path

    from amberlog.types import ReconcileReport as OurReport

logger = logging.getLogger("amberlog")


@dataclass
class ReconcileReport:
    """What a reconcile found and did.

    Attributes:
        read: How many files it read, or tried to.
        deleted: How many sessions left the index, since their files are gone.
        total: How many sessions there are on disk.
        elapsed_ms: How long it took, in milliseconds.
        aborted: Whether the directory could not be listed; the index is then as it was.
    """

    read: int
    deleted: int
    total: int
    elapsed_ms: float
    aborted: bool = False


def reconcile(
    index: amberlog.index.SessionIndex,
    session_dir: Path,
    *,
    full: bool = False,
    workers: int | None = None,
) -> ReconcileReport:
    """Brings an index level with a directory, as `amberlog.index.reconcile` does.

    What cannot be read is logged, and not tried again until it changes.
    """
    usable = None if workers is None else min(max(1, workers), 1024)
    return reported(amberlog.index.reconcile(index, session_dir, full=full, workers=usable))


def reported(report: OurReport) -> ReconcileReport:
    """Returns the peer's report of a reconcile; what cannot be read is logged."""
    for one in report.unreadable:
        logger.warning("%s cannot be listed: %s", one.path, one.reason)
    return ReconcileReport(
        report.read, report.deleted, report.total, report.elapsed_ms, report.aborted
    )


def read_entry_from_disk(path: Path) -> SessionIndexEntry | None:
    """Returns the entry of a session's file; None when it cannot be read, which is logged."""
    try:
        return entry_of_file(path)
    except (SessionError, OSError, ValueError):
        logger.warning("the entry of %s cannot be read", path, exc_info=True)
        return None


__all__ = ["ReconcileReport", "read_entry_from_disk", "reconcile"]

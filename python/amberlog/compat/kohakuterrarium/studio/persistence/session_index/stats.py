"""Counts over all sessions of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amberlog.index import SessionIndex


def aggregate_stats(index: SessionIndex) -> dict[str, object]:
    """Returns counts over all sessions, as `amberlog.SessionIndex.stats` does."""
    return index.stats()


__all__ = ["aggregate_stats"]

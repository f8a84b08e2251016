"""What the core takes and returns where an event or a snapshot is several values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

NewEventParts: TypeAlias = tuple[
    str, Mapping[str, object], int | None, int | None, tuple[tuple[int, int], ...] | None, bool
]
"""Type, fields, turn, branch, parent path, and whether the path may be left out."""

SnapshotParts: TypeAlias = tuple[
    list[Mapping[str, object]] | None, Mapping[str, object] | None, Mapping[str, object] | None
]
"""Messages, branch and compaction counters."""

StoredParts: TypeAlias = tuple[str, int, bool, dict[str, object] | None]
"""Key, id, whether the path is stated, and the event as stored where that was asked for."""

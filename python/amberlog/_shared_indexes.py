"""The indexes that a process has one of for each directory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Protocol


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Closes it."""


Place = tuple[type[Closable], Path]
"""A kind of index, and the directory that one is for."""


class SharedIndexes:
    """The indexes that this process shares, each with whether it was brought level once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process = os.getpid()
        self.by_place: dict[Place, Closable] = {}
        self.level: set[Place] = set()


_of_processes: list[SharedIndexes] = []


def shared_indexes() -> SharedIndexes:
    """Returns those of this process."""
    # A forked child opens indexes of its own: those of its parent are not for it, and the lock may
    # be held by a thread that it does not have.
    if not _of_processes or _of_processes[-1].process != os.getpid():
        _of_processes.append(SharedIndexes())
    return _of_processes[-1]


__all__ = ["SharedIndexes", "shared_indexes"]

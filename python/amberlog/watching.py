"""What keeps an index level with its directory for as long as a program runs."""

from __future__ import annotations

import importlib
import logging
import os
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog.errors import MissingExtraError, SessionClosedError, SessionError
from amberlog.index import MIRROR, refresh

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self
    from watchfiles import Change

    from amberlog.index import SessionIndex

logger = logging.getLogger("amberlog")

# A session that is written all the time is read again after so many milliseconds.
_GATHER_MS = 400
# So often it is looked whether the directory is still the one that is watched.
_TURN_MS = 500
# So many changed files cost more than a look at all.
_MANY = 256
# Reading takes this share of the time at most, and waits no longer than so many seconds.
_REST, _LONGEST_REST_S = 10, 5.0
_RETRY_S = 1.0


class SessionIndexWatch:
    """Keeps an index level with its directory, by what the system tells of changes there.

    A thread of its own brings the index level once, and then reads only the sessions that
    change; other changes than those to single sessions, such as a version that comes beside
    another, bring one look at the directory. What the system does not tell (a write over a
    network file system, more changes than its queue holds) is found by a look at the directory
    from time to time. What fails is logged and tried again.

    Args:
        index: The index; who closes it closes the watch first.
        look_every_s: How many seconds pass at most between two looks at all files.

    Raises:
        MissingExtraError: `watchfiles` is not installed, which `amberlog[watch]` brings.
        ValueError: `look_every_s` is not positive.
    """

    def __init__(self, index: SessionIndex, *, look_every_s: float = 60.0) -> None:
        if not look_every_s > 0:
            raise ValueError("look_every_s: a positive number is needed")
        check_extra()
        self._index = index
        self._directory = index.directory.absolute()
        self._look_every_s = look_every_s
        self._process = os.getpid()
        self._stops = threading.Event()
        # When to look at all files; at once, since changes before the watch are not told.
        self._look_at = 0.0
        self._thread = threading.Thread(target=self._run, name="amberlog-index-watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_watching(self) -> bool:
        """Whether it goes on: until it is closed, or the index is."""
        return os.getpid() == self._process and self._thread.is_alive()

    def close(self) -> None:
        """Stops watching, and returns when nothing is read or written any more.

        Closing twice is no error.
        """
        self._stops.set()
        # A forked child has no such thread.
        if os.getpid() == self._process:
            self._thread.join()

    def _run(self) -> None:
        while not self._stops.is_set():
            try:
                self._watch_for_a_while()
            except SessionClosedError:
                logger.info("the index of %s was closed, and is watched no more", self._directory)
                return
            except (SessionError, OSError, RuntimeError) as error:
                # RuntimeError is what watchfiles raises, also for a name that is not UTF-8.
                logger.warning("watching %s failed: %s", self._directory, error, exc_info=True)
                self._look_at = 0.0
                self._stops.wait(_RETRY_S)

    def _watch_for_a_while(self) -> None:
        """Watches until the directory, or the one of mirrored sessions, is another one."""
        # An extra that nobody else needs.
        from watchfiles import watch  # noqa: PLC0415

        watched = self._watched()
        if not watched:
            # Nothing can be watched until it is made.
            self._look_at = 0.0
            self._stops.wait(_RETRY_S)
            return
        places = {one.real: one.prefix for one in watched}
        for changes in watch(
            *places,
            watch_filter=None,
            debounce=_GATHER_MS,
            stop_event=self._stops,
            rust_timeout=_TURN_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
        ):
            began = time.monotonic()
            self._level(_below(places, changes), began)
            if self._watched() != watched:
                self._look_at = 0.0
                return
            took = time.monotonic() - began
            self._stops.wait(min(took * _REST, _LONGEST_REST_S))

    def _watched(self) -> list[_Place]:
        """Returns the directories that are to be watched, as they are now."""
        found = []
        for directory, prefix in ((self._directory, ""), (self._directory / MIRROR, f"{MIRROR}/")):
            try:
                status = directory.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISDIR(status.st_mode):
                real = directory.resolve()
                found.append(_Place(real, prefix, status.st_dev, status.st_ino))
        return found

    def _level(self, changed: list[str], now: float) -> None:
        is_due = now >= self._look_at
        if not is_due and (not changed or (len(changed) <= _MANY and self._index.follow(changed))):
            return
        # Whatever goes wrong from here on brings another look.
        self._look_at = 0.0
        report = refresh(self._index, self._index.directory)
        self._look_at = now + (_RETRY_S if report.aborted else self._look_every_s)


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory that is watched, and what tells it from another one of its name."""

    real: Path
    prefix: str
    device: int
    inode: int


def check_extra() -> None:
    """Does nothing where directories can be watched.

    Raises:
        MissingExtraError: `watchfiles` is not installed, which `amberlog[watch]` brings.
    """
    try:
        importlib.import_module("watchfiles")
    except ImportError as error:
        raise MissingExtraError(
            "watching a directory needs `watchfiles`: pip install 'amberlog[watch]'",
            extra="watch",
            package="watchfiles",
        ) from error


def _below(places: Mapping[Path, str], changes: Iterable[tuple[Change, str]]) -> list[str]:
    """Returns the paths of changes below the session directory."""
    changed = {Path(path) for _, path in changes}
    return [f"{places[path.parent]}{path.name}" for path in changed if path.parent in places]


__all__ = ["SessionIndexWatch", "check_extra"]

"""The lock around a session's file, as the peer's code asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._core import ChatLock
from amberlog.chat.store import DEFAULT_LOCK_TIMEOUT
from amberlog.errors import SessionBusyError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class FileLock:
    """The lock that all writers of a file take; for a `with` block, or `acquire` and `release`.

    It is `flock` on `<file>.lock`, and excludes threads of one process too.

    Args:
        filepath: The file.
        timeout: Seconds to wait for it.
    """

    def __init__(self, filepath: str, timeout: float = DEFAULT_LOCK_TIMEOUT) -> None:
        self.filepath = filepath
        self.timeout = timeout
        self._lock = ChatLock(Path(filepath), timeout_s=timeout)

    def acquire(self) -> bool:
        """Waits for the lock and returns whether it is held; its directory is made."""
        Path(self.filepath).parent.mkdir(parents=True, exist_ok=True)
        return self._lock.acquire()

    def release(self) -> None:
        """Lets go of the lock; does nothing where it is not held."""
        self._lock.release()

    def __enter__(self) -> Self:
        if not self.acquire():
            raise SessionBusyError(f"{self.filepath!r} is busy", path=self.filepath)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


__all__ = ["FileLock"]

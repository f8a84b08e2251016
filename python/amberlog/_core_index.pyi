"""The part of the compiled core that keeps the index of a session directory."""

from collections.abc import Callable, Sequence
from typing import final

@final
class Index:
    """The sidecar of one session directory. Safe to share between threads.

    Where it cannot be written it is by-passed in memory. One that is damaged is begun anew and
    filled from the directory that it was last reconciled with.
    """

    @staticmethod
    def open(path: str) -> Index:
        """Opens a sidecar; creates the file and its parents where they are missing."""

    @property
    def path(self) -> str:
        """The path of the file."""

    def is_in_memory(self) -> bool:
        """Whether the file is by-passed."""

    def is_bootstrapped(self) -> bool:
        """Whether a reconcile was ever finished."""

    def close(self) -> None:
        """Closes the file. A second call does nothing."""

    def page(
        self,
        search: str,
        status: str | None,
        config_type: str | None,
        node_id: str | None,
        sort: str,
        ascending: bool,
        limit: int,
        offset: int,
        cursor: str | None,
    ) -> tuple[list[dict[str, object]], int, str | None, list[tuple[str, str]]]:
        """Returns rows, total, next cursor, and the unreadable files with their reasons."""

    def get(self, filename: str) -> dict[str, object] | None:
        """Returns the row of a session."""

    def named(self, name: str) -> dict[str, object] | None:
        """Returns the row of the session of exactly that name."""

    def unreadable(self) -> list[tuple[str, str]]:
        """Returns the files that cannot be read, with their reasons."""

    def count(self) -> int:
        """Returns how many sessions there are."""

    def filenames(self) -> list[str]:
        """Returns the keys of all sessions, in order."""

    def children(self, filename: str) -> list[dict[str, object]]:
        """Returns the rows of the forks of a session."""

    def parent(self, filename: str) -> dict[str, object] | None:
        """Returns the row of the session that one was forked from."""

    def stats(self) -> dict[str, object]:
        """Returns counts over all sessions."""

    def upsert(self, filename: str, fields: dict[str, object]) -> None:
        """Writes an entry."""

    def delete(self, filename: str) -> bool:
        """Removes an entry; whether there was one."""

    def forget(self, path: str) -> None:
        """Removes what is known of a file, given its path below the directory."""

    def meta(self, key: str) -> object:
        """Returns a field about the index."""

    def put_meta(self, key: str, value: object) -> None:
        """Writes a field about the index."""

    def push(self, directory: str, path: str) -> None:
        """Reads one session's file and brings its entry level."""

    def follow(self, directory: str, changed: Sequence[str]) -> bool:
        """Brings the entries of changed files level; whether that was possible without a scan."""

    def reconcile(
        self,
        directory: str,
        full: bool,
        workers: int | None,
        shared: bool,
        progress: Callable[[int, int], object] | None,
    ) -> dict[str, object]:
        """Brings the index level with a directory; returns the fields of a report."""

def disk_usage(directory: str) -> dict[str, object]:
    """Returns what the sessions of a directory take on disk."""

def session_row(path: str) -> dict[str, object]:
    """Returns what a listing would say of one session's file."""

def session_files(directory: str, name: str) -> list[str]:
    """Returns the files that an exact name means in a session directory."""

def delete_files(files: list[str]) -> list[str]:
    """Deletes the files of a session with all that belongs to them; returns what was removed."""

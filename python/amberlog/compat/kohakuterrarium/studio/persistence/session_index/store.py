"""The index under the peer's contract, which is looser than ours."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import amberlog.index
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.entry import (
    SessionIndexEntry,
    judged,
)
from amberlog.errors import SessionClosedError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

SEARCH_COLUMNS = (
    "name",
    "preview",
    "config_path",
    "agents",
    "pwd",
    "terrarium_name",
    "config_type",
    "title",
    "summary",
    "last_user",
    "last_reply",
)
"""The texts of a session that the peer's search looks through."""

_LARGEST_LIMIT = 2**32 - 2
_LARGEST_OFFSET = 2**63 - 1


@dataclass(slots=True)
class SessionIndexPage:
    """One page of a listing.

    Attributes:
        rows: The sessions.
        total: How many sessions there are on all pages.
        offset: How many were passed over.
        limit: How many were asked for.
    """

    rows: builtins.list[dict[str, object]]
    total: int
    offset: int
    limit: int

    def to_dict(self) -> dict[str, object]:
        """Returns the page as an answer to a request."""
        return {
            "sessions": self.rows,
            "total": self.total,
            "offset": self.offset,
            "limit": self.limit,
        }


class SessionIndex(amberlog.index.SessionIndex):
    """`amberlog.SessionIndex` with what code written for the peer expects of it.

    A sort or order that there is not is the usual one, and limits and offsets are brought into
    their range. Entries are values, and may be written by a thread of the index.
    """

    def __init__(self, sidecar_path: str | os.PathLike[str]) -> None:
        super().__init__(sidecar_path)
        self._guard = threading.Lock()
        self._writer: ThreadPoolExecutor | None = None
        self._is_closed = False

    def list(  # type: ignore[override]  # the peer's pages are other values
        self,
        *,
        search: str = "",
        status: str | None = None,
        config_type: str | None = None,
        node_id: str | None = None,
        sort: str = "last_active",
        order: str = "desc",
        limit: int = 20,
        offset: int = 0,
    ) -> SessionIndexPage:
        """Returns one page of the sessions, as `amberlog.SessionIndex.list` does."""
        limit = min(max(1, int(limit)), _LARGEST_LIMIT)
        offset = min(max(0, int(offset)), _LARGEST_OFFSET)
        page = super().list(
            search=search or "",
            status=status,
            config_type=config_type,
            node_id=node_id,
            sort=sort if sort in amberlog.index.SORTS else "last_active",
            order=order if order in amberlog.index.ORDERS else "desc",
            limit=limit,
            offset=offset,
        )
        return SessionIndexPage([judged(row) for row in page.rows], page.total, offset, limit)

    def get(self, filename: str) -> dict[str, object] | None:
        """Returns the row of one session; None when it is not listed."""
        row = super().get(filename)
        return None if row is None else judged(row)

    def fingerprint(self, filename: str) -> tuple[float, int] | None:
        """Returns when a session's file or log were last written, and the file's size."""
        row = super().get(filename)
        if row is None:
            return None
        return (cast("float", row["file_mtime"]), cast("int", row["file_size"]))

    def all_filenames(self) -> builtins.list[str]:
        """Returns the file names of all sessions, in order."""
        return builtins.list(super().all_filenames())

    def iter_entries(self) -> Iterator[dict[str, object]]:
        """Yields the rows of all sessions by name."""
        cursor = None
        while True:
            page = super().list(sort="name", order="asc", limit=500, cursor=cursor)
            yield from map(judged, page.rows)
            cursor = page.next_cursor
            if cursor is None:
                return

    def upsert(self, entry: Mapping[str, object] | SessionIndexEntry) -> None:
        """Writes an entry in the place of the one of its `filename`."""
        given = entry if isinstance(entry, Mapping) else entry.to_dict()
        super().upsert({key: value for key, value in given.items() if key != "_search_rowid"})

    def upsert_many(self, entries: Iterable[SessionIndexEntry]) -> int:
        """Writes entries one after the other, and returns how many."""
        count = 0
        for entry in entries:
            self.upsert(entry)
            count += 1
        return count

    def submit_update(self, entry: SessionIndexEntry) -> Future[None]:
        """Has the one writing thread of the index write an entry.

        Raises:
            SessionClosedError: The index is closed.
        """
        with self._guard:
            if self._is_closed:
                raise SessionClosedError("the index is closed", path=self.path)
            if self._writer is None:
                self._writer = ThreadPoolExecutor(1, thread_name_prefix="amberlog-index")
            return self._writer.submit(self.upsert, entry)

    def clear(self) -> None:
        """Removes all entries; the next reconcile reads their sessions again."""
        for filename in self.all_filenames():
            self.delete(filename)

    def close(self) -> None:
        """Writes what was submitted, and closes the index. Closing twice is no error."""
        with self._guard:
            self._is_closed = True
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()
        super().close()


__all__ = ["SEARCH_COLUMNS", "SessionIndex", "SessionIndexPage"]

"""The index over the sessions of a directory: listed, searched, and kept level with the disk."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from amberlog._core import Index, delete_files, disk_usage, session_files, session_row
from amberlog._shared_indexes import shared_indexes
from amberlog.config import session_dir as configured_directory
from amberlog.errors import SessionError
from amberlog.types import ReconcileReport, SessionPage, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

logger = logging.getLogger("amberlog")

SIDECAR_NAME = ".kt-index.kvault"
"""How the index of a session directory is called; it can always be deleted."""

MIRROR = "mirror"
"""The directory below a session directory that copies of other nodes' sessions are kept in."""

SORTS = ("last_active", "created_at", "name", "status", "relevance")
"""What a listing can be sorted by."""

ORDERS = ("desc", "asc")
"""In which direction."""

_LARGEST_LIMIT = 2**32 - 2
_LARGEST_OFFSET = 2**63 - 1


class SessionIndex:
    """The index of one session directory, in a sidecar file beside the sessions.

    It is derived from the sessions: `reconcile` brings it level with the disk, `SessionIndexHook`
    keeps it level with a session that is being recorded. A sidecar that is damaged, or that a
    newer version wrote, is begun anew; where it cannot be written it is by-passed in memory, and
    is then empty until it is reconciled. It may be shared between threads, and several processes
    may have the same sidecar open. Rows are mappings; `docs/index.md` lists their fields.

    Args:
        sidecar_path: The file, called `.kt-index.kvault` in its session directory; it is created
            with its parents when it is missing.

    Raises:
        ValueError: The path is that of a session, or of something else that is no index.
        SessionBusyError: Another process held the sidecar for longer than the call would wait.
    """

    def __init__(self, sidecar_path: str | os.PathLike[str]) -> None:
        self._index = Index.open(os.fsdecode(sidecar_path))

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Self:
        """Opens the index of a session directory, without looking at the sessions."""
        return cls(Path(os.fsdecode(directory)) / SIDECAR_NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SessionIndex({self.path!r})"

    @property
    def path(self) -> str:
        """The path of the sidecar."""
        return self._index.path

    @property
    def directory(self) -> Path:
        """The directory that the sidecar lies in."""
        return Path(self.path).parent

    @property
    def in_memory(self) -> bool:
        """Whether the sidecar cannot be written, so that it is by-passed in memory."""
        return self._index.is_in_memory()

    @property
    def bootstrap_completed(self) -> bool:
        """Whether a reconcile was ever finished."""
        return self._index.is_bootstrapped()

    def list(
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
        cursor: str | None = None,
    ) -> SessionPage:
        """Returns one page of the sessions; the cost does not grow with their number.

        Sessions that are equal in what they are sorted by come in the order of their names.

        Args:
            search: Words that must all be found in a session's name, title, summary, preview,
                last exchange, agents, paths or kind, in any order; the last one may be the
                beginning of a word. A phrase stands in double quotes. Blank for all sessions.
            status: Only sessions with exactly this status.
            config_type: Only sessions of exactly this kind.
            node_id: Only sessions of exactly this node; "" is this one.
            sort: One of `SORTS`. `relevance` is the order of a search, best first; a search whose
                words stand in most sessions, and no search at all, is in the order of
                `last_active` instead.
            order: `desc` or `asc`.
            limit: The most rows, from 1 on.
            offset: How many rows to pass over; its cost grows with it, that of `cursor` does not.
            cursor: The `next_cursor` of the page before, with the other arguments unchanged.

        Raises:
            ValueError: An argument is none of these, or both `offset` and `cursor` are given.
        """
        _check_one_of("sort", sort, SORTS)
        _check_one_of("order", order, ORDERS)
        _check_number("limit", limit, 1, _LARGEST_LIMIT)
        _check_number("offset", offset, 0, _LARGEST_OFFSET)
        if cursor is not None and offset:
            raise ValueError("offset: a cursor goes on from its page, so there is nothing to skip")
        rows, total, following, unreadable = self._index.page(
            search, status, config_type, node_id, sort, order == "asc", limit, offset, cursor
        )
        return SessionPage(tuple(rows), total, offset, limit, following, _unreadable(unreadable))

    def search(self, query: str, *, limit: int = 20, offset: int = 0) -> SessionPage:
        """Returns the sessions that hold all words of a query, best first; of a blank one none."""
        if not query.strip():
            _check_number("limit", limit, 1, _LARGEST_LIMIT)
            _check_number("offset", offset, 0, _LARGEST_OFFSET)
            return SessionPage((), 0, offset, limit, None, self.unreadable())
        return self.list(search=query, sort="relevance", limit=limit, offset=offset)

    def get(self, filename: str) -> dict[str, object] | None:
        """Returns the row of one session; None when it is not listed.

        Raises:
            SessionDamagedError: The index's entry of it cannot be decoded. The next reconcile reads
                the session again.
        """
        return self._index.get(filename)

    def named(self, name: str) -> dict[str, object] | None:
        """Returns the row of the session of exactly that name; None when there is none.

        Where the directory and `mirror` both have one, it is that of the directory.
        """
        return self._index.named(name)

    def unreadable(self) -> tuple[Unreadable, ...]:
        """Returns the files that are called like sessions and cannot be listed."""
        return _unreadable(self._index.unreadable())

    def count(self) -> int:
        """Returns how many sessions are listed."""
        return self._index.count()

    def all_filenames(self) -> Iterable[str]:
        """Returns the file names of all sessions, in order."""
        return self._index.filenames()

    def iter_entries(self) -> Iterator[Mapping[str, object]]:
        """Yields the rows of all sessions by name, one page at a time."""
        cursor = None
        while True:
            page = self.list(sort="name", order="asc", limit=500, cursor=cursor)
            yield from page.rows
            cursor = page.next_cursor
            if cursor is None:
                return

    def children(self, filename: str) -> tuple[Mapping[str, object], ...]:
        """Returns the rows of the sessions that were forked from one, the oldest first."""
        return tuple(self._index.children(filename))

    def parent(self, filename: str) -> dict[str, object] | None:
        """Returns the row of the session that one was forked from; None when it is not listed."""
        return self._index.parent(filename)

    def stats(self) -> dict[str, object]:
        """Returns counts over all sessions, under the names that `docs/index.md` lists."""
        return self._index.stats()

    def disk_usage(self) -> dict[str, object]:
        """Returns what the sessions of the directory take on disk; looks at each file."""
        return disk_usage(str(self.directory))

    def upsert(self, entry: Mapping[str, object]) -> None:
        """Writes an entry in the place of the one of its `filename`.

        The next `reconcile` reads the session's file all the same.

        Raises:
            ValueError: The entry has no `filename`, or a value that cannot be stored.
        """
        filename = entry.get("filename")
        if not isinstance(filename, str):
            raise ValueError("filename: an entry needs the name of its file")  # noqa: TRY004  # a wrong value
        self._index.upsert(filename, dict(entry))

    def delete(self, filename: str) -> bool:
        """Removes an entry and returns whether there was one; the session is not touched."""
        return self._index.delete(filename)

    def meta_get(self, key: str, default: object = None) -> object:
        """Returns a field about the index itself."""
        found = self._index.meta(key)
        return default if found is None else found

    def meta_put(self, key: str, value: object) -> None:
        """Writes a field about the index itself."""
        self._index.put_meta(key, value)

    def push(self, path: str | os.PathLike[str]) -> None:
        """Brings the entry of one session level with its file, which may be open.

        Raises:
            ValueError: The file does not lie in the directory of the index.
            SessionNotFoundError: There is no such file.
        """
        self._index.push(str(self.directory), os.fsdecode(path))

    def follow(self, changed: Iterable[str]) -> bool:
        """Brings the entries of files level that are said to have changed, and looks at no other.

        Only an index that was level before the changes stays so.

        Args:
            changed: Their paths below the directory of the index; the name of a write-ahead log
                means its session, and what is no session's changes nothing.

        Returns:
            Whether that could be done. If not nothing was, and `refresh` is needed: where the
            index was not reconciled yet, and where other versions of a session, or another
            session of the same file name in `mirror`, have to be asked.
        """
        return self._index.follow(str(self.directory), list(changed))

    def close(self) -> None:
        """Closes the index. Closing twice is no error."""
        self._index.close()


def reconcile(
    index: SessionIndex,
    directory: str | os.PathLike[str],
    *,
    full: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> ReconcileReport:
    """Brings an index level with the sessions of a directory and of `mirror` in it.

    Only files that changed are read; where nothing did, each is looked at and none is opened. It
    never writes to a session or beside it. What cannot be read is reported and not tried again
    until it changes.

    Args:
        index: The index.
        directory: The session directory; one that is missing changes nothing.
        full: Reads every file, changed or not.
        workers: How many threads read; by default one for each processor, eight at most.
        progress: Called on this thread with the number of files done and to do. What it raises
            stops the work and is raised here; what was done until then stays.

    Raises:
        ValueError: `workers` is not positive.
    """
    return _run(index, directory, full=full, workers=workers, shared=False, progress=progress)


def refresh(
    index: SessionIndex,
    directory: str | os.PathLike[str],
    *,
    full: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> ReconcileReport:
    """Does the same for callers who come at once.

    One that waited while a scan of the directory began and ended is served by that scan, unless
    it asked for a full one.
    """
    return _run(index, directory, full=full, workers=None, shared=True, progress=progress)


def delete_session(
    directory: str | os.PathLike[str], name: str, *, index: SessionIndex | None = None
) -> tuple[Path, ...]:
    """Deletes a session: its file, its log, artifacts, lock file and index rows, and no more.

    Handles that have it open raise `SessionGoneError` at their next write. A link is removed,
    what it leads to stays.

    Args:
        directory: The session directory.
        name: The exact name of the session, for all of its versions, or of one file.
        index: The index to remove it from; by default the one of the directory, if there is one.

    Returns:
        What was removed.

    Raises:
        SessionNotFoundError: There is no session of exactly that name.
        SessionLockedError: Somebody holds the session's writer lock; nothing was removed.
        ValueError: The name could not be that of a session.
    """
    home = Path(os.fsdecode(directory))
    files = session_files(str(home), name)
    removed = delete_files(files)
    if index is not None:
        _forget(index, home, files)
    elif (home / SIDECAR_NAME).is_file():
        with SessionIndex.open(home) as opened:
            _forget(opened, home, files)
    return tuple(Path(path) for path in removed)


def read_row(path: str | os.PathLike[str]) -> dict[str, object]:
    """Returns what a listing would say of one session's file, which may be open elsewhere.

    Nothing is written, to the session or to an index.

    Raises:
        SessionNotFoundError: There is no such file.
        SessionDamagedError: It is no session, or one that cannot be read.
        SessionVersionError: A newer version wrote it.
    """
    return session_row(os.fsdecode(path))


def sidecar_path_for(directory: str | os.PathLike[str]) -> Path:
    """Returns where the index of a session directory is kept."""
    return Path(os.fsdecode(directory)) / SIDECAR_NAME


Kind = TypeVar("Kind", bound=SessionIndex)


def get_session_index_default(
    session_dir: str | os.PathLike[str] | None = None,
) -> SessionIndex:
    """Returns the one index that this process has for a session directory.

    The first call brings it level with the disk; calls at the same time share that scan. If that
    fails the error is logged, the index is returned as it is, and the next call tries again.

    Args:
        session_dir: The directory; by default `amberlog.config.session_dir()`.
    """
    return shared_index(SessionIndex, session_dir)


def shared_index(
    kind: type[Kind],
    session_dir: str | os.PathLike[str] | None = None,
    *,
    level: bool = True,
) -> Kind:
    """Returns the one index of a kind that this process has for a session directory.

    Args:
        kind: `SessionIndex`, or a class made of it.
        session_dir: The directory; by default `amberlog.config.session_dir()`.
        level: Whether it is to be brought level with the disk, where it was not yet.
    """
    chosen = configured_directory() if session_dir is None else Path(os.fsdecode(session_dir))
    directory = chosen.expanduser().resolve()
    place: tuple[type[SessionIndex], Path] = (kind, directory)
    shared = shared_indexes()
    with shared.lock:
        index = cast("Kind | None", shared.by_place.get(place))
        if index is None:
            index = shared.by_place[place] = kind.open(directory)
        is_level = place in shared.level
    if level and not is_level and _is_brought_level(index, directory):
        with shared.lock:
            shared.level.add(place)
    return index


def _is_brought_level(index: SessionIndex, directory: Path) -> bool:
    try:
        report = refresh(index, directory)
    except (SessionError, OSError):
        logger.exception("the index of %s could not be brought level", directory)
        return False
    if report.aborted:
        logger.error("%s could not be listed; its index is as it was", directory)
    return not report.aborted


def close_session_index() -> None:
    """Closes every index that `get_session_index_default` has opened in this process."""
    shared = shared_indexes()
    with shared.lock:
        indexes = list(shared.by_place.values())
        shared.by_place.clear()
        shared.level.clear()
    for index in indexes:
        index.close()


def _run(
    index: SessionIndex,
    directory: str | os.PathLike[str],
    *,
    full: bool,
    workers: int | None,
    shared: bool,
    progress: Callable[[int, int], object] | None,
) -> ReconcileReport:
    if workers is not None:
        _check_number("workers", workers, 1, 1024)
    fields = index._index.reconcile(  # noqa: SLF001  # a function of the same module
        os.fsdecode(directory), full, workers, shared, progress
    )
    report = ReconcileReport(
        read=cast("int", fields["read"]),
        deleted=cast("int", fields["deleted"]),
        total=cast("int", fields["total"]),
        unchanged=cast("int", fields["unchanged"]),
        unreadable=_unreadable(cast("list[tuple[str, str]]", fields["unreadable"])),
        elapsed_ms=cast("float", fields["elapsed_ms"]),
        aborted=cast("bool", fields["aborted"]),
    )
    if report.aborted:
        logger.error("%s could not be listed", os.fsdecode(directory))
    return report


def _forget(index: SessionIndex, home: Path, files: Iterable[str]) -> None:
    for file in files:
        index._index.forget(Path(file).relative_to(home).as_posix())  # noqa: SLF001  # same module


def _unreadable(found: Iterable[tuple[str, str]]) -> tuple[Unreadable, ...]:
    return tuple(Unreadable(path, reason) for path, reason in found)


def _check_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: one of {', '.join(known)} is needed, not {value!r}")


def _check_number(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{name}: a number from {lowest} to {highest} is needed, not {value!r}")


__all__ = [
    "MIRROR",
    "ORDERS",
    "SIDECAR_NAME",
    "SORTS",
    "SessionIndex",
    "close_session_index",
    "delete_session",
    "get_session_index_default",
    "read_row",
    "reconcile",
    "refresh",
    "shared_index",
    "sidecar_path_for",
]

"""Chat sessions carried between their homes: JSON files, one database, bundles."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from amberlog._chat_bundle import read_bundle, write_bundle
from amberlog.chat import DefaultSessionStore, SqliteTranscriptStore
from amberlog.errors import SessionError, SessionExistsError, SessionWriteError
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".kohakutr.v2"
_BUNDLES = re.compile(r".+\.kohakutr(\.v\d+)?")
_LONGEST_STEM = 100
_MIRRORED = (
    "model",
    "llm",
    "total_tokens",
    "token_count",
    "cost",
    "source",
    "reasoning_effort",
)

Document = dict[str, object]
Progress = Callable[[Iterable[str], int], Iterable[str]]


class ChatHome(Protocol):
    """A place that keeps chat sessions."""

    def ids(self) -> list[str]:
        """Returns the ids of its sessions."""
        ...

    def unreadable(self) -> dict[str, str]:
        """Returns what is there and holds no session, and why."""
        ...

    def read(self, session_id: str) -> Document | None:
        """Returns a session, whole; `None` where there is none."""
        ...

    def write(self, session_id: str, document: Document, *, overwrite: bool) -> None:
        """Keeps a session, with the times that it has."""
        ...


class StoreHome:
    """The sessions of a chat store.

    Args:
        store: The store.
    """

    def __init__(self, store: DefaultSessionStore) -> None:
        self._store = store

    def ids(self) -> list[str]:
        """Returns the ids of its sessions, in order."""
        return sorted(str(row["session_id"]) for row in self._store.list_sessions(None))

    def unreadable(self) -> dict[str, str]:
        """Returns what is there and holds no session, and why."""
        return dict(self._store.unreadable_sessions())

    def read(self, session_id: str) -> Document | None:
        """Returns a session as it is stored."""
        # A read of an id that is a file's stem would answer with that file's session.
        found = self._store.stored_session(session_id)
        if found is None or found.get("session_id") in (None, "", session_id):
            return found
        return None

    def write(self, session_id: str, document: Document, *, overwrite: bool) -> None:
        """Keeps a session, with the times and routes that it has.

        Raises:
            SessionExistsError: There is such a session, and it is not to be replaced.
            SessionWriteError: It cannot be kept.
        """
        payload = {"version": 1, "sessions": [{**document, "session_id": session_id}]}
        report = self._store.import_sessions(payload, reset_live_fields=False, overwrite=overwrite)
        if report.skipped:
            raise SessionWriteError(report.skipped[0]["reason"])


class BundleHome:
    """Bundles in one directory, each a chat session.

    Args:
        directory: The directory; made with the first session.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._failed: dict[str, str] = {}
        self._files: dict[str, Path] | None = None

    def ids(self) -> list[str]:
        """Returns the ids of its sessions, in order."""
        return sorted(self._known())

    def unreadable(self) -> dict[str, str]:
        """Returns the files that are no sessions, and why."""
        self._known()
        return dict(self._failed)

    def read(self, session_id: str) -> Document | None:
        """Returns a session: what was kept, or what an agent would resume with."""
        path = self._known().get(session_id)
        if path is None:
            return None
        with SessionStore.open_readonly(path) as store:
            return {**read_bundle(store), "session_id": session_id}

    def write(self, session_id: str, document: Document, *, overwrite: bool) -> None:
        """Makes a bundle of a session: whole under its name, or not at all.

        Raises:
            SessionExistsError: There is such a session, and it is not to be replaced.
        """
        known = self._known().get(session_id)
        target = known or self._directory / f"{_stem(session_id)}{SUFFIX}"
        if target.exists() and not (overwrite and known):
            raise SessionExistsError(f"there is something at `{target}` already", path=str(target))
        aside = self._directory / f".migrating-{uuid4().hex[:8]}"
        aside.mkdir(parents=True)
        try:
            made = aside / target.name
            store = SessionStore(made, durability="batch")
            try:
                write_bundle(store, {**document, "session_id": session_id})
            finally:
                # Else it would say that it was active now.
                store.close(update_status=False)
            made.replace(target)
        finally:
            shutil.rmtree(aside)
        self._known()[session_id] = target

    def _known(self) -> dict[str, Path]:
        if self._files is None:
            self._files = {}
            for path in sorted(self._directory.glob("*")):
                if _BUNDLES.fullmatch(path.name) and path.is_file():
                    self._note(path, self._files)
        return self._files

    def _note(self, path: Path, files: dict[str, Path]) -> None:
        try:
            with SessionStore.open_readonly(path) as store:
                # Of several versions of a session the highest counts, which comes last.
                files[store.session_id] = path
        except SessionError as error:
            self._failed[str(path)] = str(error)


@dataclass(frozen=True, slots=True)
class ChatMigrationReport:
    """What a migration did, or would do.

    Attributes:
        read: How many sessions the source has.
        written: The sessions that were made in the target.
        replaced: The sessions that were replaced there.
        unchanged: How many were there already, equal.
        differing: The sessions that are there and differ, and were left as they are.
        failed: What could not be carried over, and why.
        messages: How many messages were written, archived ones included.
    """

    read: int = 0
    written: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: int = 0
    differing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    messages: int = 0


def open_home(kind: str, path: Path) -> ChatHome:
    """Returns a home; one that is not there yet is made by this, unless it is one of bundles.

    Args:
        kind: `json` or `bundle` for a directory, `transcript` for a database.
        path: The directory or the database.

    Raises:
        ValueError: There is no such kind.
    """
    if kind == "json":
        return StoreHome(DefaultSessionStore(str(path), retention="keep_all"))
    if kind == "transcript":
        directory = path.parent / f".{path.name}.alone"
        # Beside a directory that is not there, so that a new database takes nothing over.
        store = SqliteTranscriptStore(str(directory), str(path), retention="keep_all")
        return StoreHome(store)
    if kind == "bundle":
        return BundleHome(path)
    raise ValueError(f"a home is 'json', 'transcript' or 'bundle', not {kind!r}")


def migrate_sessions(
    source: ChatHome,
    target: ChatHome | None,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda ids, _: ids,
) -> ChatMigrationReport:
    """Carries all sessions of one home to another; the source stays as it is.

    Done again it changes nothing: a session that is there, equal, is left. One that differs is left
    too, and named, unless it is to be replaced. One that fails does not stop the others.

    Args:
        source: Where the sessions are.
        target: Where they go; `None` for one that is not there yet, of which only a dry run is had.
        overwrite: Whether a session that differs is replaced.
        dry_run: Whether nothing is written.
        progress: Hands the ids on, told how many there are.

    Raises:
        ValueError: There is no target, and it is no dry run.
    """
    if target is None and not dry_run:
        raise ValueError("target: there is nothing to write to")
    failed = source.unreadable()
    written: list[str] = []
    replaced: list[str] = []
    differing: list[str] = []
    ids = source.ids()
    unchanged = messages = 0
    for session_id in progress(ids, len(ids)):
        try:
            document = source.read(session_id)
            if not session_id or document is None:
                failed[session_id] = "it has no id of its own, or is gone"
                continue
            there = None if target is None else target.read(session_id)
            if there is not None and _canonical(there) == _canonical(document):
                unchanged += 1
                continue
            if there is not None and not overwrite:
                differing.append(session_id)
                continue
            if target is not None and not dry_run:
                target.write(session_id, document, overwrite=overwrite)
        except (SessionError, OSError, TypeError, ValueError) as error:
            failed[session_id] = str(error)
            continue
        messages += _count(document, "messages") + _count(document, "archived_messages")
        (written if there is None else replaced).append(session_id)
    return ChatMigrationReport(len(ids), written, replaced, unchanged, differing, failed, messages)


def _canonical(document: Mapping[str, object]) -> str:
    """Returns what two documents have in common that are the same session."""
    filled = {key: value for key, value in document.items() if value not in (None, {}, [])}
    stored = filled.pop("metadata", None)
    metadata = {**stored} if isinstance(stored, dict) else {}
    for key in _MIRRORED:
        value = filled.pop(key, None)
        if value is not None:
            metadata.setdefault(key, value)
    filled["metadata"] = metadata
    return json.dumps(filled, sort_keys=True)


def _count(document: Mapping[str, object], key: str) -> int:
    found = document.get(key)
    return len(found) if isinstance(found, list) else 0


def _stem(session_id: str) -> str:
    """Returns the name of a session's file; two ids never have the same."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", session_id) and len(session_id) <= _LONGEST_STEM:
        return session_id
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", session_id)[:_LONGEST_STEM]
    return f"{plain}~{sha256(session_id.encode('utf-8')).hexdigest()[:16]}"


__all__ = [
    "BundleHome",
    "ChatHome",
    "ChatMigrationReport",
    "StoreHome",
    "migrate_sessions",
    "open_home",
]

"""What the index says of one session, as a value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, cast

from amberlog.index import read_row

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from typing_extensions import Self

SCHEMA_VERSION = 6
"""The version of the tables that the peer expects in the sidecar."""

_RUN_STATE = "kohakuterrarium.session.run_state"


@dataclass
class SessionIndexEntry:
    """The fields of a session that the peer lists; `docs/index.md` says what they mean.

    `_search_rowid` is kept for the peer's stored rows, and has no effect here.
    """

    filename: str
    name: str
    file_mtime: float
    file_size: int
    preview: str
    config_path: str
    agents: list[str]
    pwd: str
    config_type: str
    status: str
    last_active: str
    created_at: str
    format_version: int
    node_id: str
    terrarium_name: str = ""
    conversation_open: bool = False
    conversation_id: str | None = None
    has_vector_index: bool = False
    parent_session_id: str | None = None
    fork_point: int | None = None
    forked_children: list[str] = field(default_factory=list)
    migrated_from_version: int | None = None
    title: str = ""
    summary: str = ""
    summary_source: str = ""
    last_user: str = ""
    last_reply: str = ""
    turn_count: int = 0
    lifecycle: dict[str, object] = field(default_factory=dict)
    _search_rowid: int = 0

    @classmethod
    def from_meta(
        cls,
        *,
        path: Path,
        meta: Mapping[str, object],
        preview: str,
        has_vector_index: bool,
        file_mtime: float | None = None,
        file_size: int | None = None,
        exchange: Mapping[str, object] | None = None,
    ) -> Self:
        """Returns the entry of a session whose meta is known.

        Args:
            path: Its file, which gives the name, and is looked at for what is not told of it.
            meta: Its meta.
            preview: What it is shown by.
            has_vector_index: Whether vectors were built for it.
            file_mtime: When its file or log were last written, in seconds since 1970.
            file_size: Bytes of its file.
            exchange: `last_user`, `last_reply` and `turn_count`; by default empty.
        """
        lineage = _mapping(meta.get("lineage"))
        fork, migration = _mapping(lineage.get("fork")), _mapping(lineage.get("migration"))
        summary, said = _mapping(meta.get("summary")), exchange or {}
        conversation = meta.get("conversation_id")
        return cls(
            filename=path.name,
            name=_stem(path.name),
            file_mtime=_written_at(path) if file_mtime is None else float(file_mtime),
            file_size=path.stat().st_size if file_size is None else int(file_size),
            preview=preview or "",
            config_path=_text(meta.get("config_path")),
            agents=list(cast("list[str]", meta.get("agents") or [])),
            pwd=_text(meta.get("pwd")),
            config_type=_text(meta.get("config_type")) or "unknown",
            status=_text(meta.get("status")),
            last_active=_text(meta.get("last_active")),
            created_at=_text(meta.get("created_at")),
            format_version=_count(meta.get("format_version")) or 1,
            node_id=_text(meta.get("on_node")),
            terrarium_name=_text(meta.get("terrarium_name")),
            conversation_open=bool(meta.get("conversation_open")),
            conversation_id=str(conversation) if conversation else None,
            has_vector_index=bool(has_vector_index),
            parent_session_id=cast("str | None", fork.get("parent_session_id")),
            fork_point=cast("int | None", fork.get("fork_point")),
            forked_children=_children(meta.get("forked_children")),
            migrated_from_version=cast("int | None", migration.get("source_version")),
            title=_text(meta.get("name")),
            summary=_text(summary.get("text")),
            summary_source=_text(summary.get("source")),
            last_user=_text(said.get("last_user")),
            last_reply=_text(said.get("last_reply")),
            turn_count=_count(said.get("turn_count")),
            lifecycle=dict(_mapping(meta.get("lifecycle"))),
        )

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> Self:
        """Returns the entry of a row; what a row has besides is left out.

        Raises:
            TypeError: A field is missing that every row has.
        """
        known = {one.name for one in fields(cls)}
        given = {name: value for name, value in d.items() if name in known}
        return cls(**given)  # type: ignore[arg-type]  # the values of a row are those of its fields

    def to_search_columns(self) -> dict[str, str]:
        """Returns the texts that a search looks through."""
        return {
            "name": self.name,
            "preview": self.preview,
            "config_path": self.config_path,
            "agents": " ".join(self.agents),
            "pwd": self.pwd,
            "terrarium_name": self.terrarium_name,
            "config_type": self.config_type,
            "title": self.title,
            "summary": self.summary,
            "last_user": self.last_user,
            "last_reply": self.last_reply,
        }

    def to_dict(self) -> dict[str, object]:
        """Returns all fields."""
        return asdict(self)

    def to_listing_dict(self) -> dict[str, object]:
        """Returns the row as it is listed, with why the session does not run."""
        row = self.to_dict()
        del row["_search_rowid"]
        return judged(row)

    def fingerprint(self) -> tuple[float, int]:
        """Returns when file or log were last written, and the file's size."""
        return (self.file_mtime, self.file_size)


def judged(row: Mapping[str, object]) -> dict[str, object]:
    """Returns a row with why its session does not run, as the peer has it.

    A server of the peer in this process knows the sessions that it runs itself.
    """
    lifecycle = _mapping(row.get("lifecycle"))
    if run_state := sys.modules.get(_RUN_STATE):
        return {**row, "stop_reason": run_state.stop_reason(lifecycle)}
    recorded = lifecycle.get("stop_reason") or None
    if not lifecycle.get("live"):
        return {**row, "stop_reason": (recorded or "user") if lifecycle else None}
    return {**row, "stop_reason": recorded if recorded == "shutdown" else "crash"}


def entry_of_file(path: str | os.PathLike[str]) -> SessionIndexEntry:
    """Returns the entry of a session's file; raises what `amberlog.index.read_row` does."""
    return SessionIndexEntry.from_dict(read_row(path))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return str(value or "")


def _count(value: object) -> int:
    return int(cast("int", value or 0))


def _children(value: object) -> list[str]:
    listed = cast("list[object]", value or [])
    ids = [_mapping(one).get("session_id") if isinstance(one, Mapping) else one for one in listed]
    return cast(
        "list[str]", [one for one, given in zip(ids, listed, strict=True) if given is not None]
    )


def _stem(name: str) -> str:
    for ending in (".kohakutr", ".kt"):
        if name.endswith(ending):
            return name.removesuffix(ending)
    stem, separator, version = name.rpartition(".kohakutr.v")
    return stem if separator and version.isdigit() else name


def _written_at(path: Path) -> float:
    written = [path.stat().st_mtime]
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        written.append(log.stat().st_mtime)
    return max(written)


__all__ = ["SCHEMA_VERSION", "SessionIndexEntry"]

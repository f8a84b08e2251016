"""Directories of small sessions, and the fixture that the peer has listed."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, cast

from amberlog import SessionStore
from support.kohaku import FIXTURES, expected

if TYPE_CHECKING:
    from pathlib import Path

SIDECAR = ".kt-index.kvault"
Row = dict[str, object]


def record(path: Path, *said: str, agent: str = "alice", title: str = "") -> Path:
    """Makes a session in which a user said something and was answered; returns its path."""
    with SessionStore(path) as store:
        store.init_meta(path.name, "agent", "/c", "/w", [agent])
        if title:
            store.meta["name"] = title
        say(store, *said, agent=agent)
    return path


def say(store: SessionStore, *said: str, agent: str = "alice") -> None:
    """Records turns: what a user says, and an answer."""
    for text in said:
        store.append_event(agent, "user_input", {"content": text})
        store.append_event(agent, "user_message", {"content": text})
        store.append_event(agent, "text_chunk", {"content": f"answer to {text}"})


def many(directory: Path, count: int) -> list[str]:
    """Makes sessions `s000`, `s001`, … and returns the names of their files."""
    return [record(directory / f"s{at:03d}.kohakutr", f"words {at}").name for at in range(count)]


def fixture_directory(target: Path, *, with_sidecar: bool) -> Path:
    """Unpacks the directory that the peer has indexed, times kept."""
    with tarfile.open(FIXTURES / "sessions_dir.tar.gz") as archive:
        archive.extractall(target, filter="data")
    directory = target / "sessions"
    if not with_sidecar:
        (directory / SIDECAR).unlink()
    return directory


def fixture_rows() -> dict[str, Row]:
    """Returns the rows that the peer lists of that directory, by file name."""
    rows = cast("list[Row]", expected("sessions_dir", "entries"))
    return {str(row["filename"]): row for row in rows}


def files_below(directory: Path) -> set[str]:
    """Returns the names of everything in a directory and below."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}

"""A reader of session files that shares no code with the package: sqlite3 and msgpack."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import msgpack

if TYPE_CHECKING:
    from pathlib import Path

HEADER = bytes.fromhex("894b010400000000564b")
KV_TABLES = (
    "meta",
    "state",
    "events",
    "channels",
    "subagents",
    "jobs",
    "conversation",
    "turn_rollup",
)


def decoded(stored: bytes) -> object:
    """Returns a stored value: raw bytes, or the first object behind the MessagePack header."""
    if not stored.startswith(HEADER):
        return stored
    unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
    unpacker.feed(stored[len(HEADER) :])
    return unpacker.unpack()


def encoded(value: object) -> bytes:
    """Returns a value as a foreign writer stores it: without a checksum."""
    packed: bytes = msgpack.packb(value)
    return HEADER + packed


def rows(path: Path, table: str) -> dict[str, object]:
    """Returns a table of a session that nobody in this process has open, in key order."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(f"SELECT key, value FROM {table} ORDER BY key")  # noqa: S608  # our own names
        return {bytes(key).decode(): decoded(bytes(value)) for key, value in found}


def write(path: Path, table: str, records: dict[str, bytes]) -> None:
    """Puts stored values under keys, past the package; the session must be closed here."""
    ddl = f"CREATE TABLE IF NOT EXISTS {table} (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
    put = f"INSERT OR REPLACE INTO {table} (key, value) VALUES (?, ?)"  # noqa: S608  # our own names
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(ddl)
        connection.executemany(put, [(key.encode(), value) for key, value in records.items()])


def tables(path: Path) -> set[str]:
    """Returns the names of the tables of a session that nobody in this process has open."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {str(name) for (name,) in found}


def add_text(path: Path, text: str, entry: dict[str, object]) -> None:
    """Adds a row to the peer's text index, as the peer does it."""
    ddl = (
        "CREATE VIRTUAL TABLE IF NOT EXISTS fts USING fts5(content, value_ref UNINDEXED);"
        "CREATE TABLE IF NOT EXISTS fts_values"
        " (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);"
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(ddl)
        put = connection.execute("INSERT INTO fts_values (value) VALUES (?)", [encoded(entry)])
        row = (text, put.lastrowid)
        connection.execute("INSERT INTO fts (content, value_ref) VALUES (?, ?)", row)


def texts(path: Path) -> list[str]:
    """Returns the texts of the peer's text index."""
    with closing(sqlite3.connect(path)) as connection:
        return [str(text) for (text,) in connection.execute("SELECT content FROM fts")]

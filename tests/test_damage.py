"""Bytes that went bad on disk: said by name, never taken for data, never overwritten."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionDamagedError, SessionStore
from torture.places import listing, shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = "alice:e000001"


@pytest.fixture
def recorded(path: Path) -> Path:
    """Returns a session of five events and one record in each other table."""
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "", ["alice"])
        for n in range(5):
            store.append_event("alice", "user_message", {"content": f"zebra{n} crosses", "n": n})
        store.save_state("alice", scratchpad={"plan": "to cross"})
        store.save_conversation("alice", [{"role": "user", "content": "to cross"}])
        store.save_channel_message("c", {"content": "hello there"})
        store.save_subagent("alice", "x", 0, {"task": "look around"})
        store.save_job("job", {"command": "sleep"})
        store.save_turn_rollup("alice", 1, {"summary": "crossed"})
        store.state["raw"] = b"raw bytes"
        store.close(update_status=False)
    return path


def flip(path: Path, table: str, key: str, at: int = -12) -> None:
    """Changes one bit of a stored value where it lies in the file."""
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    query = f"SELECT value FROM {table} WHERE key = ?"  # noqa: S608  # a name of this file
    stored: bytes = connection.execute(query, [key.encode()]).fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    assert content.count(stored) == 1
    content[content.index(stored) + at % len(stored)] ^= 1
    path.write_bytes(content)


DAMAGED: dict[str, tuple[str, Callable[[SessionStore], object]]] = {
    "events": (SECOND, lambda store: store.events[SECOND]),
    "state": ("alice:scratchpad", lambda store: store.load_scratchpad("alice")),
    "conversation": ("alice", lambda store: store.conversation["alice"]),
    "channels": ("c:m000000", lambda store: store.get_channel_messages("c")),
    "subagents": ("alice:x:0:meta", lambda store: store.load_subagent_meta("alice", "x", 0)),
    "jobs": ("job", lambda store: store.load_job("job")),
    "turn_rollup": ("alice:turn:000001", lambda store: store.get_turn_rollup("alice", 1)),
    "meta": ("config_type", lambda store: store.load_meta()),
}


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("at", [0, 5, -12, -9, -1])
@pytest.mark.parametrize("table", DAMAGED)
def test_a_flipped_bit_is_said_with_table_and_key_and_stays_as_it_is(
    table: str, at: int, recorded: Path, *, readonly: bool
) -> None:
    key, read = DAMAGED[table]
    flip(recorded, table, key, at)
    before = stored_value(recorded, table, key)

    with SessionStore.open_readonly(recorded) if readonly else SessionStore(recorded) as store:
        with pytest.raises(SessionDamagedError) as raised:
            read(store)
        problems = store.verify().problems
        healthy = [store.get_event_by_id("alice", n) for n in (1, 3, 4, 5)]
        store.close(update_status=False)

    assert raised.value.path == str(recorded)
    assert raised.value.at == f"{table}[{key}]"
    assert (table, key) in [(problem.table, problem.key) for problem in problems]
    assert [event["n"] for event in healthy if event] == [0, 2, 3, 4]
    assert stored_value(recorded, table, key) == before


def stored_value(path: Path, table: str, key: str) -> bytes:
    connection = sqlite3.connect(path)
    try:
        query = f"SELECT value FROM {table} WHERE key = ?"  # noqa: S608  # a name of this file
        return bytes(connection.execute(query, [key.encode()]).fetchone()[0])
    finally:
        connection.close()


def test_a_damaged_event_ends_a_listing_with_an_error_and_no_append_covers_it(
    recorded: Path,
) -> None:
    flip(recorded, "events", SECOND)

    with SessionStore(recorded) as store:
        with pytest.raises(SessionDamagedError) as raised:
            store.get_events("alice")
        with pytest.raises(SessionDamagedError):
            store.get_all_events()
        key, event_id = store.append_event("alice", "user_message", {"content": "after"})
        later = list(store.iter_events("alice", since=2))
        hits = store.search("after")

    assert raised.value.at == f"events[{SECOND}]"
    assert (key, event_id) == ("alice:e000005", 6)
    assert [event["event_id"] for event in later] == [3, 4, 5, 6]
    assert [hit["meta"]["event_key"] for hit in hits] == [key]


def test_a_damaged_newest_event_keeps_its_number(recorded: Path) -> None:
    flip(recorded, "events", "alice:e000004")

    with SessionStore(recorded) as store:
        key, event_id = store.append_event("alice", "text", {})
        problems = store.verify().problems

    assert (key, event_id) == ("alice:e000005", 6)
    assert [problem.key for problem in problems] == ["alice:e000004"]


def test_a_value_moved_to_another_key_is_damage(recorded: Path) -> None:
    connection = sqlite3.connect(recorded)
    with connection:
        connection.execute(
            "UPDATE events SET value = (SELECT value FROM events WHERE key = ?) WHERE key = ?",
            [b"alice:e000000", SECOND.encode()],
        )
    connection.close()

    with (
        SessionStore.open_readonly(recorded) as store,
        pytest.raises(SessionDamagedError) as raised,
    ):
        store.get_events("alice")

    assert raised.value.at == f"events[{SECOND}]"


def test_raw_bytes_that_went_bad_are_found_by_verify(recorded: Path) -> None:
    flip(recorded, "state", "raw", 0)

    with SessionStore.open_readonly(recorded) as store:
        problems = store.verify().problems

    assert [(problem.table, problem.key) for problem in problems] == [("state", "raw")]


def test_the_shell_names_the_damaged_record_in_one_line(recorded: Path) -> None:
    flip(recorded, "events", SECOND)
    before = listing(recorded.parent)

    listed = shell("events", recorded)
    verified = shell("verify", recorded)

    assert (listed.returncode, verified.returncode) == (1, 1)
    assert listed.stderr.count(b"\n") == 1
    assert SECOND.encode() in listed.stderr
    assert SECOND.encode() in verified.stdout
    assert listing(recorded.parent) == before


NOTICED = ["amber_text_data", "fts_data"]
SHADOWS = ["amber_text_data", "fts_data", "amber_text_docsize", "fts_docsize", "fts_content"]


def spoil(path: Path, shadow: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        statements = {
            "data": f"UPDATE {shadow} SET block = zeroblob(length(block))",  # noqa: S608  # ours
            "docsize": f"UPDATE {shadow} SET sz = zeroblob(length(sz))",  # noqa: S608  # ours
            "content": f"DELETE FROM {shadow}",  # noqa: S608  # ours
        }
        connection.execute(statements[shadow.rsplit("_", 1)[1]])
    connection.close()


def found(store: SessionStore, query: str) -> list[object]:
    return [hit["meta"].get("event_key") for hit in store.search(query)]


@pytest.mark.parametrize("shadow", SHADOWS)
def test_a_spoilt_text_index_stops_no_append_and_is_found_and_healed(
    shadow: str, recorded: Path
) -> None:
    spoil(recorded, shadow)

    with SessionStore.open_readonly(recorded) as store:
        problems = store.verify().problems
    with SessionStore(recorded) as store:
        key, event_id = store.append_event("alice", "user_message", {"content": "zebra9 crosses"})
        hits = [found(store, query) for query in ("zebra9", "zebra2", '"to nowhere"')]
        together = found(store, "crosses")
        store.flush()
    with SessionStore.open_readonly(recorded) as store:
        later = found(store, "zebra2")
        events = len(store.get_events("alice"))
        left = store.verify().problems

    assert problems
    assert (key, event_id) == ("alice:e000005", 6)
    assert hits == [[key], ["alice:e000002"], []]
    assert sorted(map(str, together)) == [f"alice:e00000{n}" for n in range(6)]
    assert later == ["alice:e000002"]
    assert events == 6
    # What no write and no search of ours can meet waits for somebody to verify.
    assert not left or shadow not in NOTICED


@pytest.mark.parametrize("shadow", ["amber_text_data", "amber_text_docsize"])
def test_a_reader_of_a_spoilt_text_index_answers_as_before(shadow: str, recorded: Path) -> None:
    spoil(recorded, shadow)
    before = listing(recorded.parent)

    with SessionStore.open_readonly(recorded) as store:
        hits = found(store, "zebra2")

    assert hits == ["alice:e000002"]
    assert listing(recorded.parent) == before


def test_a_search_that_has_nothing_to_index_notices_a_wiped_index_too(recorded: Path) -> None:
    spoil(recorded, "amber_text_data")

    with SessionStore(recorded) as store:
        hits = found(store, "zebra2")
        left = store.verify().problems

    assert hits == ["alice:e000002"]
    assert not left

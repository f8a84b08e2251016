"""KohakuVault, under which the peer keeps its sessions, reads every table that we write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support import independent
from support.children import run_code, run_module
from support.kohaku import SESSIONS, Fixture
from support.sample import MESSAGES, SCALARS, record_everything

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("kohakuvault")

RECORD_AND_DIE = """
import os, sys
from amberlog import SessionStore
from support.kohaku import SESSIONS, Fixture
from support.sample import record_everything
record_everything(SessionStore(sys.argv[1]))
os._exit(0)
"""


def canonical(value: object) -> str:
    """Returns a value as text that tells 1, 1.0 and true apart; the peer sorts keys."""
    return json.dumps(value, sort_keys=True)


def read_by_vault(path: Path, *queries: str) -> tuple[dict[str, object], dict[str, object]]:
    found = json.loads(run_module("support.vault_reader", path, *queries))
    return found["tables"], found["hits"]


def tables_of(store: SessionStore) -> dict[str, dict[str, object]]:
    tables = {
        "meta": store.meta,
        "state": store.state,
        "events": store.events,
        "channels": store.channels,
        "subagents": store.subagents,
        "jobs": store.jobs,
        "conversation": store.conversation,
        "turn_rollup": store.turn_rollup,
    }
    return {
        name: {key.decode(): value for key, value in table.records()}
        for name, table in tables.items()
    }


def test_the_vault_reads_every_table_equal(path: Path) -> None:
    with SessionStore(path) as store:
        record_everything(store)
    with SessionStore.open_readonly(path) as store:
        ours = tables_of(store)

    tables, _ = read_by_vault(path)

    assert all(tables.values())
    assert canonical(tables) == canonical(ours)
    state = tables["state"]
    assert isinstance(state, dict)
    read = {name: state[f"scalar:{name}"] for name in SCALARS}
    assert canonical(read) == canonical(SCALARS)
    assert canonical(tables["conversation"]) == canonical({"alice": MESSAGES})


def test_the_vault_reads_what_an_independent_reader_reads(path: Path) -> None:
    with SessionStore(path) as store:
        record_everything(store)

    tables, _ = read_by_vault(path)

    read = {name: independent.rows(path, name) for name in independent.KV_TABLES}
    assert canonical(tables) == canonical(read)


@pytest.mark.parametrize("pages", [1, 300])
def test_a_search_of_the_vault_finds_our_events_after_the_close(pages: int, path: Path) -> None:
    with SessionStore(path) as store:
        for number in range(pages):
            store.append_event(
                "alice", "user_input", {"content": f"needle in page {number} of hay"}
            )
        store.append_event("alice", "user_input", {"content": "too short"})
        store.save_channel_message("tasks", {"sender": "bob", "content": "a needle for the team"})

    _, hits = read_by_vault(path, "needle", "page 0 of hay", "too short")

    events = [
        {
            "event_key": f"alice:e{number:06d}",
            "agent": "alice",
            "type": "user_input",
            "event_id": number + 1,
        }
        for number in range(pages)
    ]
    message = {
        "channel_key": "tasks:m000000",
        "channel": "tasks",
        "sender": "bob",
        "type": "channel",
    }
    needles = hits["needle"]
    assert isinstance(needles, list)
    assert sorted(map(canonical, needles)) == sorted(map(canonical, [*events, message]))
    assert hits["page 0 of hay"] == events[:1]
    assert hits["too short"] == []


def test_a_session_without_the_peers_text_rows_is_read_as_well(path: Path) -> None:
    with SessionStore(path, peer_fts=False) as store:
        record_everything(store)
        ours = store.search("parser module")

    tables, hits = read_by_vault(path, "parser module")

    assert len(ours) == 7
    assert hits == {"parser module": []}
    assert all(tables.values())


def test_the_vault_reads_a_session_whose_writer_ended_without_closing_it(path: Path) -> None:
    run_code(RECORD_AND_DIE, path)

    tables, _ = read_by_vault(path)

    with SessionStore.open_readonly(path) as store:
        assert canonical(tables) == canonical(tables_of(store))
    events = tables["events"]
    assert isinstance(events, dict)
    assert len(events) == 12


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_the_vault_still_reads_a_session_of_the_peers_that_we_have_written_to(
    fixture: Fixture, tmp_path: Path
) -> None:
    path = fixture.unpack(tmp_path)
    agent = fixture.names("events")[0]

    with SessionStore(path) as store:
        key, event_id = store.append_event(agent, "text_chunk", {"content": "written by us here"})
        store.close(update_status=False)
    tables, hits = read_by_vault(path, "written by us here")

    events: dict[str, object] = {}
    for namespace in fixture.names("events"):
        rows = fixture.expected("events", namespace)
        assert isinstance(rows, dict)
        events |= rows
    read = tables.pop("events")
    assert isinstance(read, dict)
    ours = read.pop(key)
    assert read == events
    assert (ours["content"], ours["event_id"]) == ("written by us here", event_id)
    before = fixture.expected("tables")
    assert isinstance(before, dict)
    before["state"]["counters:max_event_id"] = event_id
    assert tables == before
    assert hits == {
        "written by us here": [
            {"event_key": key, "agent": agent, "type": "text_chunk", "event_id": event_id}
        ]
    }

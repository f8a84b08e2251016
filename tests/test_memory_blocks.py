"""What memory search finds in a session whose turns are begun anew, against a plain model."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amberlog import SessionMemory, SessionStore, lineage
from support import block_model, independent, kohaku
from support.branching import turns, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.branching import Turn

Event = dict[str, object]


def append(store: SessionStore, events: Sequence[Mapping[str, object]]) -> None:
    pairs = [
        (str(event["type"]), {k: v for k, v in event.items() if k != "type"}) for event in events
    ]
    store.append_events("alice", pairs)


def seen(memory: SessionMemory, expected: Sequence[block_model.Cut]) -> list[block_model.Cut]:
    found = []
    for cut in expected:
        block = memory.read_block(f"alice:e{cut.ordinal}:p{cut.part}")
        place = (block.block_type, block.round_num, block.block_num, block.content)
        found.append(block_model.Cut(cut.ordinal, cut.part, *place))
    return found


@settings(max_examples=100, deadline=None)
@given(session=turns(), stated=st.booleans(), step=st.integers(1, 12))
def test_blocks_that_are_indexed_bit_by_bit_are_those_of_the_whole_log(
    session: list[Turn],
    stated: bool,  # noqa: FBT001  # hypothesis passes it by name
    step: int,
) -> None:
    events = written(session, stated=stated)
    expected = block_model.cut(events, set(lineage.select_live_event_ids(events)))

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s.kohakutr"
        with SessionStore(path) as store, SessionMemory(store) as memory:
            for start in range(0, len(events), step):
                append(store, events[start : start + step])
                memory.index()
            bit_by_bit = seen(memory, expected)
            count = memory.get_stats()["fts_blocks"]
        rebuilt = read_anew(path, expected)

    assert bit_by_bit == expected
    assert count == len(expected)
    assert rebuilt == expected


def read_anew(path: Path, expected: Sequence[block_model.Cut]) -> list[block_model.Cut]:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("amber_block", "amber_lane", "amber_turn", "amber_name"):
            connection.execute(f"DROP TABLE {table}")
    with SessionStore(path) as store, SessionMemory(store) as memory:
        memory.index()
        return seen(memory, expected)


def test_the_rows_of_the_fixture_are_those_that_the_peer_cut(tmp_path: Path) -> None:
    path = kohaku.unpack("vectors.kohakutr.gz", tmp_path, "vectors.kohakutr")
    rows = kohaku.expected("vectors", "memory_fts")
    assert isinstance(rows, list)

    with SessionMemory(path) as memory:
        counts = [memory.index_events(agent) for agent in ("alice", "bob", "bob")]
        found = [memory.read_block(meta["block_id"]) for _, _, meta in rows]
        stats = memory.get_stats()

    assert counts == [9, 9, 0]
    assert stats["fts_blocks"] == len(rows)
    for block, (_, text, meta) in zip(found, rows, strict=True):
        assert block.content == text
        told = (block.round_num, block.block_num, block.agent, block.block_type, block.ts)
        assert told == (meta["round"], meta["block"], meta["agent"], meta["type"], meta["ts"])
        assert (block.tool_name, block.channel) == (meta["tool_name"], meta["channel"])


def test_a_turn_begun_anew_leaves_the_first_try_out_unless_it_is_asked_for(
    store: SessionStore,
) -> None:
    memory = SessionMemory(store)
    for branch, word in ((1, "pelican"), (2, "heron")):
        stamps: dict[str, object] = {"turn_index": 1, "branch_id": branch}
        store.append_event("alice", "user_input", stamps | {"content": "which bird is it"})
        store.append_event("alice", "text_chunk", stamps | {"content": f"it is a {word}"})
        memory.search(word)

    live = [hit.content for hit in memory.search("pelican heron bird")]
    everything = [hit.content for hit in memory.search("pelican heron", all_branches=True)]
    rounds = {hit.round_num for hit in memory.search("bird heron")}

    assert sorted(live) == ["it is a heron", "which bird is it"]
    assert sorted(everything) == ["it is a heron", "it is a pelican"]
    assert rounds == {1}


def test_an_index_of_an_older_shape_is_made_anew(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "the zebra crossed"})
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("amber_block", "amber_lane", "amber_turn", "amber_name"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute(
            "CREATE TABLE amber_block (id INTEGER PRIMARY KEY, source TEXT NOT NULL,"
            " agent TEXT NOT NULL, type TEXT NOT NULL, event_id INTEGER NOT NULL)"
        )
        connection.execute(
            "INSERT INTO amber_block VALUES (1, 'alice:e000000', 'alice', 'user_input', 1)"
        )

    with SessionStore.open_readonly(path) as store:
        before = [hit.event_key for hit in SessionMemory(store).search("zebra")]
    with SessionStore(path) as store:
        after = [hit.event_key for hit in SessionMemory(store).search("zebra")]
        plain = [hit["meta"]["event_key"] for hit in store.search("zebra")]

    assert before == after == plain == ["alice:e000000"]


def test_rows_that_another_program_rewrote_are_cut_again(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "the first wording"})
        SessionMemory(store).index()
    event = independent.rows(path, "events")["alice:e000000"]
    assert isinstance(event, dict)
    changed = independent.encoded(event | {"content": "quite another sentence"})
    independent.write(path, "events", {"alice:e000000": changed})

    with SessionMemory(path) as memory:
        found = [len(memory.search(word)) for word in ("wording", "sentence")]

    assert found == [0, 1]


@pytest.mark.parametrize("readonly", [False, True])
def test_what_is_not_indexed_yet_is_found_by_a_reader_too(path: Path, *, readonly: bool) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "the walrus sang"})
        SessionMemory(store).index()
        store.append_event("alice", "text_chunk", {"content": "about a carpenter"})
        opened = SessionStore.open_readonly(path) if readonly else store

        hits = [hit.block_id for hit in SessionMemory(opened).search("walrus carpenter")]

        assert sorted(hits) == ["alice:e0:p0", "alice:e1:p0"]

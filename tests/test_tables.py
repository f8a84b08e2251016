"""The tables of a store as mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import iter_kv_keys

if TYPE_CHECKING:
    from amberlog import SessionStore


def test_a_table_is_a_mapping_with_text_or_byte_keys(store: SessionStore) -> None:
    store.state["alice:scratchpad"] = {"plan": "mend it"}

    assert store.state[b"alice:scratchpad"] == {"plan": "mend it"}
    assert "alice:scratchpad" in store.state
    assert "alice" not in store.state
    assert list(store.state) == [b"alice:scratchpad"]
    assert list(store.state.items()) == [(b"alice:scratchpad", {"plan": "mend it"})]
    assert list(store.state.values()) == [{"plan": "mend it"}]
    assert len(store.state) == 1


def test_keys_can_be_narrowed_by_prefix_and_limit(store: SessionStore) -> None:
    for name in ("b", "a2", "a1", "a3"):
        store.jobs[name] = name

    assert list(store.jobs.keys(prefix="a")) == [b"a1", b"a2", b"a3"]
    assert list(store.jobs.keys(prefix="a", limit=2)) == [b"a1", b"a2"]
    assert list(iter_kv_keys(store.jobs)) == [b"a1", b"a2", b"a3", b"b"]
    assert list(iter_kv_keys(store.jobs, prefix=b"b")) == [b"b"]
    assert list(store.jobs.items(prefix="b")) == [(b"b", "b")]


def test_a_missing_key_is_a_key_error(store: SessionStore) -> None:
    with pytest.raises(KeyError):
        store.meta["nothing"]
    with pytest.raises(KeyError):
        del store.meta["nothing"]

    assert store.meta.get("nothing") is None
    assert store.meta.pop("nothing", 7) == 7


def test_a_value_can_be_put_as_the_peers_tables_have_it(store: SessionStore) -> None:
    store.state.put("dimensions", 256)

    assert store.state["dimensions"] == 256


def test_popping_a_key_removes_it(store: SessionStore) -> None:
    store.state["k"] = [1, 2]

    popped = store.state.pop("k")

    assert popped == [1, 2]
    assert "k" not in store.state


def test_events_can_be_read_by_key_and_never_rewritten(store: SessionStore) -> None:
    key, event_id = store.append_event("alice", "text", {"content": "hello"})

    with pytest.raises(TypeError, match="append_event"):
        store.events[key] = {}
    with pytest.raises(TypeError, match="append_event"):
        del store.events[key]

    event = store.events[key]
    assert isinstance(event, dict)
    assert event["event_id"] == event_id


def test_only_a_table_of_a_store_has_its_keys_listed() -> None:
    with pytest.raises(TypeError, match="a table of a session store"):
        iter_kv_keys({"a": 1})

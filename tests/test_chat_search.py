"""Lists, routes and searches over the sessions of a directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> DefaultSessionStore:
    """Returns an empty store."""
    return DefaultSessionStore(str(tmp_path))


def found(store: DefaultSessionStore, query: str) -> list[str]:
    return [hit.session_id for hit in store.search(query)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("明天下午三点开项目评审会议", "评审"),
        ("明天下午三点开项目评审会议", "项目评审"),
        ("重跑gen-itgc后清零", "itgc"),
        ("ship it 🚀 now", "🚀"),
        ("naïve café", "cafe"),
        ("naive cafe", "café"),
        ("we went to the park today", "park."),
        ("please don't use it", "don't use"),
        ("call foo::bar", "foo::bar"),
        ("I like C++", "C++"),
        ("you AND me", "AND"),
        ("it is NEAR(by)", "NEAR("),
        ('say a"b', 'a"b'),
        ("the migration", "ing mig igrat"),
    ],
)
def test_a_session_that_holds_the_words_is_found(
    text: str, query: str, store: DefaultSessionStore
) -> None:
    store.add_user_message("s", text)
    store.add_user_message("other", "zzz 12345")

    assert found(store, query) == ["s"]


@pytest.mark.parametrize("query", ["", "  \n", '"', "*", "((", "%_"])
def test_a_query_without_words_finds_nothing(query: str, store: DefaultSessionStore) -> None:
    store.add_user_message("s", "words")

    assert found(store, query) == []


def test_a_message_that_a_checkpoint_leaves_out_is_found_once(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), active_window=5)
    store.add_user_message("s", "the zebrafish42 swims")
    for number in range(10):
        store.add_user_message("s", f"turn {number}")
    store.append_compaction_checkpoint("s", "talk about fish")

    hits = store.search("zebrafish42")

    assert [hit.session_id for hit in hits] == ["s"]
    assert hits[0].messages[0]["content"] == "the zebrafish42 swims"
    assert hits[0].messages[0]["archived"] is True


def test_a_list_follows_every_write_ours_and_foreign(
    store: DefaultSessionStore, tmp_path: Path
) -> None:
    for number in range(3):
        store.add_user_message(f"s{number}", "x")
    assert [row["session_id"] for row in store.list_sessions(2)] == ["s2", "s1"]

    store.add_user_message("s0", "y")
    stored = json.loads((tmp_path / "s1.json").read_text(encoding="utf-8"))
    stored["metadata"]["title"] = "named by others"
    (tmp_path / "other.tmp").write_text(json.dumps(stored), encoding="utf-8")
    (tmp_path / "other.tmp").replace(tmp_path / "s1.json")
    store.delete_session("s2")

    rows = store.list_sessions(None)
    assert [(row["session_id"], row["title"], row["message_count"]) for row in rows] == [
        ("s0", None, 2),
        ("s1", "named by others", 1),
    ]


def test_an_outside_id_leads_to_the_session_that_it_was_last_given_to(
    store: DefaultSessionStore,
) -> None:
    store.set_gateway_info("a", "gw", "agent")
    store.set_gateway_info("b", "gw")

    session = store.get_by_gateway_session("gw")

    assert session is not None
    assert session.session_id == "b"
    assert store.get_session("a").gateway_session_id is None
    assert store.list_sessions_by_gateway_agent("agent") == ["a"]
    store.add_user_message("a", "later")
    again = store.get_by_gateway_session("gw")
    assert again is not None
    assert again.session_id == "b"


def test_a_route_can_be_taken_back(store: DefaultSessionStore) -> None:
    store.set_gateway_info("a", "gw", "agent")

    store.clear_gateway_info("a")

    assert store.get_by_gateway_session("gw") is None
    assert store.list_sessions_by_gateway_agent("agent") == []
    assert store.session_exists("a")


def test_sessions_carried_to_another_store_keep_all_that_they_had(
    store: DefaultSessionStore, tmp_path: Path
) -> None:
    store.add_user_message("s", "x", {"k": [1]})
    store.set_gateway_info("s", "gw", "agent")
    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    stored |= {"title": "T", "snapshots": [1], "children_ids": ["c"]}
    stored["messages"][0]["mine"] = True
    (tmp_path / "s.json").write_text(json.dumps(stored), encoding="utf-8")
    payload = store.export_all()
    other = DefaultSessionStore(str(tmp_path / "other"))

    report = other.import_sessions({**payload, "sessions": [*payload["sessions"], 5, {}]})  # type: ignore[misc]

    assert report.imported == 1
    assert [entry["reason"] for entry in report.skipped] == [
        "malformed record at index 1",
        "missing session_id at index 2",
    ]
    carried = json.loads((tmp_path / "other" / "s.json").read_text(encoding="utf-8"))
    assert carried == {**stored, "gateway_session_id": None, "agent_id": None}
    assert other.import_sessions(payload).skipped_count == 1
    assert other.import_sessions(payload, overwrite=True, reset_live_fields=False).imported == 1
    assert other.get_session("s").gateway_session_id == "gw"


def test_metadata_is_set_merged_and_named(store: DefaultSessionStore) -> None:
    store.update_session_metadata("s", model="m", cost=None, agent_id="a")
    store.merge_session_metadata_map("s", "map", {"x": 1}, defaults={"x": 0, "y": 0})
    store.merge_session_metadata_map("s", "map", {"z": 2}, defaults={"y": 9})
    store.rename_session("s", " Title ")
    store.set_runtime_state("s", "r", "t", {"n": 1})

    session = store.get_session("s")

    assert session.metadata == {
        "model": "m",
        "agent_id": "a",
        "map": {"y": 0, "x": 1, "z": 2},
        "title": "Title",
    }
    assert session.agent_id == "a"
    assert store.get_session_model("s") == "m"
    assert store.list_sessions()[0]["model"] == "m"
    assert store.get_runtime_state("s", "r", "t") == {"n": 1}
    store.rename_session("s", " ")
    store.clear_runtime_state("s")
    assert "title" not in store.get_session("s").metadata
    assert store.get_runtime_state("s", "r") == {}

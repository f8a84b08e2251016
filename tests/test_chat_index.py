"""The index of chat sessions: every answer from it is what the files say."""

from __future__ import annotations

import inspect
import json
import random
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import DefaultSessionStore, SqliteSessionStore, get_sqlite_session_store
from support.chat import copy_of, groups, plain
from support.chat_index import asked, scores, write

if TYPE_CHECKING:
    from pathlib import Path

    Calls = list[dict[str, object]]

# The peer's index knows whole words only; ours finds what the peer's scan finds, too.
MORE = {
    "migrat": ["s1"],
    "天気": ["日本語-é-\U0001f642"],
    "ILLING MIG": ["burst-1", "team/alpha:main thread", "cron-daily"],
}
# Noted as bugs of the peer: what a writer without an index wrote.
LATE = {"zebra": ["s1"]}
WORDS = [
    "billing",
    "migration",
    "the",
    "of",
    "then",
    "naïve",
    "café",
    "東京都",
    "C++",
    "a::b",
    "🚀",
]
QUERIES = [
    *WORDS,
    "billing migration",
    "ing mig",
    "of the",
    "the of the",
    "the the",
    "he o",
    "the  of",
    "京",
    "cafe",
    "CAFÉ the",
    "::",
    "nothing like it",
    "billing, migration.",
]


@pytest.fixture
def store(tmp_path: Path) -> SqliteSessionStore:
    """Returns an empty store."""
    return SqliteSessionStore(str(tmp_path))


def found(store: DefaultSessionStore, query: str, limit: int = 5) -> list[str]:
    return [hit.session_id for hit in store.search(query, limit=limit)]


@pytest.mark.parametrize("fixture", ["plain", "sqlite", "sqlite_old_index", "sqlite_stale_index"])
def test_a_directory_of_the_peer_gives_every_answer_that_it_gave_there_or_a_better_one(
    fixture: str, tmp_path: Path
) -> None:
    store = SqliteSessionStore(str(copy_of(fixture, tmp_path)))
    group = next(
        one
        for one in groups()
        if one["fixture"] == fixture and one["class"] == "SqliteSessionStore"
    )
    is_stale = fixture == "sqlite_stale_index"

    for call in cast("Calls", group["calls"]):
        asked_for = cast("list[str]", call["args"])
        keywords = cast("dict[str, object]", call["kwargs"])
        answer = plain(getattr(store, str(call["call"]))(*asked_for, **keywords))
        better = {**MORE, **(LATE if is_stale else {})}.get(asked_for[0])
        if call["call"] == "search" and better:
            hits = cast("list[dict[str, object]]", answer)
            assert [hit["session_id"] for hit in hits] == better
        elif is_stale and asked_for[0] == "gw-late":
            assert cast("dict[str, object]", answer)["session_id"] == "s2"
        else:
            assert answer == call["returns"]
    assert store.index_fault() is None


def test_scores_and_order_are_those_of_the_rules_whatever_was_written_when(
    tmp_path: Path,
) -> None:
    generator = random.Random(5)
    store = SqliteSessionStore(str(tmp_path))
    sessions: dict[str, list[str]] = {}

    for turn in range(4):
        # Some new, some changed, one gone: so that words lie in several places.
        for number in range(turn, 30, 2):
            texts = [
                generator.choice([" ", "\n", "  "]).join(generator.choices(WORDS, k=6))
                for _ in range(3)
            ]
            sessions[f"s{number}"] = texts
            write(tmp_path, f"s{number}", texts)
        (tmp_path / f"s{turn}.json").unlink()
        del sessions[f"s{turn}"]

        for query in QUERIES:
            hits = store.search(query, limit=100)
            expected = scores(sessions, query)
            assert {hit.session_id: hit.score for hit in hits} == expected, query
            ranked = sorted(expected, key=lambda one: (-expected[one], f"{one}.json"))
            assert [hit.session_id for hit in hits] == ranked
            assert found(store, query, 3) == ranked[:3]


def test_hits_are_those_of_the_store_without_an_index(tmp_path: Path) -> None:
    directory = copy_of("plain", tmp_path)
    scanning = DefaultSessionStore(str(directory))
    store = SqliteSessionStore(str(directory))

    for query in ("billing migration", "walrus", "the", "turn filler", "é", "inbound reply", "zz"):
        assert store.search(query, limit=50, window=1) == scanning.search(query, limit=50, window=1)
    assert store.list_sessions(None) == scanning.list_sessions(None)
    assert store.list_sessions(-3) == scanning.list_sessions(-3)
    assert store.recent(limit=4) == scanning.recent(limit=4)
    assert store.list_sessions_by_agent("Alpha") == scanning.list_sessions_by_agent("Alpha")


@pytest.mark.parametrize("size", [2040, 5000, 100_000])
def test_a_word_is_found_in_long_text_without_spaces_and_across_its_cuts(
    size: int, store: SqliteSessionStore
) -> None:
    for at in range(1, 4):
        text = "x" * (size // 4 * at) + "needle針" + "y" * (size // 4 * (4 - at))
        store.add_user_message(f"s{at}", text)

    assert sorted(found(store, "needle")) == ["s1", "s2", "s3"]
    assert sorted(found(store, "xneedle針y")) == ["s1", "s2", "s3"]
    assert sorted(found(store, "x" * 300 + "needle")) == ["s1", "s2", "s3"]
    assert found(store, "needle y") == found(store, "needle")


def test_what_a_writer_without_an_index_wrote_is_found_at_once(
    store: SqliteSessionStore, tmp_path: Path
) -> None:
    store.add_user_message("a", "old words")
    store.set_gateway_info("a", "gw", "agent")
    assert found(store, "old") == ["a"]

    write(tmp_path, "a", ["new words"], gateway_session_id="gw2", agent_id="agent")
    write(tmp_path, "b", ["other words"], gateway_session_id="gw", agent_id="agent")

    assert (found(store, "old"), found(store, "new")) == ([], ["a"])
    routed = [store.get_by_gateway_session(one) for one in ("gw", "gw2")]
    assert [one and one.session_id for one in routed] == ["b", "a"]
    assert store.list_sessions_by_gateway_agent("agent") == ["a", "b"]
    (tmp_path / "a.json").unlink()
    assert found(store, "words") == ["b"]
    assert store.get_by_gateway_session("gw2") is None
    assert [row["session_id"] for row in store.list_sessions()] == ["b"]


def test_a_route_is_the_whole_session(store: SqliteSessionStore) -> None:
    store.add_user_message("a", "hello", {"k": [1]})
    store.set_gateway_info("a", "gw", "agent")
    store.rename_session("a", "Title")

    for _ in range(3):
        routed = store.get_by_gateway_session("gw")
        assert routed is not None
        assert routed.agent_id == "agent"
        assert routed == store.get_session("a")
        assert routed.to_dict() == store.get_session("a").to_dict()
    store.append_compaction_checkpoint("a", "so far")
    routed = store.get_by_gateway_session("gw")
    assert routed is not None
    assert routed.last_compaction is not None
    assert not hasattr(routed, "other")
    store.clear_gateway_info("a")
    assert store.get_by_gateway_session("gw") is None


def test_agents_are_listed_by_id_as_many_as_are_asked_for(store: SqliteSessionStore) -> None:
    for number in (3, 1, 2):
        store.set_gateway_info(f"s{number}", f"gw{number}", "agent")

    assert store.list_sessions_by_gateway_agent("agent") == ["s1", "s2", "s3"]
    assert store.list_sessions_by_gateway_agent("agent", 2) == ["s1", "s2"]
    assert store.list_sessions_by_gateway_agent("agent", 0) == []
    assert store.list_sessions_by_gateway_agent("agent", -1) == ["s1", "s2", "s3"]
    assert store.list_sessions_by_gateway_agent("nobody") == []


def test_a_file_that_is_no_session_hides_no_other(
    store: SqliteSessionStore, tmp_path: Path
) -> None:
    store.add_user_message("a", "words")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "cut.json").write_text('{"session_id": "c', encoding="utf-8")

    assert found(store, "words") == ["a"]
    assert [row["session_id"] for row in store.list_sessions()] == ["a"]
    reasons = dict(store.unreadable_sessions())
    assert set(reasons) == {str(tmp_path / name) for name in ("list.json", "cut.json")}
    write(tmp_path, "list", ["words again"])
    assert sorted(found(store, "words")) == ["a", "list"]


def test_ids_of_one_file_name_are_found_each_by_its_own_words(store: SqliteSessionStore) -> None:
    for number, session_id in enumerate(("a/b", "a:b", "a_b")):
        store.add_user_message(session_id, f"shared word{number}")
        store.set_gateway_info(session_id, f"gw{number}")

    for number, session_id in enumerate(("a/b", "a:b", "a_b")):
        assert found(store, f"word{number}") == [session_id]
        routed = store.get_by_gateway_session(f"gw{number}")
        assert routed is not None
        assert routed.session_id == session_id
    store.delete_session("a:b")
    assert sorted(found(store, "shared")) == ["a/b", "a_b"]


def test_many_writes_leave_few_segments(store: SqliteSessionStore) -> None:
    for number in range(80):
        store.add_user_message(f"s{number % 20}", f"turn{number} said")
        assert len(found(store, "said", 100)) == min(number + 1, 20)
    store.settle_index()

    [[segments]] = asked(store.db_path, "SELECT count(*) FROM amber_segment")
    assert cast("int", segments) <= 20
    assert (
        found(store, "turn3") == ["s3", "s10", "s11", "s12", "s13"]
        or len(found(store, "turn3")) == 5
    )


def test_an_index_in_memory_leaves_no_file(tmp_path: Path) -> None:
    store = SqliteSessionStore(str(tmp_path), ":memory:")

    store.add_user_message("s", "hello")

    assert found(store, "hell") == ["s"]
    store.settle_index()
    assert store.index_fault() is None
    assert not list(tmp_path.glob("*.db*"))


def test_a_home_is_expanded_and_the_default_store_follows_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AMBERLOG_CHAT_DIR", str(tmp_path / "one"))

    given = SqliteSessionStore(str(tmp_path / "two"), "~/deep/index.db")
    default = get_sqlite_session_store()

    given.add_user_message("s", "hello")
    assert found(given, "hello") == ["s"]
    assert (tmp_path / "deep" / "index.db").is_file()
    assert default is get_sqlite_session_store()
    assert default.db_path == str(tmp_path / "one" / "sessions_index.db")
    monkeypatch.setenv("AMBERLOG_CHAT_DIR", str(tmp_path / "two"))
    assert get_sqlite_session_store().session_dir == str(tmp_path / "two")


def test_the_signature_is_that_of_the_peer() -> None:
    parameters = inspect.signature(SqliteSessionStore).parameters

    assert list(parameters) == ["session_dir", "db_path", "kwargs"]
    assert parameters["kwargs"].kind is inspect.Parameter.VAR_KEYWORD
    assert {"tool_calls", "tool_call_id"} <= set(
        inspect.signature(SqliteSessionStore.add_message).parameters
    )
    with pytest.raises(TypeError):
        SqliteSessionStore("x", nothing_of_that_name=1)  # type: ignore[call-arg]


def test_a_second_start_reads_nothing_again(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"s{number}", [f"words {number}"])
    first = SqliteSessionStore(str(tmp_path))
    first.list_sessions()
    first.settle_index()
    index = first.db_path
    del first
    ask = "SELECT value FROM amber_meta WHERE name IN ('generation', 'segment') ORDER BY name"
    before = asked(index, ask)

    second = SqliteSessionStore(str(tmp_path))

    assert len(second.list_sessions()) == 5
    assert found(second, "words 3")[0] == "s3"
    assert asked(index, ask) == before
    stored = json.loads((tmp_path / "s1.json").read_text(encoding="utf-8"))
    assert stored["session_id"] == "s1"

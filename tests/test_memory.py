"""Memory search by words: what is found, how it is narrowed, and what it says."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

import pytest

from amberlog import NullSessionStore, SearchResult, SessionMemory, SessionStore, errors
from support import kohaku

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def memory(store: SessionStore) -> Iterator[SessionMemory]:
    """Yields the memory of an empty session."""
    with SessionMemory(store) as opened:
        yield opened


def say(store: SessionStore, *texts: str, agent: str = "alice") -> None:
    store.append_events(agent, [("user_input", {"content": text}) for text in texts])


def texts(hits: list[SearchResult]) -> list[str]:
    return [hit.content for hit in hits]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("我们讨论了数据库迁移的问题", ["迁移", "数据", "数据库迁移"]),
        ("日本語のテキスト検索", ["検索", "テキスト"]),
        ("shipped it 🚀 at last", ["🚀"]),
        ("call get_user_name before it", ["get_user_name", "user_name", "getUserName", "name"]),
        ("class HttpRequestParser fails", ["HttpRequestParser", "request parser", "http"]),
        ("see src/auth/token_store.py for it", ["token_store.py", "src/auth", "auth/token_store"]),
        ("ticket POL-358 is open", ["POL-358", "pol 358", "358", "POL358"]),
        ("all migrations ran twice", ["migrate", "migration", "running"]),
        ("Die Straße ist gesperrt", ["strasse"]),
    ],
)
def test_words_of_any_kind_are_found(
    text: str, queries: list[str], memory: SessionMemory, store: SessionStore
) -> None:
    say(store, "something else entirely", text, "more that is besides the point")

    found = {query: texts(memory.search(query)) for query in queries if query != "running"}

    assert found == {query: [text] for query in queries if query != "running"}


def test_what_the_peer_leaves_out_is_found_too(memory: SessionMemory, store: SessionStore) -> None:
    say(store, "begin")
    message = {"role": "assistant", "content": "the heron stands still"}
    store.append_event("alice", "assistant_message", {"message": message})
    store.append_event("alice", "subagent_result", {"name": "scout", "output": "a heron nest"})
    store.append_event("alice", "compact_complete", {"summary": "so far: heron", "round": 1})
    store.save_channel_message("ops", {"sender": "bob", "content": "heron seen"})

    found = {hit.block_type: (hit.agent, hit.content) for hit in memory.search("heron")}

    assert found == {
        "text": ("alice", "the heron stands still"),
        "subagent": ("alice", "[subagent:scout] a heron nest"),
        "summary": ("alice", "so far: heron"),
        "channel": ("ops", "[channel:ops] bob: heron seen"),
    }


def test_a_filter_takes_no_hits_place(memory: SessionMemory, store: SessionStore) -> None:
    for number in range(60):
        stamps: dict[str, object] = {
            "turn_index": number + 1,
            "branch_id": 1,
            "ts": 1000.0 + number,
        }
        store.append_event("bob", "user_input", stamps | {"content": "needle needle"})
        call: dict[str, object] = {
            "name": "grep" if number % 2 else "find",
            "args": {"for": "needle"},
        }
        store.append_event("bob", "tool_call", call | stamps)
    say(store, "one needle among a lot of other hay that is here")
    late = datetime.fromtimestamp(1058, tz=timezone.utc)

    by_agent = memory.search("needle", k=3, agent="alice")
    by_kind = memory.search("needle", k=3, kinds=["tool"])
    by_tool = memory.search("needle", k=100, tool="grep")
    by_time = memory.search("needle", k=100, since=late, agent="bob")
    before = memory.search("needle", k=100, until=1000.5)
    by_turn = memory.search("needle", k=100, turns=(5, 6))
    from_turn = memory.search("needle", k=100, turns=(60, None))
    none = memory.search("needle", agent="nobody")

    assert texts(by_agent) == ["one needle among a lot of other hay that is here"]
    assert {hit.block_type for hit in by_kind} == {"tool"}
    assert len(by_tool) == 30
    assert {hit.ts for hit in by_time} == {1058.0, 1059.0}
    assert {hit.ts for hit in before} == {1000.0}
    assert {hit.turn for hit in by_turn} == {5, 6}
    assert {hit.turn for hit in from_turn} == {60}
    assert none == []


def test_equal_blocks_come_in_their_order_each_time(
    memory: SessionMemory, store: SessionStore
) -> None:
    # Apart from each other, so that none of them stands beside another.
    for number in range(12):
        say(store, "the same words", *[f"filler {number} {other}" for other in range(4)])

    first = [hit.event_id for hit in memory.search("same words", k=12)]
    again = [hit.event_id for hit in memory.search("same words", k=12)]

    assert first == sorted(first) == again
    assert len(first) == 12


def test_words_that_were_found_are_marked_and_the_text_is_whole(
    memory: SessionMemory, store: SessionStore
) -> None:
    text = "<b>All</b>\nmigrations failed. " + "And then nothing happened. " * 40
    say(store, text)

    hit = memory.search("migrate")[0]

    assert hit.content == text
    assert hit.snippet.startswith("<b>All</b> «migrations» failed.")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 300
    assert (hit.keyword_rank, hit.vector_rank) == (0, None)


def test_a_block_is_read_again_by_its_id(memory: SessionMemory, store: SessionStore) -> None:
    paragraphs = [f"paragraph {number} " + "word " * 40 for number in range(40)]
    say(store, "go")
    store.append_event("alice", "text_chunk", {"content": "\n\n".join(paragraphs)})

    hits = memory.search("paragraph", k=100)
    read = [memory.read_block(hit.block_id).content for hit in hits]

    assert len({hit.block_id for hit in hits}) == len(paragraphs)
    assert read == texts(hits)
    assert sorted(read) == sorted(text.strip() for text in paragraphs)
    with pytest.raises(KeyError, match="alice:e7:p0"):
        memory.read_block("alice:e7:p0")


def test_events_that_are_not_in_the_log_are_found_and_never_become_part_of_it(path: Path) -> None:
    events: list[dict[str, object]] = [
        {"type": "user_input", "content": "Fix the auth bug", "ts": 1000.0},
        {"type": "text", "content": "Looking at the auth module.", "ts": 1001.0},
        {"type": "user_input", "content": "Good, now the parser", "ts": 1002.0},
    ]

    with SessionMemory(path) as memory:
        counts = [memory.index_events("test", part) for part in (events[:2], events, events)]
        size = memory.get_stats()["fts_blocks"]
    with SessionMemory(path) as memory:
        found = texts(memory.search("auth"))
        read = memory.read_block(memory.search("parser")[0].block_id)
        changed = memory.index_events("test", [{"type": "user_input", "content": "Other words"}])
        after = [len(memory.search(word)) for word in ("auth", "other")]
    with SessionStore(path) as store:
        log = (store.get_events("test"), store.discover_agents_from_events())
        plain = store.search("auth")

    assert counts == [2, 1, 0]
    assert size == 3
    assert sorted(found) == ["Fix the auth bug", "Looking at the auth module."]
    assert (read.content, read.round_num, read.ts) == ("Good, now the parser", 2, 1002.0)
    assert changed == 0
    assert after == [0, 1]
    assert log == ([], [])
    assert plain == []


def test_a_log_that_is_handed_over_is_not_kept_twice(
    memory: SessionMemory, store: SessionStore
) -> None:
    say(store, "one walrus", "two walruses")

    count = memory.index_events("alice", store.get_events("alice"))

    assert count == 2
    assert len(memory.search("walrus")) == 2


@pytest.mark.parametrize("query", ["rollback plans", "queue", "backups"])
def test_the_fixtures_answers_of_the_peer_are_found(query: str, tmp_path: Path) -> None:
    path = kohaku.unpack("vectors.kohakutr.gz", tmp_path, "vectors.kohakutr")
    rows = kohaku.expected("vectors", "memory_fts")
    assert isinstance(rows, list)
    words = query.split()
    wanted = {meta["block_id"] for _, text, meta in rows if all(w in text.lower() for w in words)}

    with SessionMemory(path) as memory:
        found = {hit.block_id for hit in memory.search(f'"{query}"', "fts")}

    assert wanted
    assert wanted <= found


def test_arguments_that_mean_nothing_are_refused(memory: SessionMemory) -> None:
    unknown: Literal["fts"] = "psychic"  # type: ignore[assignment]  # what a user may type

    with pytest.raises(ValueError, match="psychic"):
        memory.search("x", unknown)
    with pytest.raises(ValueError, match="embedder"):
        memory.search("x", "semantic")
    with pytest.raises(ValueError, match="poem"):
        memory.search("x", kinds=["poem"])
    with pytest.raises(TypeError):
        memory.search("x", kinds="user")
    with pytest.raises(ValueError, match="-1"):
        memory.search("x", k=-1)
    with pytest.raises(ValueError, match="time zone"):
        memory.search("x", since=datetime(2026, 1, 1))  # noqa: DTZ001  # that is the point


@pytest.mark.parametrize("query", ["", "  ", '"', "AND", "NOT x", "a*", "(", "\0", "\ud800", "-"])
def test_no_query_raises(query: str, memory: SessionMemory, store: SessionStore) -> None:
    empty = memory.search(query)
    say(store, "some text or other", query.encode("utf-8", "replace").decode())

    memory.search(query)

    assert empty == []


def test_a_session_that_keeps_nothing_remembers_nothing() -> None:
    with NullSessionStore() as store:
        say(store, "a pelican")
        memory = SessionMemory(store)

        assert memory.index() == 0
        assert memory.search("pelican") == []
        assert memory.get_stats()["fts_blocks"] == 0


def test_a_reader_may_search_but_not_index(path: Path) -> None:
    with SessionStore(path) as store:
        say(store, "a pelican")

    with SessionStore.open_readonly(path) as store:
        memory = SessionMemory(store)
        found = texts(memory.search("pelican"))
        with pytest.raises(errors.SessionReadOnlyError):
            memory.index()

    assert found == ["a pelican"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(30, "30s ago"), (300, "5m ago"), (4320, "1.2h ago"), (None, "")]
)
def test_an_age_is_told_in_one_unit(seconds: int | None, said: str) -> None:
    now = datetime.now(tz=timezone.utc).timestamp()
    ts = 0.0 if seconds is None else now - seconds

    age = SearchResult("", 1, 0, "alice", "text", 1.0, ts=ts).age_str

    assert age == said


def test_random_queries_find_just_the_blocks_that_hold_a_word(
    memory: SessionMemory, store: SessionStore
) -> None:
    # Words that the analysis leaves as they are, so that a scan needs no analysis of its own.
    rng = random.Random(17)
    words = ["".join(rng.choices("bcdfgklmnprtvxz", k=rng.randint(4, 7))) for _ in range(300)]
    blocks = [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(900)]
    say(store, *blocks)

    for _ in range(1000):
        asked = rng.sample(words, rng.randint(1, 3))
        found = {hit.event_id for hit in memory.search(" ".join(asked), k=len(blocks))}
        expected = {at for at, text in enumerate(blocks, 1) if set(asked) & set(text.split())}
        assert found == expected, asked

"""Search, where the peer's goes wrong: stale hits, phrases only, scripts, starved filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support import independent

if TYPE_CHECKING:
    from pathlib import Path


def keys_of(store: SessionStore, query: str, **narrowed: str) -> list[str]:
    hits = store.search(query, k=100, agent=narrowed.get("agent"))
    return [str(hit["meta"].get("event_key", hit["meta"].get("channel_key"))) for hit in hits]


def test_text_rows_of_lost_events_do_not_point_at_the_ones_that_took_their_place(
    path: Path,
) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "the first text stays in place"})
    entry = {"event_key": "alice:e000001", "agent": "alice", "type": "text", "event_id": 2}
    # As a killed peer leaves it: the text and the counter are there, the event is not.
    independent.add_text(path, "lost vanished words", entry)
    independent.write(path, "state", {"counters:max_event_id": independent.encoded(2)})

    with SessionStore(path) as store:
        key, event_id = store.append_event("alice", "text", {"content": "another text altogether"})
        stale = keys_of(store, "vanished")
        found = keys_of(store, "altogether")

    assert (key, event_id) == ("alice:e000001", 3)
    assert stale == []
    assert found == ["alice:e000001"]
    assert "lost vanished words" not in independent.texts(path)


@pytest.mark.parametrize(
    "query", ["token auth", "auth bug", "bug AND auth", "auth OR zzz", "login token", "token login"]
)
def test_words_are_found_in_any_order_and_with_others_between(
    query: str, store: SessionStore
) -> None:
    store.append_event("alice", "text", {"content": "the auth service has a login token bug"})
    store.append_event("alice", "text", {"content": "nothing of interest to see in here"})

    found = keys_of(store, query)

    assert found == ["alice:e000000"]


def test_a_phrase_in_quotes_is_found_only_as_it_stands(store: SessionStore) -> None:
    store.append_event("alice", "text", {"content": "the login token was refreshed"})
    store.append_event("alice", "text", {"content": "the token of the login page"})

    found = keys_of(store, '"login token"')

    assert found == ["alice:e000000"]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("令牌过期后无法登录系统", ["令牌", "令牌过期", "登录", "系统"]),
        ("日本語のテキストを検索できますか", ["日本語", "検索", "テキスト"]),
        ("한국어 문장을 검색합니다", ["한국어", "검색"]),
        ("ภาษาไทยไม่มีช่องว่าง", ["ภาษาไทย"]),
        ("Die Straße heißt Ächterweg", ["strasse", "straße", "achterweg"]),
    ],
)
def test_scripts_without_spaces_and_folded_words_are_found(
    text: str, queries: list[str], store: SessionStore
) -> None:
    store.append_event("alice", "text", {"content": text})
    store.append_event("alice", "text", {"content": "an English sentence beside it"})

    found = {query: keys_of(store, query) for query in queries}

    assert found == {query: ["alice:e000000"] for query in queries}


def test_short_texts_and_other_fields_are_found_too(store: SessionStore) -> None:
    store.append_event("alice", "tool_result", {"name": "bash", "output": "ok 17"})
    store.append_event("alice", "user_message", {"content": [{"type": "text", "text": "parts"}]})

    found = [keys_of(store, query) for query in ("17", "parts")]

    assert found == [["alice:e000000"], ["alice:e000001"]]


def test_an_agents_hits_are_not_crowded_out_by_anothers(store: SessionStore) -> None:
    texts = [("text", {"content": f"needle needle needle {number}"}) for number in range(60)]
    store.append_events("bob", texts)
    store.append_event("alice", "text", {"content": "one needle among a lot of other hay here"})

    found = [hit["meta"]["agent"] for hit in store.search("needle", k=5, agent="alice")]
    typed = [hit["meta"]["type"] for hit in store.search("needle", k=5, types=["nothing"])]

    assert found == ["alice"]
    assert typed == []


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '"open',
        "AND",
        "OR NOT",
        "a*",
        "col:x",
        "()",
        "^",
        "NEAR(a b)",
        "-x",
        "{}",
        "'",
        "",
        " ",
        "\0",
    ],
)
def test_no_query_raises(query: str, path: Path) -> None:
    with SessionStore(path) as store:
        empty = store.search(query)
        store.append_event("alice", "text", {"content": "some text or other"})
        store.search(query)
    with SessionStore.open_readonly(path) as store:
        store.search(query)

    assert empty == []


def test_verify_takes_no_index_that_another_store_has_written_for_damaged(path: Path) -> None:
    reports = []

    with SessionStore(path) as one, SessionStore(path) as other:
        for number in range(40):
            texts = [("text", {"content": f"words of round {number} {n}"}) for n in range(20)]
            other.append_events("alice", texts)
            other.flush()
            reports.append(one.verify())

    assert [report.problems for report in reports] == [()] * 40

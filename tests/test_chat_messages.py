"""Histories: what a model gets of a session, and what becomes of older messages."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import amberlog
from amberlog.chat import (
    CompactionCheckpoint,
    DefaultSessionStore,
    SessionData,
    SessionMessage,
    SessionStoreProtocol,
)


@pytest.fixture
def store(tmp_path: Path) -> DefaultSessionStore:
    """Returns an empty store that keeps a window of 100 messages."""
    return DefaultSessionStore(str(tmp_path))


def fill(store: DefaultSessionStore, count: int, session_id: str = "s") -> None:
    for number in range(count):
        store.add_message(session_id, ("user", "assistant")[number % 2], f"turn {number}")


def said(messages: list[dict[str, object]]) -> list[object]:
    return [message["content"] for message in messages]


def turns(first: int, end: int) -> list[str]:
    return [f"turn {number}" for number in range(first, end)]


def test_a_tool_turn_comes_back_as_it_was(store: DefaultSessionStore) -> None:
    calls: list[dict[str, object]] = [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ]
    store.add_message("s", "assistant", "", tool_calls=calls)
    store.add_message("s", "tool", "4", {"name": "f"}, tool_call_id="c")

    history = store.get_chat_history("s")

    assert history == [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "4", "tool_call_id": "c"},
    ]
    assert store.get_chat_history("s", 1) == []


def test_no_message_is_lost_of_250_with_default_settings(tmp_path: Path) -> None:
    fill(DefaultSessionStore(str(tmp_path)), 250)

    session = DefaultSessionStore(str(tmp_path)).get_session("s")

    archived = [message.content for message in session.archived_messages]
    assert archived + [message.content for message in session.messages[1:]] == turns(0, 250)
    assert session.messages[0].metadata == {"compaction": True, "compacted_count": 150}
    assert "150 messages" in str(session.messages[0].content)


def test_the_working_history_begins_with_the_summary_of_the_archive_and_has_no_gap(
    store: DefaultSessionStore,
) -> None:
    fill(store, 250)

    history = store.get_working_history("s")

    assert "Summary" in str(history[0]["content"])
    assert said(history[1:]) == turns(150, 250)
    assert said(store.get_working_history("s", 5)) == turns(245, 250)


def test_the_summary_of_an_archive_does_not_grow_with_it(store: DefaultSessionStore) -> None:
    fill(store, 300)
    short = len(str(store.get_session("s").messages[0].content))
    fill(store, 300)

    long = len(str(store.get_session("s").messages[0].content))

    assert long <= short + 20


def test_a_checkpoint_stands_in_for_all_messages_before_it(store: DefaultSessionStore) -> None:
    fill(store, 6)
    assert store.append_compaction_checkpoint("s", "six turns", tokens_before=9, metadata={"a": 1})
    store.add_user_message("s", "after")

    history = store.get_working_history("s")

    assert history == [
        {"role": "system", "content": "six turns"},
        {"role": "user", "content": "after"},
    ]
    checkpoint = store.get_session("s").last_compaction
    assert checkpoint is not None
    assert (checkpoint.message_index, checkpoint.tokens_before) == (6, 9)
    assert checkpoint.metadata == {"a": 1}
    assert said(store.get_chat_history("s")) == [*turns(0, 6), "after"]


@pytest.mark.parametrize("retention", ["compact", "truncate"])
def test_a_checkpoint_stays_at_its_message_while_older_ones_leave_the_window(
    retention: str, tmp_path: Path
) -> None:
    store = DefaultSessionStore(str(tmp_path), active_window=10, retention=retention)
    fill(store, 8)
    store.append_compaction_checkpoint("s", "eight turns")

    for number in range(8, 15):
        store.add_user_message("s", f"turn {number}")

    assert said(store.get_working_history("s")) == ["eight turns", *turns(8, 15)]


@pytest.mark.parametrize("blank", ["", "  \n", None])
def test_a_blank_summary_is_no_checkpoint(
    blank: str, store: DefaultSessionStore, tmp_path: Path
) -> None:
    assert not store.append_compaction_checkpoint("s", blank)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["clear", "set"])
def test_other_messages_have_no_checkpoint(verb: str, store: DefaultSessionStore) -> None:
    fill(store, 3)
    store.append_compaction_checkpoint("s", "three turns")

    if verb == "clear":
        store.clear_session("s")
    else:
        store.set_chat_history("s", [{"role": "user", "content": "anew", "mine": [1]}])

    session = store.get_session("s")
    assert session.last_compaction is None
    assert said(store.get_working_history("s")) == ([] if verb == "clear" else ["anew"])
    assert [message.extra for message in session.messages] == ([{"mine": [1]}] * (verb == "set"))


def test_fifty_checkpoints_leave_the_session_as_large_as_one(
    store: DefaultSessionStore, tmp_path: Path
) -> None:
    fill(store, 40)
    store.append_compaction_checkpoint("s", "x" * 100)
    size = (tmp_path / "s.json").stat().st_size

    for _ in range(50):
        store.append_compaction_checkpoint("s", "x" * 100)

    assert (tmp_path / "s.json").stat().st_size <= size + 10
    assert len(store.get_session("s").messages) == 40


def test_a_message_being_spoken_is_one_message(store: DefaultSessionStore) -> None:
    for text in ("Hel", "Hello", "Hello you"):
        store.upsert_partial_assistant_message("s", text)
    assert store.get_session("s").messages[0].metadata == {"partial": True}

    store.upsert_partial_assistant_message("s", "Hello you all", finalize=True)

    messages = store.get_session("s").messages
    assert [(message.content, message.metadata) for message in messages] == [("Hello you all", {})]
    store.upsert_partial_assistant_message("s", "never said")
    store.discard_partial_assistant_message("s")
    assert said(store.get_chat_history("s")) == ["Hello you all"]


def test_what_others_wrote_into_a_session_stays_whoever_writes_next(
    store: DefaultSessionStore, tmp_path: Path
) -> None:
    stored = {
        "title": "T",
        "session_id": "s",
        "snapshots": [{"id": "1", "deep": {"x": [None]}}],
        "messages": [{"role": "user", "content": "a", "mine": {"b": 1}}],
        "children_ids": ["c"],
        "is_shared": True,
        "last_compaction": {"summary": "z", "message_index": 1, "theirs": 5},
    }
    (tmp_path / "s.json").write_text(json.dumps(stored), encoding="utf-8")

    store.add_user_message("s", "b")
    store.update_session_metadata("s", model="m")
    store.set_gateway_info("s", "g")

    after = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert after["messages"][0] == stored["messages"][0]  # type: ignore[index]
    kept = ("title", "snapshots", "children_ids", "is_shared", "last_compaction")
    assert {key: after[key] for key in kept} == {key: stored[key] for key in kept}
    assert next(iter(after)) == "title"
    assert store.get_session("s").extra["is_shared"] is True


def test_trimming_keeps_the_checkpoint_at_its_message() -> None:
    session = SessionData("s", [SessionMessage("user", f"turn {n}") for n in range(6)])
    session.last_compaction = CompactionCheckpoint("four turns", message_index=4)

    session.trim_messages(3)

    assert said(session.get_working_history()) == ["four turns", "turn 4", "turn 5"]
    session.trim_messages(0)
    assert session.messages == []


def test_agents_find_the_signatures_that_they_look_for(store: DefaultSessionStore) -> None:
    parameters = list(inspect.signature(store.add_message).parameters)

    assert parameters == [
        "session_id",
        "role",
        "content",
        "metadata",
        "tool_calls",
        "tool_call_id",
    ]
    assert isinstance(store, SessionStoreProtocol)
    assert amberlog.CompactionCheckpoint is CompactionCheckpoint


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be counted")
def test_many_sessions_hold_no_more_files_open_than_are_kept(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), cache_maxsize=10, durability="process")
    before = len(list(Path("/proc/self/fd").iterdir()))

    for number in range(300):
        store.add_user_message(f"s{number}", "x")

    # Those kept, and those that wait to be closed.
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 10 + 32
    assert store.get_chat_history("s0") == [{"role": "user", "content": "x"}]


def test_a_read_of_nothing_leaves_nothing(store: DefaultSessionStore, tmp_path: Path) -> None:
    assert store.get_session("ghost").messages == []
    assert store.get_chat_history("ghost") == []
    assert store.get_working_history("ghost") == []
    assert store.window("ghost") == []
    assert not store.session_exists("ghost")

    assert not list(tmp_path.iterdir())

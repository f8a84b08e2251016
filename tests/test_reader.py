"""A session as somebody reads it who does not run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionReader, SessionStore
from support.kohaku import BY_NAME, contents
from support.sample import record_everything

if TYPE_CHECKING:
    from pathlib import Path


def test_it_reads_what_the_peer_wrote(tmp_path: Path) -> None:
    fixture = BY_NAME["terrarium"]
    path = fixture.unpack(tmp_path)
    before = contents(tmp_path)

    with SessionReader(path) as reader:
        agents = reader.agents
        assert agents == fixture.expected("meta", "agents")
        for name in fixture.names("channels"):
            assert reader.channel_messages(name) == fixture.expected("channels", name)
        for name in agents:
            events = fixture.expected("events", name)
            assert isinstance(events, dict)
            assert reader.events(name) == list(events.values())
            snapshot = fixture.expected("per_agent", name, "conversation_snapshot")
            assert reader.conversation(name) == (snapshot or [])
        assert len(reader.events()) == sum(len(reader.events(name)) for name in agents)
        assert reader.conversation() == reader.conversation(agents[0])

    assert contents(tmp_path) == before


def test_turns_are_put_together_from_the_events(store: SessionStore) -> None:
    log: list[tuple[str, dict[str, object]]] = [
        ("text_chunk", {"content": "before anybody asked"}),
        ("user_input", {"content": "where is it?", "ts": 7.0}),
        ("user_message", {"content": "where is it?"}),
        ("text_chunk", {"content": "Let me "}),
        ("tool_call", {"name": "find", "args": {"path": "."}, "call_id": "c"}),
        ("tool_result", {"output": "src", "call_id": "c"}),
        ("text_chunk", {"content": "look."}),
        ("trigger_fired", {"content": "", "source": "timer"}),
        ("trigger_fired", {"content": "tick"}),
        ("assistant_message", {"message": {"role": "assistant", "content": "Tock."}}),
    ]
    for number, (kind, data) in enumerate(log):
        turn = 1 + (number > 6) + (number > 7)
        store.append_event("alice", kind, data, turn_index=turn, branch_id=1)

    with SessionReader(store.path) as reader:
        turns = reader.turns("alice")

    assert [turn.index for turn in turns] == [0, 1]
    assert [turn.user_text for turn in turns] == ["where is it?", "tick"]
    assert [turn.assistant_text for turn in turns] == ["Let me look.", "Tock."]
    assert turns[0].tool_calls == ({"name": "find", "args": {"path": "."}},)
    assert [turn.source for turn in turns] == ["user_input", "trigger_fired"]
    assert turns[0].ts == 7.0


def test_only_the_newest_branch_of_a_turn_is_shown(store: SessionStore) -> None:
    for branch, answer in ((1, "first"), (2, "second")):
        for kind, content in (("user_input", "q"), ("user_message", "q"), ("text_chunk", answer)):
            data = {"content": content}
            store.append_event("alice", kind, data, turn_index=1, branch_id=branch)

    with SessionReader(store.path) as reader:
        assert [turn.assistant_text for turn in reader.turns()] == ["second"]


def test_the_turns_of_all_agents_are_numbered_through(store: SessionStore) -> None:
    for agent in ("alice", "bob"):
        store.append_event(agent, "user_input", {"content": agent}, turn_index=1, branch_id=1)

    with SessionReader(store.path) as reader:
        turns = reader.turns()

    assert [(turn.index, turn.user_text) for turn in turns] == [(0, "alice"), (1, "bob")]


def test_it_finds_what_was_said(path: Path) -> None:
    with SessionStore(path) as store:
        record_everything(store)

    with SessionReader(path) as reader:
        assert reader.index() == 0
        assert {hit["meta"]["agent"] for hit in reader.search("question", agent="alice")} == {
            "alice"
        }
        with pytest.raises(ValueError, match="mode"):
            reader.search("question", mode="semantic")


def test_what_is_appended_meanwhile_is_seen(store: SessionStore) -> None:
    with SessionReader(store.path) as reader:
        store.append_event("alice", "user_input", {"content": "new"})

        assert [event["content"] for event in reader.events()] == ["new"]
        assert reader.agents == ["alice"]


def test_a_missing_file_is_not_made(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SessionReader(path)

    assert not path.exists()

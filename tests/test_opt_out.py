"""A session that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import NullSessionStore, SessionClosedError, SessionStore, open_session

if TYPE_CHECKING:
    from pathlib import Path


def test_a_disabled_session_touches_no_disk(tmp_path: Path) -> None:
    with open_session(tmp_path / "a" / "off.kohakutr", enabled=False) as store:
        store.init_meta("off", "agent", "agent.yaml", "/work", ["alice"])
        store.append_event("alice", "user_message", {"content": "off the record"})
        store.save_conversation("alice", [{"role": "user", "content": "off the record"}])
        store.write_artifact("picture.png", b"png")
        store.backup(tmp_path / "copy.kohakutr")
        store.flush()

    assert isinstance(store, NullSessionStore)
    assert not list(tmp_path.iterdir())


def test_a_disabled_session_answers_as_an_empty_one(tmp_path: Path) -> None:
    null = NullSessionStore(tmp_path / "off.kohakutr")
    null.append_event("alice", "user_message", {"content": "off the record"})

    with SessionStore(tmp_path / "empty.kohakutr") as empty:
        for answer in (
            lambda store: store.get_events("alice"),
            lambda store: list(store.iter_events("alice")),
            lambda store: store.get_all_events(),
            lambda store: store.load_meta(),
            lambda store: store.load_conversation("alice"),
            lambda store: store.snapshots("alice"),
            lambda store: store.load_scratchpad("alice"),
            lambda store: store.list_subagent_runs(),
            lambda store: store.token_usage("alice"),
            lambda store: store.token_usage_all_loops(),
            lambda store: store.search("record"),
            lambda store: store.verify().ok,
            lambda store: dict(store.state),
        ):
            assert answer(null) == answer(empty)


def test_a_disabled_session_hands_out_numbers_and_calls_subscribers(tmp_path: Path) -> None:
    heard: list[tuple[str, object]] = []
    null = NullSessionStore(tmp_path / "off.kohakutr")
    null.subscribe(lambda key, event: heard.append((key, event["event_id"])))

    appended = [null.append_event(agent, "text", {}) for agent in ("alice", "bob", "alice")]

    assert appended == [("alice:e000000", 1), ("bob:e000000", 2), ("alice:e000001", 3)]
    assert heard == appended
    assert [null.next_subagent_run("alice", "explorer") for _ in range(2)] == [0, 1]
    assert null.save_channel_message("tasks", {"content": "x"}) == "tasks:m000000"


def test_a_disabled_session_refuses_what_a_real_one_refuses(tmp_path: Path) -> None:
    null = NullSessionStore(tmp_path / "off.kohakutr")

    with pytest.raises(ValueError, match="config_type"):
        null.init_meta("off", "robot", "", "", [])
    with pytest.raises(ValueError, match="artifacts"):
        null.write_artifact("../outside", b"")
    null.close()
    with pytest.raises(SessionClosedError):
        null.append_event("alice", "text", {})

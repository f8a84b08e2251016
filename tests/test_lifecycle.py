"""How a store ends, who hears of its events, and what works beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionClosedError, SessionError, SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERBS: dict[str, Callable[[SessionStore], object]] = {
    "append_event": lambda store: store.append_event("alice", "text", {}),
    "append_events": lambda store: store.append_events("alice", [("text", {})]),
    "backup": lambda store: store.backup(f"{store.path}.copy"),
    "checkpoint": lambda store: store.checkpoint(),
    "find_subagent_run": lambda store: store.find_subagent_run("job"),
    "flush": lambda store: store.flush(),
    "get_all_events": lambda store: store.get_all_events(),
    "get_events": lambda store: store.get_events("alice"),
    "iter_events": lambda store: store.iter_events("alice"),
    "load_conversation": lambda store: store.load_conversation("alice"),
    "load_meta": lambda store: store.load_meta(),
    "load_scratchpad": lambda store: store.load_scratchpad("alice"),
    "meta": lambda store: store.meta["session_id"],
    "register_companion_closer": lambda store: store.register_companion_closer(print),
    "save_conversation": lambda store: store.save_conversation("alice", []),
    "save_state": lambda store: store.save_state("alice", turn_count=1),
    "search": lambda store: store.search("words"),
    "session_id": lambda store: store.session_id,
    "submit": lambda store: store.submit(print),
    "subscribe": lambda store: store.subscribe(print),
    "touch": lambda store: store.touch(),
    "verify": lambda store: store.verify(),
    "write_artifact": lambda store: store.write_artifact("name", b""),
}

# What would go on after the end.
ENTERING = {"register_companion_closer", "submit", "subscribe"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_store_raises_on_every_verb(verb: str, path: Path) -> None:
    store = SessionStore(path)
    store.close()

    with pytest.raises(SessionClosedError) as raised:
        VERBS[verb](store)

    assert raised.value.path == str(path)


def test_the_path_of_a_store_is_text(store: SessionStore, path: Path) -> None:
    with SessionStore.open_readonly(path) as read:
        paths = [store.path, read.path]

    assert paths == [str(path), str(path)]


def test_closing_twice_is_no_error(path: Path) -> None:
    store = SessionStore(path)

    store.close()
    store.close()

    assert not store.is_ready


def test_closing_pauses_the_session_unless_told_not_to(path: Path) -> None:
    with SessionStore(path) as store:
        store.update_status("running")
    with SessionStore(path) as store:
        paused = store.meta["status"]
        store.update_status("completed")
        store.close(update_status=False)

    with SessionStore.open_readonly(path) as store:
        kept = store.meta["status"]

    assert (paused, kept) == ("paused", "completed")


def test_companions_close_last_in_first_out_while_the_store_still_works(path: Path) -> None:
    closed: list[str] = []
    store = SessionStore(path)
    store.register_companion_closer(lambda: closed.append(f"first {store.meta['status']}"))
    store.register_companion_closer(lambda: closed.append("second"))

    store.close()

    assert closed == ["second", "first paused"]


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - ENTERING))
def test_a_companion_may_use_the_store_that_is_closing(verb: str, path: Path) -> None:
    store = SessionStore(path)
    store.init_meta("sid", "agent", "config.yaml", "/work", ["alice"])
    used: list[str] = []

    def use() -> None:
        VERBS[verb](store)
        used.append(verb)

    store.register_companion_closer(use)
    store.close()

    assert used == [verb]


def test_every_companion_closes_and_the_first_error_is_raised(path: Path) -> None:
    closed: list[str] = []

    def fail() -> None:
        closed.append("failing")
        raise ValueError("the first error")

    def fail_too() -> None:
        raise ValueError("the second error")

    store = SessionStore(path)
    store.register_companion_closer(fail_too)
    store.register_companion_closer(lambda: closed.append("last"))
    store.register_companion_closer(fail)

    with pytest.raises(ValueError, match="the first error"):
        store.close()

    assert closed == ["failing", "last"]
    SessionStore(path, writer_lock=True).close()


def test_a_subscriber_hears_of_the_stored_event_on_the_appending_thread(
    store: SessionStore,
) -> None:
    heard: list[tuple[str, dict[str, object], int]] = []
    given: dict[str, object] = {"content": "hello"}
    store.subscribe(lambda key, event: heard.append((key, event, threading.get_ident())))

    key, event_id = store.append_event("alice", "user_message", given, turn_index=3)

    ((heard_key, event, thread),) = heard
    assert (heard_key, thread) == (key, threading.get_ident())
    assert event == store.get_event_by_id("alice", event_id)
    assert event["turn_index"] == 3
    assert given == {"content": "hello"}


def test_a_subscriber_hears_of_every_event_of_a_batch(store: SessionStore) -> None:
    heard: list[str] = []
    store.subscribe(lambda key, _: heard.append(key))

    appended = store.append_events("alice", [("text", {"n": n}) for n in range(3)])

    assert heard == [key for key, _ in appended]


def test_a_failing_subscriber_is_logged_and_undoes_nothing(
    store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_key: str, _event: dict[str, object]) -> None:
        raise RuntimeError("no thanks")

    heard: list[str] = []
    store.subscribe(fail)
    store.subscribe(lambda key, _: heard.append(key))

    with caplog.at_level(logging.WARNING, "amberlog"):
        key, _ = store.append_event("alice", "text", {})

    assert heard == [key]
    assert len(store.get_events("alice")) == 1
    assert "no thanks" in caplog.text


def test_subscribing_twice_is_once_and_unsubscribing_ends_it(store: SessionStore) -> None:
    heard: list[str] = []

    def hear(key: str, _event: dict[str, object]) -> None:
        heard.append(key)

    store.subscribe(hear)
    store.subscribe(hear)
    store.append_event("alice", "text", {})
    store.unsubscribe(hear)
    store.unsubscribe(hear)
    store.append_event("alice", "text", {})

    assert heard == ["alice:e000000"]


def test_submitted_work_runs_in_order_and_before_the_end(path: Path) -> None:
    store = SessionStore(path)
    gate = threading.Event()
    store.submit(gate.wait)
    futures = [store.submit(store.append_event, "alice", "text", {"n": n}) for n in range(20)]

    gate.set()
    store.close()

    assert [future.result()[1] for future in futures] == list(range(1, 21))


def test_a_store_cannot_be_closed_by_its_own_worker(store: SessionStore) -> None:
    closing = store.submit(store.close)

    with pytest.raises(SessionError, match="its own worker"):
        closing.result()


def test_run_awaits_the_worker(store: SessionStore) -> None:
    async def two() -> list[tuple[str, int]]:
        first = store.run(store.append_event, "alice", "text", {})
        second = store.run(store.append_event, "alice", "text", {})
        return list(await asyncio.gather(first, second))

    appended = asyncio.run(two())

    assert appended == [("alice:e000000", 1), ("alice:e000001", 2)]

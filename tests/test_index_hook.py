"""How a hook keeps an index level with a session that is being recorded."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionIndex, SessionIndexHook, SessionStore, open_session
from amberlog.hooks import push_index_update
from amberlog.index import reconcile
from support.sessions import say
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields the index of the directory that the sessions are made in."""
    with SessionIndex.open(tmp_path) as opened:
        yield opened


def events_of(index: SessionIndex, name: str) -> object:
    row = index.get(name)
    return None if row is None else row["event_count"]


def test_enough_events_bring_a_push(index: SessionIndex, store: SessionStore) -> None:
    SessionIndexHook(store, index, flush_every_n_events=6, flush_every_seconds=3600)
    attached = events_of(index, "session.kohakutr")

    say(store, "one", "two")

    assert attached == 0
    assert comes_true(lambda: events_of(index, "session.kohakutr") == 6)


def test_one_event_is_pushed_after_a_while_though_no_other_comes(
    index: SessionIndex, store: SessionStore
) -> None:
    SessionIndexHook(
        store, index, flush_every_n_events=10**6, flush_every_seconds=0.05, push_on_attach=False
    )

    store.append_event("alice", "user_message", {"content": "only this"})

    assert comes_true(lambda: events_of(index, "session.kohakutr") == 1)


def test_flush_pushes_what_the_session_holds_now(index: SessionIndex, store: SessionStore) -> None:
    hook = SessionIndexHook(store, index, flush_every_n_events=10**6, flush_every_seconds=3600)
    say(store, "the newest")

    hook.flush()

    row = index.get("session.kohakutr")
    assert row is not None
    assert (row["preview"], row["last_reply"]) == ("the newest", "answer to the newest")
    assert index.list(search="newest").total == 1


def test_closing_the_store_pushes_the_rest_and_stops_the_thread(
    index: SessionIndex, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    with SessionStore(tmp_path / "one.kohakutr") as store:
        store.init_meta("one", "agent", "", "", ["alice"])
        SessionIndexHook(store, index, flush_every_n_events=10**6, flush_every_seconds=3600)
        say(store, "last words")

    row = index.get("one.kohakutr")
    report = reconcile(index, tmp_path)
    assert row is not None
    assert (row["preview"], row["status"]) == ("last words", "paused")
    assert (report.total, index.count()) == (1, 1)
    assert {thread.name for thread in set(threading.enumerate()) - before} <= {"amberlog-service"}


def test_after_detaching_nothing_is_pushed(index: SessionIndex, store: SessionStore) -> None:
    with SessionIndexHook(store, index, flush_every_n_events=1) as hook:
        say(store, "seen")
    say(store, "not seen")

    hook.flush()
    hook.detach()

    assert events_of(index, "session.kohakutr") == 3


def test_a_push_that_fails_is_logged_and_stops_no_append(
    index: SessionIndex, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    hook = SessionIndexHook(store, index, push_on_attach=False)
    index.close()

    with caplog.at_level(logging.WARNING, "amberlog"):
        say(store, "stored all the same")
        hook.flush()

    assert "was not pushed" in caplog.text
    assert store.max_event_id("alice") == 3


def test_a_session_that_is_not_kept_is_not_listed(
    index: SessionIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "amberlog"),
        open_session(tmp_path / "off.kohakutr", enabled=False) as store,
    ):
        SessionIndexHook(store, index, flush_every_n_events=1)
        say(store, "nobody keeps this")

    assert index.count() == 0
    assert caplog.text == ""


def test_a_session_of_another_directory_is_refused(tmp_path: Path, store: SessionStore) -> None:
    with SessionIndex.open(tmp_path / "elsewhere") as elsewhere:
        with pytest.raises(ValueError, match="does not lie in"):
            elsewhere.push(store.path)

        pushed = push_index_update(store, elsewhere)

    assert pushed is None


@pytest.mark.parametrize(("events", "seconds"), [(0, 5.0), (20, 0.0)])
def test_a_hook_needs_positive_numbers(
    index: SessionIndex, store: SessionStore, events: int, seconds: float
) -> None:
    with pytest.raises(ValueError, match="flush_every"):
        SessionIndexHook(store, index, flush_every_n_events=events, flush_every_seconds=seconds)

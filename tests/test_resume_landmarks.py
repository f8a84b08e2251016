"""What a resume knows of a log without reading it, whoever wrote the log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionStore
from support.agentlike import AGENT, Agentlike
from support.independent import encoded, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recorded(path: Path) -> Path:
    """Returns a session of three turns, each with a snapshot."""
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 0)] * 3)
    return path


def foreign(event_id: int, **fields: object) -> bytes:
    stamps = {"event_id": event_id, "ts": 1.0, "type": "user_message"}
    return encoded({**stamps, **fields})


def questions(path: Path) -> list[object]:
    resumed = amberlog.resume(path, readonly=True)
    with resumed.store:
        messages = resumed.agents[AGENT].conversation
    return [message["content"] for message in messages if message["role"] == "user"]


def place(path: Path) -> tuple[int | None, int | None, str]:
    resumed = amberlog.resume(path, readonly=True)
    resumed.store.close()
    found = resumed.agents[AGENT]
    return found.turn_index, found.branch_id, found.source


@pytest.mark.parametrize("taken_in", [False, True])
def test_a_branch_that_another_program_began_is_seen(recorded: Path, taken_in: bool) -> None:  # noqa: FBT001  # a parameter of the test
    event = foreign(99, turn_index=2, branch_id=2, content="theirs", parent_branch_path=[[1, 1]])
    write(recorded, "events", {f"{AGENT}:e000099": event})
    if taken_in:
        with SessionStore(recorded) as store:
            store.flush()

    assert questions(recorded) == ["turn 0 at turn 1", "theirs"]
    assert place(recorded)[:2] == (2, 2)


def test_a_branch_that_was_rewritten_away_costs_time_and_nothing_else(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 0), ("edit", 0, 0)])
    key = f"{AGENT}:e000005"
    write(path, "events", {key: foreign(6, turn_index=1, branch_id=1, content="rewritten")})
    with SessionStore(path) as store:
        store.flush()

    resumed = amberlog.resume(path, readonly=True)
    resumed.store.close()

    assert resumed.agents[AGENT].conversation


def test_a_log_of_before_the_landmarks_is_read_whole(recorded: Path) -> None:
    with closing(sqlite3.connect(recorded)) as connection, connection:
        connection.execute("DROP TABLE amber_landmark")
    with SessionStore(recorded) as store:
        said = {"content": "another"}
        store.append_event(AGENT, "user_message", said, turn_index=1, branch_id=2)
        read = amberlog.resume(store).agents[AGENT].events_read
        events = len(store.events)

    assert read == events
    assert questions(recorded) == ["another"]


def test_without_our_tables_everything_is_found_again(recorded: Path) -> None:
    private = (
        "amber_namespace",
        "amber_foreign",
        "amber_landmark",
        "amber_snapshot",
        "amber_segment",
    )
    with closing(sqlite3.connect(recorded)) as connection, connection:
        for name in private:
            connection.execute(f"DROP TABLE {name}")
        for name in ("amber_event_added", "amber_event_rewritten"):
            connection.execute(f"DROP TRIGGER {name}")

    before = questions(recorded)
    with SessionStore(recorded) as store:
        store.append_event(AGENT, "user_message", {"content": "new"}, turn_index=1, branch_id=2)
    after = questions(recorded)

    assert before == [f"turn 0 at turn {turn}" for turn in (1, 2, 3)]
    assert after == ["new"]


def test_a_fork_knows_the_landmarks_that_it_kept(path: Path, tmp_path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 0)])
        trigger = {"trigger_id": "t", "trigger_type": "Timer", "data": {"every": 1}}
        store.append_event(AGENT, "trigger_state", trigger)
        last = store.max_event_id()
        said = {"content": "later"}
        store.append_event(AGENT, "user_message", said, turn_index=1, branch_id=2)
        for number, point in enumerate((last, last + 1)):
            store.fork(tmp_path / f"{number}.kohakutr", at_event_id=point).close()

    assert questions(tmp_path / "0.kohakutr") == ["turn 0 at turn 1"]
    assert questions(tmp_path / "1.kohakutr") == ["later"]
    with SessionStore(tmp_path / "1.kohakutr") as child:
        child.save_branch_snapshot(
            AGENT,
            [{"role": "user", "content": "later", "metadata": {"turn_index": 1, "branch_id": 1}}],
            branch={"turn_index": 1, "branch_id": 1},
            watermark=child.max_event_id(),
        )
        found = amberlog.resume(child).agents[AGENT]
    assert (found.branch_id, found.source) == (2, "replay")
    assert [trigger.trigger_id for trigger in found.triggers] == ["t"]


def test_a_batch_that_is_not_committed_is_seen_by_its_own_store(path: Path) -> None:
    with SessionStore(path, durability="batch") as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=False, states=False).take([("turn", 0, 1), ("rerun", 0, 0)])

        found = amberlog.resume(store).agents[AGENT]

    assert (found.turn_index, found.branch_id) == (1, 2)


def test_a_snapshot_of_events_that_are_not_there_is_not_trusted(recorded: Path) -> None:
    with SessionStore(recorded) as store:
        tag = {"turn_index": 9, "branch_id": 1}
        store.save_branch_snapshot(
            AGENT, [{"role": "user", "content": "lost"}], branch=tag, watermark=10_000
        )

    assert questions(recorded) == [f"turn 0 at turn {turn}" for turn in (1, 2, 3)]

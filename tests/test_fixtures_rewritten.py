"""What the peer wrote, written again by us, judged by a reader that shares no code with us."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support import independent
from support.kohaku import SESSIONS, Fixture

if TYPE_CHECKING:
    from pathlib import Path


def rewritten(fixture: Fixture, directory: Path) -> Path:
    """Writes every event of a fixture into a new session, as it is, and returns where."""
    target = directory / "rewritten.kohakutr"
    source = fixture.unpack(directory)
    with SessionStore.open_readonly(source) as old, SessionStore(target) as new:
        for key, event in old.get_all_events():
            new.append_event(key.rsplit(":e", 1)[0], str(event["type"]), event)
    return target


def by_place(records: dict[str, object]) -> dict[tuple[str, object], dict[str, object]]:
    """Returns events by namespace and id."""
    placed: dict[tuple[str, object], dict[str, object]] = {}
    for key, event in records.items():
        assert isinstance(event, dict)
        placed[key.rsplit(":e", 1)[0], event["event_id"]] = event
    assert len(placed) == len(records)
    return placed


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_events_written_again_are_equal_to_an_independent_reader(
    fixture: Fixture, tmp_path: Path
) -> None:
    rows: dict[str, object] = {}
    for namespace in fixture.names("events"):
        of_namespace = fixture.expected("events", namespace)
        assert isinstance(of_namespace, dict)
        rows |= of_namespace

    target = rewritten(fixture, tmp_path)

    assert by_place(independent.rows(target, "events")) == by_place(rows)


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_an_event_written_again_keeps_its_fields_in_their_order(
    fixture: Fixture, tmp_path: Path
) -> None:
    stamped = {"type", "event_id"}
    source = fixture.unpack(tmp_path)
    with SessionStore.open_readonly(source) as old:
        events: dict[str, object] = dict(old.get_all_events())

    target = rewritten(fixture, tmp_path)

    again = by_place(independent.rows(target, "events"))
    for place, event in by_place(events).items():
        kept = [name for name in again[place] if name not in stamped]
        assert kept == [name for name in event if name not in stamped]


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_other_rows_written_again_are_equal_to_an_independent_reader(
    fixture: Fixture, tmp_path: Path
) -> None:
    source = fixture.unpack(tmp_path)
    target = tmp_path / "rewritten.kohakutr"
    names = ("meta", "state", "channels", "subagents", "jobs", "conversation", "turn_rollup")

    read: dict[str, dict[str, object]] = {}
    with SessionStore.open_readonly(source) as old, SessionStore(target) as new:
        for name in names:
            records = getattr(old, name).records()
            getattr(new, name).put_many(records)
            read[name] = {key.decode(): value for key, value in records}
        new.close(update_status=False)

    for name in names:
        rows = {} if not read[name] else independent.rows(target, name)
        assert rows == read[name]
        assert read[name] == fixture.expected("tables", name) or name == "state"

"""Forks, snapshots and families of sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import (
    DefaultSessionStore,
    ExtendedSessionData,
    HierarchicalSessionStore,
    SessionSnapshot,
)
from amberlog.errors import SessionExistsError, SessionNotFoundError
from support.chat import copy_of, groups, plain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> HierarchicalSessionStore:
    """Returns an empty store."""
    return HierarchicalSessionStore(str(tmp_path))


def fill(store: HierarchicalSessionStore, session_id: str, count: int) -> None:
    for number in range(count):
        store.add_user_message(session_id, f"turn {number}", {"deep": [number]})


def said(store: HierarchicalSessionStore, session_id: str) -> list[object]:
    return [message["content"] for message in store.get_chat_history(session_id)]


def turns(end: int) -> list[str]:
    return [f"turn {number}" for number in range(end)]


def noted(value: object) -> object:
    if isinstance(value, list):
        return [noted(item) for item in value]
    if isinstance(value, ExtendedSessionData | SessionSnapshot):
        return {"__type__": type(value).__name__, **value.to_dict()}
    return plain(value)


def test_a_family_of_the_peer_gives_every_answer_that_it_gave_there(tmp_path: Path) -> None:
    group = next(one for one in groups() if one["class"] == "HierarchicalSessionStore")
    directory = copy_of("hierarchical", tmp_path)
    # A strict store refuses to revert to a message that is not there; the peer answers `False`.
    store = HierarchicalSessionStore(str(directory), strict=False)

    for call in cast("list[dict[str, object]]", group["calls"]):
        verb = getattr(store, str(call["call"]))
        arguments = cast("list[object]", call["args"])
        keywords = cast("dict[str, object]", call["kwargs"])
        if call.get("raises") == "ValueError":
            with pytest.raises(ValueError, match="message"):
                verb(*arguments, **keywords)
        else:
            assert noted(verb(*arguments, **keywords)) == call["returns"], call

    files = {file.name for file in directory.iterdir() if file.suffix != ".lock"}
    assert files == set(cast("list[str]", group["files_after"]))


def test_a_fork_has_exactly_the_messages_up_to_its_point_with_all_that_they_had(
    tmp_path: Path,
) -> None:
    store = HierarchicalSessionStore(str(tmp_path), retention="truncate", active_window=30)
    fill(store, "s", 50)
    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    for message in stored["messages"]:
        message["unknown"] = {"list": [message["content"]]}
    (tmp_path / "s.json").write_text(json.dumps(stored), encoding="utf-8")
    store.append_compaction_checkpoint("s", "thirty turns")

    forked = store.fork_session("s", 11)
    again = store.fork_session(forked)

    for made in (forked, again):
        copied = json.loads((tmp_path / f"{made}.json").read_text(encoding="utf-8"))
        assert copied["messages"] == stored["messages"][:12]
        assert "last_compaction" not in copied
    assert store.get_session_tree("s")["children"] == [
        {
            "session_id": forked,
            "title": "Fork of s",
            "message_count": 12,
            "children": [
                {
                    "session_id": again,
                    "title": "Fork of Fork of s",
                    "message_count": 12,
                    "children": [],
                }
            ],
        }
    ]
    assert [store.get_parent(made) for made in (forked, again)] == ["s", forked]


def test_parent_and_fork_never_change_each_other(store: HierarchicalSessionStore) -> None:
    fill(store, "s", 3)
    forked = store.fork_session("s", 1)

    store.add_user_message("s", "parent only")
    store.add_user_message(forked, "child only")
    store.clear_session("s")

    assert said(store, forked) == ["turn 0", "turn 1", "child only"]
    assert said(store, "s") == []
    assert store.get_children("s") == [forked]


def test_a_fork_keeps_the_checkpoint_and_the_archive_of_what_it_has(tmp_path: Path) -> None:
    store = HierarchicalSessionStore(str(tmp_path), active_window=4)
    fill(store, "s", 8)
    store.append_compaction_checkpoint("s", "eight turns")
    store.add_user_message("s", "after")

    forked = store.fork_session("s")

    assert store.get_working_history(forked) == store.get_working_history("s")
    archived = store.get_session(forked).archived_messages
    assert [message.content for message in archived] == turns(5)


@pytest.mark.parametrize("at", [3, 99, -1])
def test_a_fork_at_no_message_is_refused_and_leaves_nothing(
    at: int, store: HierarchicalSessionStore, tmp_path: Path
) -> None:
    fill(store, "s", 3)

    with pytest.raises(ValueError, match="no message"):
        store.fork_session("s", at)

    assert [file.name for file in tmp_path.glob("*.json")] == ["s.json"]


def test_a_session_that_exists_is_not_made_anew(store: HierarchicalSessionStore) -> None:
    fill(store, "s", 7)

    with pytest.raises(SessionExistsError):
        store.create_session("s", title="T")

    assert said(store, "s") == turns(7)


def test_a_family_needs_a_parent_that_is_there(
    store: HierarchicalSessionStore, tmp_path: Path
) -> None:
    with pytest.raises(SessionNotFoundError):
        store.create_session("s", parent_id="ghost")
    with pytest.raises(SessionNotFoundError):
        store.fork_session("ghost")
    with pytest.raises(ValueError, match="own parent"):
        store.create_session("s", parent_id="s")

    assert not list(tmp_path.glob("*.json"))


def test_a_snapshot_brings_back_messages_archive_and_checkpoint(tmp_path: Path) -> None:
    store = HierarchicalSessionStore(str(tmp_path), active_window=4)
    fill(store, "s", 6)
    store.append_compaction_checkpoint("s", "six turns")
    before = store.get_session("s")
    snapshot = store.create_snapshot("s", "before", {"by": "test"})
    for number in range(20):
        store.add_user_message("s", f"later {number}")
    store.append_compaction_checkpoint("s", "all turns")

    assert store.revert_to_snapshot("s", snapshot)

    after = store.get_session("s")
    assert after.messages == before.messages
    assert after.archived_messages == before.archived_messages
    assert after.last_compaction == before.last_compaction
    taken = store.get_snapshots("s")
    assert [(one.id, one.label, one.metadata) for one in taken] == [
        (snapshot, "before", {"by": "test"})
    ]
    assert not store.revert_to_snapshot("s", "ghost")


def test_fifty_snapshots_of_the_same_messages_store_them_once(
    store: HierarchicalSessionStore, tmp_path: Path
) -> None:
    for number in range(40):
        store.add_user_message("s", f"turn {number} " + "x" * 2000)
    store.create_snapshot("s")
    size = (tmp_path / "s.json").stat().st_size

    for _ in range(49):
        store.create_snapshot("s")

    assert len(store.get_snapshots("s")) == 50
    assert (tmp_path / "s.json").stat().st_size < size * 1.7
    assert len(store.get_session("s").messages) == 40


def test_a_checkpoint_of_turns_that_were_taken_back_goes_with_them(
    store: HierarchicalSessionStore,
) -> None:
    fill(store, "s", 6)
    store.append_compaction_checkpoint("s", "six turns")
    store.add_user_message("s", "after")

    assert store.revert_to_message("s", 3)

    assert [message["content"] for message in store.get_working_history("s")] == turns(4)
    with pytest.raises(ValueError, match="message_index: 99, where the window has 0 to 3"):
        store.revert_to_message("s", 99)
    assert said(store, "s") == turns(4)


def test_a_plain_store_leaves_a_family_whole(
    store: HierarchicalSessionStore, tmp_path: Path
) -> None:
    store.create_session("s", title="T")
    fill(store, "s", 3)
    store.create_snapshot("s")
    child = store.fork_session("s", 1)
    store.share_session("s")

    DefaultSessionStore(str(tmp_path)).add_user_message("s", "plain")

    session = store.get_extended_session("s")
    assert (session.title, session.children_ids, session.is_shared) == ("T", [child], True)
    assert len(session.snapshots) == 1
    assert store.revert_to_snapshot("s", session.snapshots[0].id)
    assert said(store, "s") == turns(3)


def test_an_exported_session_comes_back_with_its_snapshots(
    store: HierarchicalSessionStore, tmp_path: Path
) -> None:
    store.create_session("s", title="T")
    fill(store, "s", 3)
    snapshot = store.create_snapshot("s")
    other = HierarchicalSessionStore(str(tmp_path / "other"))

    made = other.import_session(store.export_session("s"))
    report = other.import_sessions(store.export_all())

    assert report.imported == 1
    for session_id in (made, "s"):
        assert other.get_extended_session(session_id).title == "T"
        other.clear_session(session_id)
        assert other.revert_to_snapshot(session_id, snapshot)
        assert said(other, session_id) == turns(3)


def test_a_circle_of_sessions_is_refused(store: HierarchicalSessionStore, tmp_path: Path) -> None:
    for session_id, child in (("a", "b"), ("b", "a")):
        stored = {"session_id": session_id, "messages": [], "children_ids": [child]}
        (tmp_path / f"{session_id}.json").write_text(json.dumps(stored), encoding="utf-8")

    with pytest.raises(ValueError, match="own children"):
        store.get_session_tree("a")

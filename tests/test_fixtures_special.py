"""What single fixtures are there for: a hot log, an old format, branches, artifacts."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionDamagedError, SessionReadOnlyError, SessionStore
from support.kohaku import BY_NAME, SESSIONS, Fixture, contents, expected, plain, unpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOT = BY_NAME["hot wal"]


@pytest.mark.parametrize("name", BY_NAME)
def test_reading_leaves_the_directory_as_it_was(name: str, tmp_path: Path) -> None:
    path = BY_NAME[name].unpack(tmp_path)
    before = contents(tmp_path)

    with SessionStore.open_readonly(path) as store:
        agents = store.discover_agents_from_events()
        read = [store.get_events(agent) for agent in agents]
        store.load_meta()
        store.search("token")
        store.verify()
        during = contents(tmp_path)

    assert all(read)
    assert during == before
    assert contents(tmp_path) == before


def test_a_writer_takes_a_hot_log_over_and_goes_on(tmp_path: Path) -> None:
    path = HOT.unpack(tmp_path)

    with SessionStore(path) as store:
        survivors = store.get_events("alice")
        key, event_id = store.append_event("alice", "text_chunk", {"content": "after the kill"})
    with SessionStore(path) as store:
        events = store.get_events("alice")

    # Ids up to 7 were handed out before the kill, so none of them is given again.
    assert (key, event_id) == ("alice:e000004", 8)
    assert [event["event_id"] for event in survivors] == [1, 2, 3, 4]
    assert [event["event_id"] for event in events] == [1, 2, 3, 4, 8]


def test_text_of_events_that_a_kill_took_is_not_found(tmp_path: Path) -> None:
    path = HOT.unpack(tmp_path)

    with SessionStore(path) as store:
        store.append_event("alice", "text_chunk", {"content": "nothing of the sort"})
        hits = store.search("hot wal payload", k=20)
        found = sorted(str(hit["meta"]["event_key"]) for hit in hits)
        present = [key in store.events for key in found]

    assert found == [f"alice:e00000{number}" for number in range(4)]
    assert all(present)


def test_a_file_of_the_first_version_is_read_and_not_changed(tmp_path: Path) -> None:
    path = unpack("v1.kohakutr.gz", tmp_path, "v1.kohakutr")
    before = contents(tmp_path)

    with SessionStore.open_readonly(path) as store:
        tables = {
            "meta": store.meta,
            "state": store.state,
            "events": store.events,
            "channels": store.channels,
            "subagents": store.subagents,
            "jobs": store.jobs,
            "conversation": store.conversation,
        }
        read = {
            name: {key.decode(): value for key, value in table.records()}
            for name, table in tables.items()
        }
        events = store.get_events("alice")
        rollups = store.list_turn_rollups("alice")
        messages = store.load_conversation("alice")
        agents = store.load_meta()["agents"]
        with pytest.raises(SessionReadOnlyError):
            store.append_event("alice", "text", {})

    assert plain(read) == expected("v1", "v1_tables")
    rows = expected("v1", "v1_tables", "events")
    assert isinstance(rows, dict)
    assert events == list(rows.values())
    assert rollups == []
    assert messages is not None
    assert [message["role"] for message in messages] == ["system", "assistant", "user", "assistant"]
    assert agents == ["alice"]
    assert contents(tmp_path) == before


LISTED = (
    "agents",
    "config_path",
    "config_type",
    "conversation_id",
    "created_at",
    "format_version",
    "last_active",
    "pwd",
    "status",
)
VIEWS: list[tuple[dict[int, int], int | None]] = [
    ({}, None),
    ({1: 1}, None),
    ({1: 2}, None),
    ({1: 1, 2: 2}, None),
    ({1: 2, 2: 3}, 36),
    ({1: 1, 2: 2, 3: 1}, 30),
    ({1: 1, 2: 2, 3: 2}, None),
    ({1: 9}, None),
    ({1: 2, 2: 3, 3: 1}, 36),
]


@pytest.mark.parametrize(("view", "watermark"), VIEWS)
def test_a_branch_view_finds_the_deepest_snapshot_on_its_path(
    view: dict[int, int], watermark: int | None, tmp_path: Path
) -> None:
    fixture = BY_NAME["branches"]
    path = fixture.unpack(tmp_path)
    records = fixture.expected("tables", "state", "alice:branch_snapshots")
    assert isinstance(records, list)

    with SessionStore(path) as store:
        found = store.load_branch_snapshot("alice", view)
    with SessionStore.open_readonly(path) as store:
        read = store.load_branch_snapshot("alice", view)

    wanted = [record for record in records if record["watermark"] == watermark]
    assert [plain(found)] == (wanted or [None])
    assert found == read


@pytest.mark.parametrize("fixture", SESSIONS, ids=lambda fixture: fixture.name)
def test_the_view_of_the_newest_turns_finds_the_snapshot_that_the_peer_saved(
    fixture: Fixture, tmp_path: Path
) -> None:
    path = fixture.unpack(tmp_path)

    with SessionStore.open_readonly(path) as store:
        for agent in fixture.names("per_agent"):
            selected = fixture.expected("per_agent", agent, "selected_branches")
            records = store.state.get(f"{agent}:branch_snapshots", [])
            assert isinstance(selected, dict)
            assert isinstance(records, list)

            found = store.load_branch_snapshot(
                agent, {int(turn): branch for turn, branch in selected.items()}
            )

            path_of_view = [[int(turn), branch] for turn, branch in selected.items()]
            on_path = [record for record in records if record["path"] == path_of_view]
            assert [found] == (on_path or [None])


def test_the_artifacts_are_the_peers_and_its_bad_names_are_refused(tmp_path: Path) -> None:
    path = BY_NAME["artifacts"].unpack(tmp_path)
    sums = expected("artifacts", "artifacts")
    refused = expected("artifacts", "write_artifact_errors")
    assert isinstance(refused, dict)

    with SessionStore(path) as store:
        directory = store.artifacts_dir
        read = {
            str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in directory.rglob("*")
            if file.is_file()
        }
        for name in refused:
            with pytest.raises(ValueError, match="artifact"):
                store.write_artifact(name, b"")

    assert directory == tmp_path / "artifacts.artifacts"
    assert read == sums


@pytest.mark.parametrize("member", ["parent.kohakutr", "parent-what-if.kohakutr.v2"])
def test_parent_and_child_have_artifacts_of_their_own(member: str, tmp_path: Path) -> None:
    path = unpack("fork.tar.gz", tmp_path, member)

    with SessionStore.open_readonly(path) as store:
        directory = store.artifacts_dir

    assert directory.name in {"parent.artifacts", "parent-what-if.kohakutr.artifacts"}
    assert directory.is_dir()
    assert [file.name for file in directory.iterdir()] == ["a.txt"]


def test_every_session_of_a_directory_says_of_itself_what_the_peer_lists(tmp_path: Path) -> None:
    root = unpack("sessions_dir.tar.gz", tmp_path, "sessions")
    entries = expected("sessions_dir", "entries")
    assert isinstance(entries, list)
    before = contents(tmp_path)

    for entry in entries:
        folder = root / "mirror" if entry["filename"] == "mirrored.kohakutr" else root
        with closing(SessionStore.open_readonly(folder / entry["filename"])) as store:
            meta = store.load_meta()
            first = next(e for _, e in store.get_all_events() if e["type"] == "user_input")

        assert {name: meta.get(name) for name in LISTED} == {name: entry[name] for name in LISTED}
        assert first["content"] == entry["preview"]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("opens", [SessionStore, SessionStore.open_readonly])
def test_a_file_that_is_no_session_is_refused_and_left_alone(
    opens: Callable[[Path], SessionStore], tmp_path: Path
) -> None:
    root = unpack("sessions_dir.tar.gz", tmp_path, "sessions")
    before = contents(tmp_path)

    with pytest.raises(SessionDamagedError) as raised:
        opens(root / "broken.kohakutr")

    assert raised.value.path == str(root / "broken.kohakutr")
    assert contents(tmp_path) == before

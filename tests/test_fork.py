"""A fork is a session of its own, with the history of another one up to an event."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import (
    ForkNotStableError,
    NullSessionStore,
    SessionDamagedError,
    SessionExistsError,
    SessionReadOnlyError,
    SessionStore,
    SessionWriteError,
)
from amberlog.aio import AsyncSessionStore
from support import independent
from support.children import run_module
from support.kohaku import BY_NAME
from support.sample import record_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TURNS = 4
POINT = 4


@pytest.fixture
def parent(store: SessionStore) -> SessionStore:
    """Returns a session of four turns, two events each."""
    store.init_meta("demo", "agent", "", "/tmp", ["alice"])  # noqa: S108  # a name, not a file
    for turn in range(1, TURNS + 1):
        for event_type in ("user_message", "text_chunk"):
            content = {"content": f"{event_type} of turn {turn}"}
            store.append_event("alice", event_type, content, turn_index=turn, branch_id=1)
    return store


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Returns where a fork may be made."""
    return tmp_path / "child.kohakutr.v2"


def ids(store: SessionStore, agent: str = "alice") -> list[object]:
    return [event["event_id"] for event in store.get_events(agent)]


def everything(path: Path) -> dict[str, dict[str, object]]:
    return {name: independent.rows(path, name) for name in independent.KV_TABLES}


def text_of(value: object) -> object:
    """Returns the text of a value that the peer stored as text, and any other as it is."""
    header = bytes.fromhex("894b010600000000564b")
    if isinstance(value, bytes) and value.startswith(header):
        return value[len(header) :].decode()
    return value


def left_in(directory: Path) -> set[str]:
    return {str(found.relative_to(directory)) for found in directory.rglob("*")}


def test_a_fork_of_the_peers_session_equals_the_peers_fork(tmp_path: Path) -> None:
    source = BY_NAME["fork parent"].unpack(tmp_path)
    theirs = everything(BY_NAME["fork child"].unpack(tmp_path))
    target = tmp_path / "ours.kohakutr.v2"

    with SessionStore(source) as store:
        store.fork(
            target,
            at_event_id=5,
            mutate=lambda event: {**event, "content": "question 2 REWRITTEN"},
            name="what-if",
        ).close()

    ours = everything(target)
    for tables in (ours, theirs):
        tables["meta"] = {key: text_of(value) for key, value in tables["meta"].items()}
        lineage = tables["meta"].pop("lineage")
        assert isinstance(lineage, dict)
        fork = lineage["fork"]
        del fork["fork_created_at"], fork["parent_path"]
        tables["meta"]["fork"] = fork
        tables["meta"]["session_id"] = str(tables["meta"]["session_id"])[: -len("2a27c653")]
        for new in ("conversation_id", "created_at", "last_active"):
            assert tables["meta"].pop(new)
    # The peer leaves an empty slot for snapshots, and the counter of the parent.
    assert theirs["state"].pop("alice:branch_snapshots") == []
    assert theirs["state"].pop("counters:max_event_id")
    assert ours["state"].pop("counters:max_event_id") == 5
    assert ours == theirs
    assert (tmp_path / "ours.kohakutr.artifacts" / "a.txt").read_bytes() == (
        tmp_path / "parent-what-if.kohakutr.artifacts" / "a.txt"
    ).read_bytes()


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_events_of_a_fork_are_those_of_the_peers_file(name: str, tmp_path: Path) -> None:
    source = BY_NAME[name].unpack(tmp_path)
    target = tmp_path / "ours.kohakutr.v2"
    with SessionStore(source) as store:
        highest = store.max_event_id()

    with SessionStore(source) as store, store.fork(target, at_event_id=highest // 2 + 1) as child:
        assert child.verify().ok
        agents = child.namespaces()

    before = everything(source)
    kept = {
        key: event
        for key, event in before["events"].items()
        if isinstance(event, dict) and int(event["event_id"]) <= highest // 2 + 1
    }
    after = everything(target)
    assert after["events"] == kept
    assert agents == sorted({key.rsplit(":e", 1)[0] for key in kept})
    for table in ("channels", "subagents", "jobs", "turn_rollup"):
        assert after[table] == before[table]
    assert after["conversation"] == {}


def test_a_fork_keeps_only_events_up_to_its_point(parent: SessionStore, target: Path) -> None:
    with parent.fork(target, at_event_id=POINT) as child:
        forked = ids(child)
        counter = child.state["counters:max_event_id"]

    assert forked == [1, 2, 3, 4]
    assert counter == POINT
    assert independent.rows(target, "events") == {
        f"alice:e{number:06d}": event
        for number, event in enumerate(parent.get_events("alice")[:POINT])
    }


def test_a_fork_tells_its_origin_and_the_parent_its_forks(
    parent: SessionStore, target: Path
) -> None:
    parent.meta["resume_successor"] = {"kind": "merge"}
    before = parent.load_meta()

    with parent.fork(target, at_event_id=POINT, name="what if") as child:
        meta = child.load_meta()

    after = parent.load_meta()
    lineage = meta["lineage"]
    assert isinstance(lineage, dict)
    assert lineage["fork"] == {
        "parent_session_id": "demo",
        "parent_format_version": 2,
        "fork_point": POINT,
        "fork_mutation": None,
        "fork_created_at": meta["created_at"],
        "parent_path": parent.path,
    }
    assert after.pop("forked_children") == [
        {
            "session_id": meta["session_id"],
            "path": str(target),
            "fork_point": POINT,
            "fork_created_at": meta["created_at"],
        }
    ]
    assert after == before
    assert str(meta["session_id"]).startswith("demo-fork-")
    assert meta["conversation_id"] != before["conversation_id"]
    assert (meta["name"], meta["status"], meta["pwd"]) == ("what if", "paused", before["pwd"])
    assert not {"forked_children", "resume_successor"} & set(meta)


def test_a_fork_of_a_fork_keeps_what_is_known_of_other_origins(
    parent: SessionStore, target: Path
) -> None:
    parent.meta["lineage"] = {"migration": {"source_version": 1}}
    grandchild = target.with_name("grandchild.kohakutr.v2")

    with (
        parent.fork(target, at_event_id=6) as child,
        child.fork(grandchild, at_event_id=2) as second,
    ):
        lineage = second.meta["lineage"]
        parent_id = child.session_id
        forked = ids(second)
        children = child.meta["forked_children"]
        path = second.path

    assert forked == [1, 2]
    assert isinstance(lineage, dict)
    assert lineage["migration"] == {"source_version": 1}
    assert lineage["fork"]["parent_session_id"] == parent_id
    assert isinstance(children, list)
    assert [entry["path"] for entry in children] == [path]


def test_every_write_to_the_returned_fork_is_there_after_the_close(
    parent: SessionStore, target: Path
) -> None:
    child = parent.fork(target, at_event_id=POINT)

    for number in range(40):
        _, event_id = child.append_event("alice", "user_message", {"content": f"round {number}"})
        assert event_id == POINT + 1 + number
        assert child.get_events("alice")[-1]["content"] == f"round {number}"
    child.close()

    with SessionStore(target) as again:
        assert ids(again) == list(range(1, POINT + 41))
        assert again.verify().ok
        assert len(again.search("round", k=100)) == 40


def test_neither_session_changes_the_other(parent: SessionStore, target: Path) -> None:
    parent.state["alice:scratchpad"] = {"note": "shared"}
    (parent.artifacts_dir / "deep").mkdir()
    parent.write_artifact("deep/a.txt", b"parent")

    with parent.fork(target, at_event_id=POINT) as child:
        child.state["alice:scratchpad"] = {"note": "child"}
        child.append_event("alice", "user_message", {"content": "child"})
        child.write_artifact("deep/a.txt", b"child")
        parent.append_event("alice", "user_message", {"content": "parent"})

        assert child.get_events("alice")[-1]["content"] == "child"
        assert parent.get_events("alice")[-1]["content"] == "parent"
    assert parent.state["alice:scratchpad"] == {"note": "shared"}
    assert (parent.artifacts_dir / "deep" / "a.txt").read_bytes() == b"parent"


def test_a_fork_has_the_artifacts(parent: SessionStore, target: Path) -> None:
    parent.write_artifact("images/one.png", b"pixels")

    with parent.fork(target, at_event_id=POINT) as child:
        copied = child.artifacts_dir / "images" / "one.png"

    assert copied.read_bytes() == b"pixels"
    assert copied.parents[1] == target.parent / "child.kohakutr.artifacts"


def test_snapshots_stay_behind_and_all_else_of_the_state_comes_along(
    path: Path, target: Path
) -> None:
    with SessionStore(path) as store:
        record_everything(store)
        store.state["blob"] = b"raw bytes"
        store.save_conversation("alice", [{"role": "user", "content": "not level yet"}])
        with store.fork(target, at_event_id=2) as child:
            report = child.verify()
            conversation = child.load_conversation("alice")
        newest = store.load_conversation("alice")

    before, after = independent.rows(path, "state"), independent.rows(target, "state")
    left_out = ("snapshot_event_id", "snapshot_branch", "branch_snapshots", "branch_view")
    expected = {key: value for key, value in before.items() if not key.endswith(left_out)}
    assert after == expected | {"counters:max_event_id": 2}
    assert report.ok
    assert conversation is None
    assert newest == [{"role": "user", "content": "not level yet"}]


def test_a_view_keeps_the_turns_that_are_left(parent: SessionStore, target: Path) -> None:
    again = {"content": "asked again"}
    parent.append_event("alice", "user_message", again, turn_index=2, branch_id=2)
    parent.state["alice:branch_view"] = {"1": 1, "2": 1, "4": 1}
    parent.state["bob:branch_view"] = {"1": 1}

    with parent.fork(target, at_event_id=POINT) as child:
        state = {key.decode(): value for key, value in child.state.records()}

    assert state["alice:branch_view"] == {"1": 1, "2": 1}
    assert "bob:branch_view" not in state


@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        (lambda _: None, None),
        (lambda event: {**event, "content": "new"}, "new"),
        (lambda _: {"content": "bare"}, "bare"),
    ],
    ids=["dropped", "changed", "replaced"],
)
def test_a_mutation_changes_the_event_at_the_point_alone(
    mutate: Callable[[dict[str, object]], Mapping[str, object] | None],
    expected: str | None,
    parent: SessionStore,
    target: Path,
) -> None:
    before = parent.get_events("alice")

    with parent.fork(target, at_event_id=3, mutate=mutate) as child:
        events = child.get_events("alice")
        highest = child.max_event_id()
        assert child.verify().ok

    assert events[:2] == before[:2]
    if expected is None:
        assert (len(events), highest) == (2, 2)
    else:
        assert (len(events), highest) == (3, 3)
        assert events[2]["content"] == expected
        assert (events[2]["event_id"], events[2]["type"]) == (3, "user_message")
    assert parent.get_events("alice") == before


def test_a_mutation_that_raises_or_answers_nonsense_leaves_nothing(
    parent: SessionStore, target: Path
) -> None:
    before = left_in(target.parent)

    with pytest.raises(RuntimeError, match="ZeroDivisionError") as caught:
        parent.fork(target, at_event_id=3, mutate=lambda _: {"x": 1 // 0})
    with pytest.raises(TypeError, match="list"):
        parent.fork(target, at_event_id=3, mutate=lambda _: [])  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError):
        parent.fork(target, at_event_id=3, mutate=lambda _: {"x": {1}})
    with pytest.raises(ValueError, match="event_id"):
        parent.fork(target, at_event_id=3, mutate=lambda _: {"event_id": 7})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert left_in(target.parent) == before
    assert "forked_children" not in parent.meta


def test_a_fork_through_a_running_job_is_refused(parent: SessionStore, target: Path) -> None:
    parent.append_event("alice", "tool_call", {"name": "bash", "call_id": "job_1"})
    _, last = parent.append_event("bob", "subagent_call", {"name": "explore", "job_id": "job_2"})
    parent.append_event("alice", "tool_result", {"name": "bash", "call_id": "job_1"})
    before = left_in(target.parent)

    for pending in ({"job_1"}, ["job_2", "other"]):
        with pytest.raises(ForkNotStableError, match="job_") as caught:
            parent.fork(target, at_event_id=last, pending_job_ids=pending)
        assert caught.value.path == parent.path
    assert left_in(target.parent) == before
    with parent.fork(target, at_event_id=last, pending_job_ids={"other"}) as child:
        assert ids(child, "bob") == [last]
    with parent.fork(
        target.with_name("later.kohakutr.v2"), at_event_id=last + 1, pending_job_ids={"job_1"}
    ) as child:
        assert child.max_event_id() == last + 1


@pytest.mark.parametrize("point", [0, -1])
def test_a_point_before_the_first_event_is_refused(
    point: int, parent: SessionStore, target: Path
) -> None:
    before = left_in(target.parent)

    with pytest.raises(ValueError, match="at_event_id"):
        parent.fork(target, at_event_id=point)

    assert left_in(target.parent) == before


def test_a_session_without_events_cannot_be_forked(store: SessionStore, target: Path) -> None:
    with pytest.raises(ValueError, match="at_event_id"):
        store.fork(target, at_event_id=9)

    assert not target.exists()


@pytest.mark.parametrize("taken", ["child.kohakutr.v2", "child.kohakutr.v2-wal"])
def test_a_fork_replaces_nothing(taken: str, parent: SessionStore, target: Path) -> None:
    target.with_name(taken).write_bytes(b"mine")
    before = left_in(target.parent)

    with pytest.raises(FileExistsError) as caught:
        parent.fork(target, at_event_id=POINT)

    assert isinstance(caught.value, SessionExistsError)
    assert target.with_name(taken).read_bytes() == b"mine"
    assert left_in(target.parent) == before


def test_artifacts_of_another_session_are_not_mixed_with_a_forks(
    parent: SessionStore, target: Path
) -> None:
    other = target.parent / "child.kohakutr.artifacts"
    other.mkdir()
    (other / "a.txt").write_bytes(b"theirs")

    with pytest.raises(SessionExistsError):
        parent.fork(target, at_event_id=POINT)
    with pytest.raises(ValueError, match="share"):
        parent.fork(Path(parent.path).with_suffix(".kt"), at_event_id=POINT)

    assert not target.exists()


def test_an_unusable_directory_leaves_nothing_behind(parent: SessionStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    parent.write_artifact("a.txt", b"a")
    before = left_in(tmp_path)

    with pytest.raises(SessionWriteError):
        parent.fork(tmp_path / "file" / "child.kohakutr", at_event_id=POINT)

    assert left_in(tmp_path) == before
    assert "forked_children" not in parent.meta


def test_a_damaged_event_stops_the_fork(path: Path, parent: SessionStore, target: Path) -> None:
    parent.close()
    damaged = independent.HEADER + b"\xc1"
    independent.write(path, "events", {"alice:e000001": damaged})

    with SessionStore(path) as store, pytest.raises(SessionDamagedError):
        store.fork(target, at_event_id=POINT)

    assert not target.exists()
    assert not list(target.parent.glob(".amberlog-*"))


def test_a_parent_that_cannot_note_its_fork_has_none(
    path: Path, parent: SessionStore, target: Path
) -> None:
    parent.write_artifact("a.txt", b"a")
    parent.close()
    independent.write(path, "meta", {"forked_children": independent.HEADER + b"\xc1"})
    before = left_in(target.parent)

    with SessionStore(path) as store, pytest.raises(SessionDamagedError, match="forked_children"):
        store.fork(target, at_event_id=POINT)

    assert left_in(target.parent) == before


def test_a_read_only_session_cannot_be_forked(parent: SessionStore, target: Path) -> None:
    before = left_in(target.parent)

    with (
        SessionStore.open_readonly(parent.path) as reader,
        pytest.raises(SessionReadOnlyError),
    ):
        reader.fork(target, at_event_id=POINT)

    assert not left_in(target.parent) - before


def test_a_batch_that_is_open_is_in_the_fork(path: Path, target: Path) -> None:
    with SessionStore(path, durability="batch", writer_lock=True) as store:
        store.append_event("alice", "user_message", {"content": "in the batch"})

        with store.fork(target, at_event_id=1) as child:
            assert ids(child) == [1]


def test_a_fork_that_keeps_nothing_has_no_file(target: Path) -> None:
    with NullSessionStore() as store:
        with pytest.raises(ValueError, match="at_event_id"):
            store.fork(target, at_event_id=1)
        for _ in range(3):
            store.append_event("alice", "user_message", {"content": "gone"})

        with store.fork(target, at_event_id=2) as child:
            _, event_id = child.append_event("alice", "user_message", {"content": "gone"})

    assert isinstance(child, NullSessionStore)
    assert event_id == 3
    assert not list(target.parent.iterdir())


def test_a_fork_can_be_awaited(parent: SessionStore, target: Path) -> None:
    async def fork() -> list[dict[str, object]]:
        async with await AsyncSessionStore(parent).fork(target, at_event_id=2) as child:
            return await child.get_events("alice")

    events = asyncio.run(fork())

    assert [event["event_id"] for event in events] == [1, 2]


def test_the_vault_reads_a_fork(parent: SessionStore, target: Path) -> None:
    pytest.importorskip("kohakuvault")
    with parent.fork(target, at_event_id=3, mutate=lambda _: {"content": "a new needle"}) as child:
        child.append_event("alice", "user_message", {"content": "another needle"})

    found = json.loads(run_module("support.vault_reader", target, "needle"))

    assert found["tables"] == everything(target)
    assert {hit["event_id"] for hit in found["hits"]["needle"]} == {3, 4}

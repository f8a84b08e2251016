"""The index under the peer's names and by its contract."""

from __future__ import annotations

import importlib
import json
import logging
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.compat.kohakuterrarium.session.store import SessionStore
from amberlog.compat.kohakuterrarium.studio.persistence.session_index import (
    SEARCH_COLUMNS,
    SessionIndex,
    SessionIndexEntry,
    SessionIndexHook,
    aggregate_stats,
    close_session_index,
    get_session_index_default,
    push_index_update,
    read_entry_from_disk,
)
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.reconcile import reconcile
from amberlog.compat.kohakuterrarium.studio.persistence.session_index.refresh import (
    reconcile_guarded,
)
from amberlog.errors import SessionClosedError
from support.children import run_code
from support.sessions import fixture_directory, fixture_rows, many, record, say
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON_THE_PEERS_SERVER = """
import json, os, pathlib, sys
os.environ["KT_SESSION_DIR"] = sys.argv[1]
from amberlog import compat
compat.install("kohakuterrarium")
from fastapi import FastAPI
from fastapi.testclient import TestClient
from kohakuterrarium.api.routes.persistence import saved
from kohakuterrarium.session import run_state
from kohakuterrarium.session.store import SessionStore
from kohakuterrarium.studio.sessions import index_hooks
directory = pathlib.Path(sys.argv[1])
app = FastAPI()
app.include_router(saved.router, prefix="/api/sessions")
with TestClient(app) as client:
    def names(**asked):
        return [row["name"] for row in client.get("/api/sessions", params=asked).json()["sessions"]]
    report = {"listed": names(sort="name", order="asc"), "odd_sort": len(names(sort="nothing"))}
    with SessionStore(directory / "live.kohakutr") as store:
        store.init_meta("live", "agent", "", "", ["alice"])
        run_state.set_lifecycle(store, live=True)
        index_hooks.attach("live", store, directory)
        store.append_event("alice", "user_input", {"content": "a zebra"})
        index_hooks.registry()["live"].flush()
        row = client.get("/api/sessions", params={"search": "zebra"}).json()["sessions"][0]
        report["live"] = [row["name"], row["stop_reason"]]
    report["stats"] = client.get("/api/sessions/stats").json()["count"]
    from kohakuterrarium.studio.persistence.session_index import SessionIndex
    report["ours"] = SessionIndex.__module__.split(".")[0]
print(json.dumps(report))
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields the index of a directory, under the peer's contract."""
    with SessionIndex(tmp_path / ".kt-index.kvault") as opened:
        yield opened


def entry(name: str, **fields: object) -> SessionIndexEntry:
    """Returns an entry as a caller of the peer makes it."""
    row: dict[str, object] = {
        "filename": f"{name}.kohakutr",
        "name": name,
        "file_mtime": 1.5,
        "file_size": 7,
        "agents": ["alice"],
        "config_type": "agent",
        "format_version": 2,
        "last_active": "2026-01-01T00:00:00",
    }
    empty = ("preview", "config_path", "pwd", "status", "created_at", "node_id")
    return SessionIndexEntry.from_dict({**dict.fromkeys(empty, ""), **row, **fields})


def test_entries_are_written_as_values_and_listed_as_rows(index: SessionIndex) -> None:
    count = index.upsert_many([entry("a", preview="a zebra"), entry("b", status="paused")])

    page = index.list(sort="name", order="asc")

    assert (count, index.count(), index.all_filenames()) == (2, 2, ["a.kohakutr", "b.kohakutr"])
    assert [row["name"] for row in page.rows] == ["a", "b"]
    assert isinstance(page.rows, list)
    assert page.to_dict()["total"] == 2
    assert [row["name"] for row in index.list(search="zebra").rows] == ["a"]
    assert [row["name"] for row in index.list(status="paused").rows] == ["b"]
    assert index.fingerprint("a.kohakutr") == (1.5, 7)
    assert index.fingerprint("missing.kohakutr") is None
    found = index.get("a.kohakutr")
    assert found is not None
    assert SessionIndexEntry.from_dict(found) == entry("a", preview="a zebra")
    assert "_search_rowid" not in found


def test_arguments_that_ours_refuses_are_brought_into_range(index: SessionIndex) -> None:
    index.upsert_many([entry("a"), entry("b")])

    page = index.list(sort="nothing", order="sideways", limit=0, offset=-5)
    all_of_them = index.list(limit=2**70)

    assert (len(page.rows), page.limit, page.offset, page.total) == (1, 1, 0, 2)
    assert len(all_of_them.rows) == 2


def test_what_was_submitted_is_written_before_the_index_closes(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / ".kt-index.kvault")
    futures = [index.submit_update(entry(f"s{at}")) for at in range(50)]

    index.close()

    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(SessionClosedError):
        index.submit_update(entry("late"))
    with SessionIndex(tmp_path / ".kt-index.kvault") as again:
        assert again.count() == 50


def test_a_cleared_index_is_filled_again(index: SessionIndex, tmp_path: Path) -> None:
    many(tmp_path, 3)
    reconcile(index, tmp_path)

    index.clear()
    cleared = (index.count(), index.list(search="words").total)
    report = reconcile(index, tmp_path)

    assert cleared == (0, 0)
    assert (report.read, report.total, index.count()) == (3, 3, 3)


def test_the_fixture_is_listed_as_the_peer_lists_it(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)

    index = get_session_index_default(directory)
    rows = {str(row["filename"]): row for row in index.iter_entries()}
    close_session_index()

    wanted = fixture_rows()
    assert rows.keys() == wanted.keys()
    assert all(rows[name]["preview"] == wanted[name]["preview"] for name in wanted)
    assert all(rows[name]["stop_reason"] == wanted[name]["stop_reason"] for name in wanted)


def test_the_default_index_is_one_and_is_level(tmp_path: Path) -> None:
    many(tmp_path, 2)

    first = get_session_index_default(tmp_path)
    record(tmp_path / "new.kohakutr", "words")
    second = get_session_index_default(tmp_path)
    stale = second.count()
    reconcile_guarded(tmp_path, second, full_rescan=False)

    assert first is second
    assert isinstance(first, SessionIndex)
    assert (stale, first.count()) == (2, 3)
    assert aggregate_stats(first)["count"] == 3
    close_session_index()


def test_the_hook_pushes_a_session_of_the_peers_contract(
    index: SessionIndex, tmp_path: Path
) -> None:
    with SessionStore(tmp_path / "a.kohakutr") as store:
        store.init_meta("a", "agent", "", "", ["alice"])
        with SessionIndexHook(store, index, flush_every_n_events=3):
            say(store, "first")
            is_pushed = comes_true(lambda: index.list(search="first").total == 1)
        pushed = push_index_update(store, index)

    assert is_pushed
    assert pushed is not None
    assert (pushed.name, pushed.preview, pushed.agents) == ("a", "first", ["alice"])


def test_an_entry_of_a_file_is_read_without_an_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = record(tmp_path / "a.kohakutr", "first", title="A title")
    (tmp_path / "b.kohakutr").write_bytes(b"no session")

    read = read_entry_from_disk(path)
    with caplog.at_level(logging.WARNING, "amberlog"):
        unread = read_entry_from_disk(tmp_path / "b.kohakutr")

    assert read is not None
    assert (read.preview, read.title, read.turn_count) == ("first", "A title", 1)
    assert read.to_search_columns().keys() == set(SEARCH_COLUMNS)
    assert unread is None
    assert "b.kohakutr" in caplog.text


def test_an_entry_is_made_of_meta_as_it_is_read_from_the_file(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)
    for row in fixture_rows().values():
        path = directory / str(row["filename"])
        if not path.exists():
            continue
        with SessionStore.open_readonly(path) as store:
            meta = store.load_meta()

        made = SessionIndexEntry.from_meta(
            path=path,
            meta=meta,
            preview=str(row["preview"]),
            has_vector_index=cast("bool", row["has_vector_index"]),
            exchange={key: row[key] for key in ("last_user", "last_reply", "turn_count")},
        )

        assert made.to_listing_dict() == {
            **row,
            "file_mtime": made.file_mtime,
            "file_size": made.file_size,
        }


def test_what_cannot_be_read_is_logged(
    index: SessionIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b.kohakutr").write_bytes(b"no session")

    with caplog.at_level(logging.WARNING, "amberlog"):
        report = reconcile(index, tmp_path, workers=0)

    assert (report.read, report.total, report.aborted) == (1, 1, False)
    assert "b.kohakutr cannot be listed" in caplog.text


@pytest.mark.peers
def test_the_peers_server_lists_through_our_index(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    many(tmp_path, 3)

    report = json.loads(run_code(ON_THE_PEERS_SERVER, tmp_path))

    assert report == {
        "listed": ["s000", "s001", "s002"],
        "odd_sort": 3,
        "live": ["live", None],
        "stats": 4,
        "ours": "amberlog",
    }


@pytest.mark.peers
def test_an_entry_has_the_fields_of_the_peers_in_their_order() -> None:
    theirs = importlib.import_module("kohakuterrarium.studio.persistence.session_index.entry")

    assert list(SessionIndexEntry.__dataclass_fields__) == list(
        theirs.SessionIndexEntry.__dataclass_fields__
    )

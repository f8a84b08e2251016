"""What deleting a session removes: all that is its own, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import (
    SessionGoneError,
    SessionIndex,
    SessionLockedError,
    SessionNotFoundError,
    SessionStore,
)
from amberlog.index import delete_session, reconcile
from support.sessions import SIDECAR, files_below, record

if TYPE_CHECKING:
    from pathlib import Path


def with_artifacts(path: Path) -> Path:
    record(path, "a")
    with SessionStore(path) as store:
        store.write_artifact("deep/picture.png", b"png")
    return path


def test_everything_of_a_session_goes_and_nothing_else(tmp_path: Path) -> None:
    for name in ("x.kohakutr", "x.kohakutr.v2", "xy.kohakutr", "ax.kohakutr"):
        with_artifacts(tmp_path / name)
    for suffix in (".drives", ".drives-wal", ".drives.split-intent.json.1", ".drives.migrate-lock"):
        (tmp_path / f"x.kohakutr{suffix}").write_bytes(b"")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
    before = files_below(tmp_path)

    removed = delete_session(tmp_path, "x")

    gone = before - files_below(tmp_path)
    # The migration lock of the peer stays: others may wait on it.
    assert gone == {
        name
        for name in before
        if name.startswith(("x.kohakutr", "x.artifacts")) and not name.endswith("migrate-lock")
    }
    assert {path.name for path in removed} == {name for name in gone if "/" not in name}
    with SessionIndex.open(tmp_path) as index:
        assert list(index.all_filenames()) == ["ax.kohakutr", "xy.kohakutr"]


def test_a_file_name_means_only_that_file(tmp_path: Path) -> None:
    for name in ("x.kohakutr", "x.kohakutr.v2"):
        record(tmp_path / name, "a")

    delete_session(tmp_path, "x.kohakutr.v2")

    assert (tmp_path / "x.kohakutr").is_file()
    assert not (tmp_path / "x.kohakutr.v2").exists()


def test_artifacts_that_another_form_of_the_name_shares_stay(tmp_path: Path) -> None:
    with_artifacts(tmp_path / "x.kohakutr")
    record(tmp_path / "x.kt", "a")

    delete_session(tmp_path, "x.kt")

    assert (tmp_path / "x.artifacts" / "deep" / "picture.png").is_file()


@pytest.mark.parametrize(
    "name",
    ["..", ".", "../victim", "/etc/passwd", "a/b", "victim\0.json", "", "mirror/../../victim"],
)
def test_no_name_is_a_path(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "sessions"
    record(tmp_path / "victim.kohakutr", "a")
    record(directory / "one.kohakutr", "a")
    before = files_below(tmp_path)

    with pytest.raises(ValueError, match="name"):
        delete_session(directory, name)

    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["on", "one.", "ONE", "o*", "..%2Fvictim", "%2e%2e%2fvictim", "..\\victim", SIDECAR]
)
def test_a_name_is_never_guessed(tmp_path: Path, name: str) -> None:
    record(tmp_path / "one.kohakutr", "a")
    before = files_below(tmp_path)

    with pytest.raises(SessionNotFoundError):
        delete_session(tmp_path, name)

    assert files_below(tmp_path) == before


def test_a_session_whose_writer_lock_is_held_is_not_deleted(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "one.kohakutr", writer_lock=True) as store:
        store.append_event("alice", "user_input", {"content": "a"})
        before = files_below(tmp_path)

        with pytest.raises(SessionLockedError):
            delete_session(tmp_path, "one")

        assert files_below(tmp_path) == before
        store.append_event("alice", "user_input", {"content": "b"})


def test_whoever_has_the_session_open_learns_that_it_is_gone(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "one.kohakutr") as store:
        store.append_event("alice", "user_input", {"content": "a"})

        delete_session(tmp_path, "one")

        with pytest.raises(SessionGoneError):
            store.append_event("alice", "user_input", {"content": "b"})
        store.close(update_status=False)
    # The lock file is left to the holder.
    assert files_below(tmp_path) <= {"one.kohakutr.lock"}


def test_a_name_can_be_used_again_at_once(tmp_path: Path) -> None:
    holder = SessionStore(tmp_path / "one.kohakutr")
    holder.append_event("alice", "user_input", {"content": "old"})
    delete_session(tmp_path, "one")

    record(tmp_path / "one.kohakutr", "new")
    holder.close(update_status=False)

    with SessionStore.open_readonly(tmp_path / "one.kohakutr") as store:
        assert next(event["content"] for event in store.get_events("alice")) == "new"


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    foreign, directory = tmp_path / "foreign", tmp_path / "sessions"
    record(foreign / "target.kohakutr", "a")
    (foreign / "kept.txt").write_text("kept")
    record(directory / "one.kohakutr", "a")
    (directory / "one.artifacts").symlink_to(foreign)
    (directory / "two.kohakutr").symlink_to(foreign / "target.kohakutr")
    before = files_below(foreign)

    delete_session(directory, "one")
    delete_session(directory, "two")

    assert files_below(foreign) == before
    assert files_below(directory) == set()


def test_what_is_no_session_any_more_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "broken.kohakutr").write_bytes(b"random bytes")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)

        delete_session(tmp_path, "broken", index=index)

        assert index.unreadable() == ()
    assert not (tmp_path / "broken.kohakutr").exists()

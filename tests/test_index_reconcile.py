"""How an index is brought level with the disk, whatever lies there."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionIndex, SessionStore
from amberlog.index import close_session_index, delete_session, reconcile, refresh
from support.children import environment, run_code
from support.independent import HEADER
from support.places import place_for_all
from support.sessions import (
    SIDECAR,
    files_below,
    fixture_directory,
    many,
    record,
    say,
)
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from amberlog import ReconcileReport

OLD = (1_600_000_000, 1_600_000_000)
needs_an_unprivileged_user = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs to become another user"
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields the index of a directory of its own."""
    with SessionIndex.open(tmp_path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_defaults_left() -> Iterator[None]:
    """Closes the indexes that a test shared."""
    yield
    close_session_index()


def listed(index: SessionIndex) -> set[object]:
    return {row["filename"] for row in index.list(limit=1000).rows}


def settle(directory: Path) -> None:
    """Waits until a change would bear another time than the ones that files have now."""
    probe, newest = directory / "probe", max(p.lstat().st_ctime_ns for p in directory.rglob("*"))
    while probe.write_bytes(b"") == 0 and probe.stat().st_ctime_ns < newest + 100_000_000:
        pass
    probe.unlink()


def test_only_what_changed_is_read_again(index: SessionIndex, tmp_path: Path) -> None:
    many(tmp_path, 5)
    settle(tmp_path)

    first = reconcile(index, tmp_path)
    again = reconcile(index, tmp_path)
    record(tmp_path / "s001.kohakutr", "more")
    changed = reconcile(index, tmp_path)
    full = reconcile(index, tmp_path, full=True)

    assert (first.read, first.unchanged, first.total) == (5, 0, 5)
    assert (again.read, again.unchanged, again.deleted) == (0, 5, 0)
    assert (changed.read, changed.unchanged) == (1, 4)
    assert (full.read, full.aborted) == (5, False)


def test_a_change_within_a_tick_of_the_clock_is_found(index: SessionIndex, tmp_path: Path) -> None:
    path = record(tmp_path / "one.kohakutr", "first text")
    reconcile(index, tmp_path)
    times = path.stat()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        title = HEADER + b"\xa5title"
        connection.execute("INSERT INTO meta VALUES (CAST('name' AS BLOB), ?)", [title])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    reconcile(index, tmp_path)

    row = index.get("one.kohakutr")
    assert row is not None
    assert row["title"] == "title"


def test_files_that_are_gone_or_renamed_leave(index: SessionIndex, tmp_path: Path) -> None:
    many(tmp_path, 3)
    reconcile(index, tmp_path)
    (tmp_path / "s000.kohakutr").unlink()
    (tmp_path / "s001.kohakutr").rename(tmp_path / "renamed.kohakutr")

    report = reconcile(index, tmp_path)

    assert report.deleted == 2
    assert listed(index) == {"renamed.kohakutr", "s002.kohakutr"}
    assert index.list(search="words 0").total == 0


def test_what_cannot_be_read_is_reported_and_not_tried_again(
    index: SessionIndex, tmp_path: Path
) -> None:
    good = many(tmp_path, 100)
    (tmp_path / "random.kohakutr").write_bytes(os.urandom(5000))
    whole = (tmp_path / good[0]).read_bytes()
    (tmp_path / "cut.kohakutr").write_bytes(whole[:100])
    with closing(sqlite3.connect(tmp_path / "foreign.kohakutr")) as other, other:
        other.execute("CREATE TABLE people (name TEXT)")
    settle(tmp_path)

    first = reconcile(index, tmp_path)
    again = reconcile(index, tmp_path)

    page = index.list(limit=1000)
    assert (first.read, again.read, page.total) == (103, 0, 100)
    assert first.unreadable == again.unreadable == page.unreadable
    assert [one.path for one in page.unreadable] == [
        "cut.kohakutr",
        "foreign.kohakutr",
        "random.kohakutr",
    ]
    assert "another program" in page.unreadable[1].reason


def test_a_file_that_was_mended_is_listed_and_one_that_was_damaged_is_not(
    index: SessionIndex, tmp_path: Path
) -> None:
    mended, damaged = tmp_path / "mended.kohakutr", record(tmp_path / "damaged.kohakutr", "a")
    mended.write_bytes(b"no session")
    reconcile(index, tmp_path)
    whole = damaged.read_bytes()
    damaged.write_bytes(b"no session")
    mended.write_bytes(whole)

    report = reconcile(index, tmp_path)

    assert listed(index) == {"mended.kohakutr"}
    assert [one.path for one in report.unreadable] == ["damaged.kohakutr"]


def test_a_newer_format_is_reported_and_unchanged(index: SessionIndex, tmp_path: Path) -> None:
    path = record(tmp_path / "one.kohakutr", "a")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        newer = HEADER + b"\x63"
        connection.execute(
            "UPDATE meta SET value = ? WHERE key = CAST('format_version' AS BLOB)", [newer]
        )
    before = path.read_bytes()

    report = reconcile(index, tmp_path)

    assert [one.reason for one in report.unreadable] == ["format version 99, newer than 2"]
    assert path.read_bytes() == before


def test_odd_entries_never_stop_a_reconcile(index: SessionIndex, tmp_path: Path) -> None:
    record(tmp_path / "good.kohakutr", "a")
    (tmp_path / "dangling.kohakutr").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.kohakutr").symlink_to("loop.kohakutr")
    (tmp_path / "directory.kohakutr").mkdir()
    os.mkfifo(tmp_path / "pipe.kohakutr")
    (tmp_path / "empty.kohakutr").write_bytes(b"")
    (tmp_path / "linked.kt").symlink_to("good.kohakutr")
    with open(os.fsencode(tmp_path) + b"/\xff.kohakutr", "wb") as file:  # noqa: PTH123  # not a text
        file.write(b"x")

    report = reconcile(index, tmp_path)

    assert listed(index) == {"good.kohakutr", "linked.kt"}
    assert {one.path for one in report.unreadable} == {
        "dangling.kohakutr",
        "loop.kohakutr",
        "directory.kohakutr",
        "pipe.kohakutr",
        "empty.kohakutr",
        "\ufffd.kohakutr",
    }


def test_nothing_is_left_beside_the_sessions(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)
    many(directory, 3)
    before = files_below(directory)
    with SessionIndex.open(directory) as index:
        reconcile(index, directory)

        after = files_below(directory)

    assert after - before == {SIDECAR, f"{SIDECAR}-wal", f"{SIDECAR}-shm"}
    assert files_below(directory) - before == {SIDECAR}


def test_the_highest_version_of_a_session_stands_for_it(
    index: SessionIndex, tmp_path: Path
) -> None:
    for version in ("x.kohakutr", "x.kohakutr.v2", "x.kohakutr.v10", "y.kt"):
        record(tmp_path / version, version)
    reconcile(index, tmp_path)
    before = listed(index)

    record(tmp_path / "y.kohakutr", "newer")
    (tmp_path / "x.kohakutr.v10").unlink()
    reconcile(index, tmp_path)

    assert before == {"x.kohakutr.v10", "y.kt"}
    assert listed(index) == {"x.kohakutr.v2", "y.kohakutr"}


def test_a_mirrored_session_of_the_same_name_is_listed_beside_the_other(
    index: SessionIndex, tmp_path: Path
) -> None:
    record(tmp_path / "mirror" / "same.kohakutr", "from a worker")
    record(tmp_path / "mirror" / "only.kohakutr", "from a worker")
    reconcile(index, tmp_path)
    alone = listed(index)
    record(tmp_path / "same.kohakutr", "from here")
    reconcile(index, tmp_path)
    together = listed(index)
    (tmp_path / "same.kohakutr").unlink()
    reconcile(index, tmp_path)

    assert alone == listed(index) == {"same.kohakutr", "only.kohakutr"}
    assert together == {"same.kohakutr", "mirror/same.kohakutr", "only.kohakutr"}
    row = index.get("same.kohakutr")
    assert row is not None
    assert row["path"] == "mirror/same.kohakutr"


def test_names_that_differ_a_little_are_different_sessions(
    index: SessionIndex, tmp_path: Path
) -> None:
    odd_names = [
        "Chat",
        "chat",
        "Caf\u00e9",
        "Cafe\u0301",
        "CON",
        "x ",
        "x",
        "a'b\"c",
        "x%41",
        "é" * 100,
    ]
    for name in odd_names:
        record(tmp_path / f"{name}.kohakutr", "a")

    reconcile(index, tmp_path)

    assert {row["name"] for row in index.list(limit=100).rows} == set(odd_names)


def test_a_session_that_another_process_writes_shows_its_new_turns(
    index: SessionIndex, tmp_path: Path
) -> None:
    path = record(tmp_path / "live.kohakutr", "old question")
    settle(tmp_path)
    reconcile(index, tmp_path)
    before = index.get("live.kohakutr")
    script = (
        "import sys\nfrom amberlog import SessionStore\nfrom support.sessions import say\n"
        "store = SessionStore(sys.argv[1])\nsay(store, 'new question', 'newest question')\n"
        "print('said', flush=True)\nsys.stdin.read()\n"
    )
    size, mtime = path.stat().st_size, path.stat().st_mtime_ns

    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"said\n"
        unchanged = (path.stat().st_size, path.stat().st_mtime_ns) == (size, mtime)
        report = reconcile(index, tmp_path)
        after = index.get("live.kohakutr")
        writer.kill()

    assert unchanged
    assert report.read == 1
    assert before is not None
    assert after is not None
    assert (after["preview"], after["last_reply"]) == (
        "newest question",
        "answer to newest question",
    )
    assert str(after["last_active"]) > str(before["last_active"])
    assert (before["event_count"], after["event_count"]) == (3, 9)


def test_a_session_that_this_process_writes_keeps_its_locks(
    index: SessionIndex, tmp_path: Path
) -> None:
    with SessionStore(tmp_path / "live.kohakutr", writer_lock=True) as store:
        store.init_meta("live", "agent", "", "", ["alice"])
        for turn in range(5):
            say(store, f"turn {turn}")
            reconcile(index, tmp_path)
        row = index.get("live.kohakutr")
        report = store.verify()

    assert row is not None
    assert (row["preview"], row["event_count"]) == ("turn 4", 15)
    assert report.ok


def test_a_deleted_session_stays_away(index: SessionIndex, tmp_path: Path) -> None:
    path = record(tmp_path / "a.kohakutr", "zebra")
    reconcile(index, tmp_path)
    holder = SessionStore(path)
    delete_session(tmp_path, "a", index=index)

    with pytest.raises(amberlog.SessionGoneError):
        holder.append_event("alice", "user_input", {"content": "zebra"})
    holder.close(update_status=False)
    report = reconcile(index, tmp_path)

    assert (report.total, index.count(), index.list(search="zebra").total) == (0, 0, 0)
    # The lock file is left to the holder.
    assert not {name for name in files_below(tmp_path) if name.startswith("a.")} - {
        "a.kohakutr.lock"
    }


@needs_an_unprivileged_user
def test_a_directory_that_cannot_be_written_is_listed_from_memory() -> None:
    script = (
        "import os, sys\nfrom amberlog import get_session_index_default\nos.setuid(65534)\n"
        "index = get_session_index_default(sys.argv[1])\n"
        "print(index.in_memory, index.list().total, index.list(search='words 2').total)\n"
    )
    with place_for_all() as place:
        directory = place / "sessions"
        many(directory, 3)
        before = files_below(directory)
        directory.chmod(0o555)

        said = run_code(script, directory)
        after = files_below(directory)

    assert said == "True 3 1\n"
    assert after == before


def test_a_directory_that_cannot_be_listed_changes_nothing(
    index: SessionIndex, tmp_path: Path
) -> None:
    many(tmp_path, 2)
    reconcile(index, tmp_path)
    file = tmp_path / "file"
    file.write_bytes(b"")

    report = reconcile(index, file)

    assert (report.aborted, report.total, index.count()) == (True, 2, 2)


def test_progress_counts_up_and_what_it_raises_stops_the_work(
    index: SessionIndex, tmp_path: Path
) -> None:
    many(tmp_path, 6)
    told: list[tuple[int, int]] = []

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reconcile(index, tmp_path, progress=stop)
    stopped = index.count()
    reconcile(index, tmp_path, progress=lambda done, total: told.append((done, total)))

    assert stopped == 0
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)
    assert index.count() == 6


def refreshed_at_once(index: SessionIndex, directory: Path, *, full: bool) -> list[ReconcileReport]:
    """Returns what eight threads are told that ask for a refresh at the same time."""
    reports: list[ReconcileReport] = []
    together = threading.Barrier(8)

    def run() -> None:
        together.wait()
        reports.append(refresh(index, directory, full=full))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return reports


def test_refreshes_at_once_share_scans(index: SessionIndex, tmp_path: Path) -> None:
    many(tmp_path, 20)
    seen: list[ReconcileReport] = []

    def is_shared() -> bool:
        reports = refreshed_at_once(index, tmp_path, full=False)
        seen.extend(reports)
        # Scans of their own would differ in how long they took.
        return len({report.elapsed_ms for report in reports}) < 8

    # Threads that a busy machine runs one after the other have nothing to share.
    assert comes_true(is_shared)
    assert {report.total for report in seen} == {20}
    assert index.count() == 20


def test_a_full_refresh_is_served_by_no_other(index: SessionIndex, tmp_path: Path) -> None:
    many(tmp_path, 20)

    reports = refreshed_at_once(index, tmp_path, full=True)

    assert [report.read for report in reports] == [20] * 8
    assert len({report.elapsed_ms for report in reports}) == 8

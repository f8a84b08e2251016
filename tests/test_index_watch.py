"""How a watch keeps an index level with a directory that other processes change."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("watchfiles")

from amberlog import MissingExtraError, SessionIndex, SessionIndexWatch, SessionStore
from amberlog.cli import main
from amberlog.index import close_session_index, reconcile
from support.children import environment, run_code
from support.places import place_for_all
from support.sessions import many, record, say
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER_S = 10.0**6
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields the index of a directory with three sessions, level with it."""
    many(tmp_path, 3)
    with SessionIndex.open(tmp_path) as opened:
        reconcile(opened, tmp_path)
        yield opened


@pytest.fixture
def watched(index: SessionIndex) -> Iterator[SessionIndex]:
    """Yields that index, kept level by what the system tells and nothing else."""
    extra = index.directory / "extra.kohakutr"
    with SessionIndexWatch(index, look_every_s=NEVER_S):
        record(extra, "one")
        assert comes_true(lambda: index.get(extra.name) is not None)
        # Only the first of these could be found by the look that a watch begins with.
        extra.unlink()
        assert comes_true(lambda: index.get(extra.name) is None)
        yield index


def lists(index: SessionIndex, *names: str) -> bool:
    return set(index.all_filenames()) == set(names)


def events_of(index: SessionIndex, name: str) -> object:
    row = index.get(name)
    return None if row is None else row["event_count"]


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts a process that records a turn for each line that it is given, and checkpoints none."""
    script = (
        "import sys\nfrom amberlog import SessionStore\nfrom support.sessions import say\n"
        "store = SessionStore(sys.argv[1])\n"
        "for line in sys.stdin:\n    say(store, line.strip())\n    print('said', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        yield started
        started.kill()


def has_said(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "said\n"


def test_a_listing_follows_what_another_process_makes_renames_and_deletes(
    watched: SessionIndex, tmp_path: Path
) -> None:
    path = tmp_path / "new.kohakutr"

    run_code("import sys, pathlib\nfrom support.sessions import record\n"
             "record(pathlib.Path(sys.argv[1]), 'a zebra')", path)  # fmt: skip
    is_made = comes_true(lambda: watched.list(search="zebra").total == 1)
    run_code("import os, sys\nos.rename(sys.argv[1], sys.argv[2])", path, tmp_path / "b.kohakutr")
    is_renamed = comes_true(
        lambda: lists(watched, "b.kohakutr", *(f"s{at:03d}.kohakutr" for at in range(3)))
    )
    run_code("import os, sys\n[os.remove(path) for path in sys.argv[1:]]",
             tmp_path / "b.kohakutr", tmp_path / "s001.kohakutr")  # fmt: skip
    is_deleted = comes_true(lambda: lists(watched, "s000.kohakutr", "s002.kohakutr"))

    assert (is_made, is_renamed, is_deleted) == (True, True, True)


def test_the_turns_of_a_live_writer_show_before_any_checkpoint(
    watched: SessionIndex, tmp_path: Path
) -> None:
    path = tmp_path / "s000.kohakutr"
    with writer(path) as process:
        has_said(process, "first")
        before = path.stat()

        seen = []
        for turns, said in enumerate(("second", "third"), start=3):
            has_said(process, said)
            seen.append(comes_true(lambda turns=turns: events_of(watched, path.name) == 3 * turns))  # type: ignore[misc]
        after = path.stat()
        row = watched.get(path.name)

    assert seen == [True, True]
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert row is not None
    assert row["preview"] == "third"


def test_only_what_is_said_to_have_changed_is_read(index: SessionIndex, tmp_path: Path) -> None:
    for name in ("s000.kohakutr", "s001.kohakutr"):
        with SessionStore(tmp_path / name) as store:
            say(store, "more")

    is_level = index.follow(["s000.kohakutr-wal", "s000.kohakutr-shm", ".kt-index.kvault"])

    assert is_level
    assert [events_of(index, f"s00{at}.kohakutr") for at in range(3)] == [6, 3, 3]


@pytest.mark.parametrize(
    ("present", "name", "change"),
    [
        (["a.kohakutr"], "a.kohakutr.v2", "make"),
        (["a.kt"], "a.kohakutr", "make"),
        (["a.kohakutr", "a.kohakutr.v2"], "a.kohakutr.v2", "unlink"),
        (["a.kt", "a.kohakutr"], "a.kohakutr", "unlink"),
        (["mirror/a.kohakutr"], "a.kohakutr", "make"),
        (["mirror/a.kohakutr", "a.kohakutr"], "a.kohakutr", "unlink"),
        (["mirror/a.kohakutr", "a.kohakutr"], "mirror/a.kohakutr", "unlink"),
        (["a.kohakutr"], "a.kohakutr", "link"),
    ],
)
def test_a_change_that_concerns_other_files_takes_a_look_at_them(
    tmp_path: Path, present: list[str], name: str, change: str
) -> None:
    (tmp_path / "mirror").mkdir()
    for one in present:
        record(tmp_path / one, f"in {one}")
    with SessionIndex.open(tmp_path) as index, SessionIndex(tmp_path / "new.kvault") as fresh:
        reconcile(index, tmp_path)
        if change != "make":
            (tmp_path / name).unlink()
        if change == "make":
            record(tmp_path / name, f"in {name}")
        if change == "link":
            (tmp_path / name).symlink_to("nothing")
        reconcile(fresh, tmp_path)

        is_level = index.follow([name])
        before_look = index.follow(["unrelated"])
        reconcile(index, tmp_path)

        assert not is_level
        assert before_look
        assert list(index.iter_entries()) == list(fresh.iter_entries())
        assert index.unreadable() == fresh.unreadable()


@pytest.mark.parametrize("change", ["make", "write", "unlink", "spoil", "mend", "nothing"])
def test_following_a_file_gives_what_a_new_index_gives(tmp_path: Path, change: str) -> None:
    many(tmp_path, 2)
    path = tmp_path / "a.kohakutr"
    if change != "make":
        record(path, "first")
    whole = path.read_bytes() if path.exists() else b""
    if change == "mend":
        path.write_bytes(b"spoilt")
    with SessionIndex.open(tmp_path) as index, SessionIndex(tmp_path / "new.kvault") as fresh:
        reconcile(index, tmp_path)
        if change in ("make", "write"):
            record(path, "second")
        elif change == "unlink":
            path.unlink()
        elif change in ("spoil", "mend"):
            path.write_bytes(whole if change == "mend" else b"spoilt")

        is_level = index.follow([path.name, f"{path.name}-wal"])
        reconcile(fresh, tmp_path)

        assert is_level
        assert list(index.iter_entries()) == list(fresh.iter_entries())
        assert index.unreadable() == fresh.unreadable()


def test_an_index_that_was_never_level_is_not_followed(tmp_path: Path) -> None:
    many(tmp_path, 2)
    with SessionIndex.open(tmp_path) as index:
        is_level = index.follow(["s000.kohakutr"])

        assert not is_level
        assert index.count() == 0


def test_a_watch_brings_an_index_level_first(tmp_path: Path) -> None:
    names = many(tmp_path, 3)

    with SessionIndex.open(tmp_path) as index, SessionIndexWatch(index, look_every_s=NEVER_S):
        is_level = comes_true(lambda: lists(index, *names))

    assert is_level


def test_sessions_of_a_mirror_that_comes_later_are_followed(
    watched: SessionIndex, tmp_path: Path
) -> None:
    (tmp_path / "mirror").mkdir()
    record(tmp_path / "mirror" / "m.kohakutr", "one")
    is_found = comes_true(lambda: events_of(watched, "m.kohakutr") == 3)
    record(tmp_path / "mirror" / "m.kohakutr", "two")
    is_followed = comes_true(lambda: events_of(watched, "m.kohakutr") == 6)

    assert (is_found, is_followed) == (True, True)


def test_a_directory_that_is_replaced_is_followed_on(watched: SessionIndex, tmp_path: Path) -> None:
    gone = tmp_path.with_name(f"{tmp_path.name}-gone")
    tmp_path.rename(gone)
    tmp_path.mkdir()
    record(tmp_path / "z.kohakutr", "one")

    is_found = comes_true(lambda: lists(watched, "z.kohakutr"))
    record(tmp_path / "z.kohakutr", "two")
    is_followed = comes_true(lambda: events_of(watched, "z.kohakutr") == 6)

    assert (is_found, is_followed) == (True, True)
    shutil.rmtree(gone)


def test_a_name_that_cannot_be_told_stops_no_watch(
    watched: SessionIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.kohakutr")).write_bytes(b"")
    is_reported = comes_true(lambda: len(watched.unreadable()) == 1)
    record(tmp_path / "later.kohakutr", "one")
    is_followed = comes_true(lambda: events_of(watched, "later.kohakutr") == 3)

    assert (is_reported, is_followed) == (True, True)
    assert "Unable to decode" in caplog.text


def test_what_the_system_does_not_tell_is_found_by_the_next_look(
    index: SessionIndex, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = record(tmp_path_factory.mktemp("elsewhere") / "far.kohakutr", "one")
    (tmp_path / "far.kohakutr").symlink_to(elsewhere)

    with SessionIndexWatch(index, look_every_s=0.2):
        is_found = comes_true(lambda: events_of(index, "far.kohakutr") == 3)
        # The directory that is watched does not change by this.
        record(elsewhere, "two")
        is_followed = comes_true(lambda: events_of(index, "far.kohakutr") == 6)

    assert (is_found, is_followed) == (True, True)


def test_more_changes_than_are_worth_following_bring_one_look(
    watched: SessionIndex, tmp_path: Path
) -> None:
    source = record(tmp_path / "first.kohakutr", "one").read_bytes()

    for at in range(600):
        (tmp_path / f"copy{at}.kohakutr").write_bytes(source)

    assert comes_true(lambda: watched.count() == 604)


@pytest.mark.skipif(not QUEUE.exists(), reason="only Linux says how long the queue is")
def test_what_no_longer_fits_the_queue_of_changes_is_found(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\nfrom amberlog import SessionIndex, SessionIndexWatch\n"
        "from support.waiting import comes_true\n"
        "index = SessionIndex.open(sys.argv[1])\n"
        "with index, SessionIndexWatch(index, look_every_s=1e6):\n"
        "    for line in sys.stdin:\n"
        "        print(comes_true(lambda: index.get(line.strip()) is not None), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:

        def finds(name: str) -> bool:
            assert watching.stdin
            assert watching.stdout
            watching.stdin.write(f"{name}\n")
            watching.stdin.flush()
            return watching.stdout.readline() == "True\n"

        record(tmp_path / "first.kohakutr", "one")
        began = finds("first.kohakutr")
        record(tmp_path / "second.kohakutr", "one")
        follows = finds("second.kohakutr")
        watching.send_signal(signal.SIGSTOP)
        for at in range(int(QUEUE.read_text()) + 1):
            (tmp_path / f"noise{at}").touch()
        record(tmp_path / "late.kohakutr", "one")
        watching.send_signal(signal.SIGCONT)
        is_found = finds("late.kohakutr")
        watching.kill()

    assert (began, follows, is_found) == (True, True, True)


def test_a_closed_watch_changes_nothing_more(index: SessionIndex, tmp_path: Path) -> None:
    watch = SessionIndexWatch(index, look_every_s=NEVER_S)
    was_watching = watch.is_watching

    watch.close()
    watch.close()
    record(tmp_path / "later.kohakutr", "one")

    assert was_watching
    assert not watch.is_watching
    assert index.get("later.kohakutr") is None


def test_a_watch_ends_with_its_index(index: SessionIndex, tmp_path: Path) -> None:
    with SessionIndexWatch(index, look_every_s=0.05) as watch:
        index.close()
        record(tmp_path / "later.kohakutr", "one")

        assert comes_true(lambda: not watch.is_watching)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_a_failure_is_logged_and_the_watch_goes_on() -> None:
    script = (
        "import logging, os, pathlib, sys, watchfiles\n"
        "from amberlog import SessionIndex, SessionIndexWatch\n"
        "from support.sessions import record\n"
        "from support.waiting import comes_true\n"
        "told = []\nhandler = logging.Handler()\nhandler.emit = told.append\n"
        "logging.getLogger('amberlog').addHandler(handler)\n"
        "os.setuid(65534)\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "with SessionIndex.open(home) as index, SessionIndexWatch(index, look_every_s=0.05):\n"
        "    comes_true(lambda: index.bootstrap_completed)\n"
        "    home.chmod(0o300)\n"
        "    print(comes_true(lambda: any(one.levelno == logging.ERROR for one in told)))\n"
        "    home.chmod(0o700)\n"
        "    record(home / 'later.kohakutr', 'one')\n"
        "    print(comes_true(lambda: index.get('later.kohakutr') is not None))\n"
    )
    with place_for_all() as place:
        os.chown(place, 65534, 65534)

        said = run_code(script, place)

    assert said == "True\nTrue\n"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_watch_needs_a_positive_number(index: SessionIndex, seconds: float) -> None:
    with pytest.raises(ValueError, match="look_every_s"):
        SessionIndexWatch(index, look_every_s=seconds)


def test_without_the_extra_it_is_named(
    index: SessionIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    with pytest.raises(MissingExtraError, match=r"amberlog\[watch\]") as raised:
        SessionIndexWatch(index)
    code = main(["serve", "--dir", str(tmp_path), "--watch"])

    assert raised.value.extra == "watch"
    assert code == 1
    said = capsys.readouterr()
    assert "amberlog[watch]" in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out
    close_session_index()

"""Files that are no session, no longer one, or not one of ours: refused by name, and unchanged."""

from __future__ import annotations

import gzip
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import (
    SessionDamagedError,
    SessionError,
    SessionNotFoundError,
    SessionStore,
    SessionVersionError,
)
from torture.places import environment, listing, run, shell

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parent / "fixtures" / "kohaku"


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(20_000))  # any bytes will do


def cut_short(path: Path) -> None:
    whole(path)
    path.write_bytes(path.read_bytes()[:100])


def cut_in_the_middle(path: Path) -> None:
    whole(path)
    stored = path.read_bytes()
    path.write_bytes(stored[: len(stored) // 2])


def of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('x');")
    connection.close()


def with_a_random_middle(path: Path) -> None:
    whole(path)
    stored = bytearray(path.read_bytes())
    stored[1024 : 1024 * 8] = random.Random(2).randbytes(1024 * 7)  # any bytes will do
    path.write_bytes(stored)


def a_directory(path: Path) -> None:
    path.mkdir()


def a_text(path: Path) -> None:
    path.write_text("SQLite format 3, said the text file, but it was none. " * 100)


def whole(path: Path) -> None:
    with SessionStore(path) as store:
        for n in range(100):
            store.append_event("alice", "text", {"content": f"word {n} " * 20})
    path.with_name(f"{path.name}.lock").unlink()


UNREADABLE = [
    random_bytes,
    cut_short,
    cut_in_the_middle,
    of_another_program,
    with_a_random_middle,
    a_directory,
    a_text,
]
VERBS = [("show",), ("events",), ("search", "word"), ("verify",)]


def read_by(kind: Callable[[Path], SessionStore], path: Path) -> None:
    with kind(path) as store:
        try:
            store.load_meta()
            store.get_all_events()
        finally:
            store.close(update_status=False)


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


@pytest.mark.parametrize("make", UNREADABLE)
def test_a_file_that_is_no_session_is_never_opened_for_reading(
    make: Callable[[Path], None], path: Path
) -> None:
    make(path)
    before = (names(path.parent), listing(path.parent))

    with pytest.raises(SessionError) as refused:
        read_by(SessionStore.open_readonly, path)

    assert isinstance(refused.value, SessionDamagedError | SessionNotFoundError)
    assert refused.value.path == str(path)
    assert (names(path.parent), listing(path.parent)) == before


@pytest.mark.parametrize("make", UNREADABLE)
def test_a_file_that_is_no_session_is_never_written_to(
    make: Callable[[Path], None], path: Path
) -> None:
    make(path)
    before = listing(path.parent)

    with pytest.raises(SessionDamagedError) as refused:
        read_by(SessionStore, path)

    assert refused.value.path == str(path)
    after = listing(path.parent)
    after.pop(f"{path.name}.lock", None)
    assert after == before


@pytest.mark.parametrize("make", UNREADABLE)
@pytest.mark.parametrize("verb", VERBS)
def test_the_shell_complains_in_one_line_about_a_file_that_is_no_session(
    verb: tuple[str, ...], make: Callable[[Path], None], path: Path
) -> None:
    make(path)
    before = names(path.parent)

    done = shell(verb[0], path, *verb[1:])

    assert done.returncode == 1
    if verb == ("verify",) and done.stdout:
        assert b"problems" in done.stdout
    else:
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == 1
        assert done.stderr.startswith(b"amberlog: ")
    assert names(path.parent) == before


@pytest.mark.parametrize("verb", VERBS)
def test_the_shell_complains_in_one_line_about_a_missing_session(
    verb: tuple[str, ...], path: Path
) -> None:
    done = shell(verb[0], path, *verb[1:])

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1
    assert str(path).encode() in done.stderr
    assert names(path.parent) == []


def test_a_pipe_is_refused_and_waited_for_by_nobody(path: Path) -> None:
    os.mkfifo(path)
    opening = (
        "import sys\n"
        "from amberlog import SessionError, SessionStore\n"
        "for kind in (SessionStore, SessionStore.open_readonly):\n"
        "    try:\n"
        "        kind(sys.argv[1])\n"
        "    except SessionError as error:\n"
        "        print(type(error).__name__, error.path)\n"
    )

    opened = run(opening, path)
    shown = shell("show", path)

    assert opened.returncode == 0, opened.stderr
    refusals = [line.split(" ", 1) for line in opened.stdout.splitlines()]
    assert [place for _, place in refusals] == [str(path)] * 2
    assert {name for name, _ in refusals} <= {"SessionDamagedError", "SessionNotFoundError"}
    assert (shown.returncode, shown.stderr.count(b"\n")) == (1, 1)


def test_a_thousand_failing_opens_leave_no_descriptor_behind(tmp_path: Path) -> None:
    makers = [random_bytes, cut_short, of_another_program, a_directory, cut_in_the_middle]
    places = [tmp_path / f"{n}.kohakutr" for n in range(len(makers))]
    for make, place in zip(makers, places, strict=True):
        make(place)
    places.append(tmp_path / "missing.kohakutr")
    failed = 0
    before = descriptors()

    for turn in range(1_000):
        place = places[turn % len(places)]
        kind = SessionStore.open_readonly if turn % 2 or not place.exists() else SessionStore
        with pytest.raises(SessionError), kind(place) as store:
            store.get_all_events()
        failed += 1

    assert failed == 1_000
    assert abs(descriptors() - before) <= 1


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_session_of_the_first_format_gives_all_its_events_and_stays_as_it_is(
    path: Path,
) -> None:
    path.write_bytes(gzip.decompress((FIXTURES / "v1.kohakutr.gz").read_bytes()))
    before = listing(path.parent)
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    rows = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    connection.close()

    with SessionStore.open_readonly(path) as store:
        read = sum(len(store.get_events(name)) for name in store.namespaces())
        together = len(store.get_all_events())
    shown = shell("show", path, "--json")

    assert rows > 0
    assert read == together == rows
    assert shown.returncode == 0
    assert listing(path.parent) == before


@pytest.mark.parametrize("version", [3, 99, 2**40])
@pytest.mark.parametrize("kind", [SessionStore, SessionStore.open_readonly])
def test_a_session_of_a_newer_format_is_refused_and_stays_as_it_is(
    kind: Callable[[Path], SessionStore], version: int, path: Path
) -> None:
    whole(path)
    with SessionStore(path) as store:
        store.meta["format_version"] = version
    path.with_name(f"{path.name}.lock").unlink()
    before = listing(path.parent)

    with pytest.raises(SessionVersionError) as refused:
        kind(path)

    after = listing(path.parent)
    # Its name is shared with the peer and never unlinked: somebody may wait on it.
    after.pop(f"{path.name}.lock", None)
    assert (refused.value.found, refused.value.path) == (version, str(path))
    assert after == before


def test_a_newer_session_with_a_hot_log_is_refused_and_its_log_stays(path: Path) -> None:
    script = (
        "import os, sys\n"
        "from amberlog import SessionStore\n"
        "store = SessionStore(sys.argv[1])\n"
        "store.append_event('alice', 'text', {'content': 'words'})\n"
        "store.meta['format_version'] = 99\n"
        "os.kill(os.getpid(), 9)\n"
    )
    run(script, path)
    kept = {path.name, f"{path.name}-wal"}
    before = {name: stored for name, stored in listing(path.parent).items() if name in kept}

    for kind in (SessionStore.open_readonly, SessionStore):
        with pytest.raises(SessionVersionError):
            kind(path)

    after = {name: stored for name, stored in listing(path.parent).items() if name in kept}
    assert after == before


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_emoji_and_cjk_never_break_the_output(variables: dict[str, str], path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("sess", "agent", "🚀.yaml", "/明天", ["alice 🚀"])
        store.append_event("alice 🚀", "user_message", {"content": "明天下午 🚀 café"})
        store.append_event("alice 🚀", "user_message", {"content": "plain words"})

    for arguments in (
        ("show", path),
        ("events", path),
        ("search", path, "plain"),
        ("search", path, "明天"),
        ("verify", path),
        ("show", path, "--json"),
    ):
        done = shell(*arguments, **variables)

        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_reader_that_leaves_early_is_no_error(arguments: tuple[str, ...], path: Path) -> None:
    with SessionStore(path) as store:
        events = [("user_message", {"content": f"words {n} " * 50}) for n in range(3_000)]
        store.append_events("alice", events)

    process = subprocess.Popen(
        [sys.executable, "-m", "amberlog", "events", str(path), *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()

    assert process.wait(60) == 0
    assert b"words" in first
    assert complaint == b""

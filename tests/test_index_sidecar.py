"""What an index does when its own file is at fault, and the one that a process shares."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionDamagedError, get_session_index_default
from amberlog.index import close_session_index, refresh
from support.children import environment
from support.independent import HEADER
from support.sessions import SIDECAR, many, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EACH_SESSION_ONCE = (
    "SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM amber_entry),"
    " (SELECT count(*) FROM amber_file), (SELECT sum(n) FROM amber_count),"
    " (SELECT count(*) FROM search_docsize), (SELECT count(*) FROM search_values),"
    " (SELECT count(*) FROM amber_search_docsize), (SELECT count(*) FROM amber_agent)"
)


@pytest.fixture(autouse=True)
def no_defaults_left() -> Iterator[None]:
    """Closes the indexes that a test shared."""
    yield
    close_session_index()


def spoil(sidecar: Path, how: str) -> None:
    """Puts something in the place of a sidecar."""
    for suffix in ("-wal", "-shm"):
        sidecar.with_name(sidecar.name + suffix).unlink(missing_ok=True)
    if how == "a directory":
        sidecar.unlink(missing_ok=True)
        sidecar.mkdir()
    elif how == "of a newer schema":
        with closing(sqlite3.connect(sidecar)) as connection, connection:
            connection.execute("DROP TABLE IF EXISTS meta")
            connection.execute(
                "CREATE TABLE meta (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
            )
            version = HEADER + b"\x07"
            connection.execute(
                "INSERT INTO meta VALUES (CAST('schema_version' AS BLOB), ?)", [version]
            )
    elif how == "cut short":
        sidecar.write_bytes(sidecar.read_bytes()[: 3 * 4096])
    else:
        sidecar.write_bytes(b"" if how == "empty" else os.urandom(5000))


@pytest.mark.parametrize(
    "how", ["empty", "random bytes", "a directory", "of a newer schema", "cut short"]
)
def test_a_spoilt_sidecar_is_begun_anew(tmp_path: Path, how: str) -> None:
    many(tmp_path, 24)
    first = get_session_index_default(tmp_path).list(limit=100)
    close_session_index()
    spoil(tmp_path / SIDECAR, how)

    index = get_session_index_default(tmp_path)
    again = index.list(limit=100)

    assert first.total == again.total == 24
    assert index.in_memory == (how == "a directory")
    assert index.list(search="words 7").total == 1


def test_damage_that_is_met_later_is_healed(tmp_path: Path) -> None:
    many(tmp_path, 10)
    index = get_session_index_default(tmp_path)
    with closing(sqlite3.connect(tmp_path / SIDECAR)) as connection, connection:
        connection.execute("UPDATE amber_search_data SET block = zeroblob(length(block))")

    page = index.list(search="words 7")

    assert page.total == 1
    assert index.count() == 10


def test_a_sidecar_that_is_deleted_under_us_is_made_again(tmp_path: Path) -> None:
    many(tmp_path, 5)
    index = get_session_index_default(tmp_path)
    for name in (SIDECAR, f"{SIDECAR}-wal", f"{SIDECAR}-shm"):
        (tmp_path / name).unlink(missing_ok=True)

    page = index.list(limit=100)

    assert page.total == 5
    assert (tmp_path / SIDECAR).is_file()


def test_another_session_directory_is_no_error_when_it_is_missing(tmp_path: Path) -> None:
    index = get_session_index_default(tmp_path / "not yet")

    assert index.list().total == 0


def test_a_default_index_is_one_for_the_process(tmp_path: Path) -> None:
    many(tmp_path, 2)

    one = get_session_index_default(tmp_path)
    other = get_session_index_default(tmp_path / ".")

    assert one is other
    assert one.bootstrap_completed
    assert one.count() == 2


def test_a_start_that_fails_is_logged_and_the_next_call_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "sessions"
    directory.write_bytes(b"no directory")

    with caplog.at_level(logging.ERROR, "amberlog"):
        index = get_session_index_default(directory)
    told, listed = caplog.text, index.count()
    directory.unlink()
    many(directory, 2)
    again = get_session_index_default(directory)

    assert f"{directory} could not be listed" in told
    assert listed == 0
    assert again is index
    assert again.count() == 2


def test_a_start_on_a_sidecar_that_another_process_keeps_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many(tmp_path, 2)
    get_session_index_default(tmp_path)
    close_session_index()
    record(tmp_path / "new.kohakutr", "words")
    script = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\nprint('kept', flush=True)\nsys.stdin.read()\n"
    )

    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / SIDECAR)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as keeper:
        assert keeper.stdout
        assert keeper.stdout.readline() == b"kept\n"
        with caplog.at_level(logging.ERROR, "amberlog"):
            index = get_session_index_default(tmp_path)
        told, listed = caplog.text, index.count()
        keeper.kill()
    again = get_session_index_default(tmp_path)

    assert "could not be brought level" in told
    assert "is busy" in told
    assert listed == 2
    assert again is index
    assert again.count() == 3


def test_a_forked_child_gets_an_index_of_its_own(tmp_path: Path) -> None:
    many(tmp_path, 2)
    script = (
        "import os, sys\nfrom amberlog import get_session_index_default, SessionClosedError\n"
        "index = get_session_index_default(sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n        index.count()\n        os._exit(1)\n"
        "    except SessionClosedError:\n        pass\n"
        "    os._exit(0 if get_session_index_default(sys.argv[1]).count() == 2 else 2)\n"
        "print(os.waitpid(child, 0)[1], index.count())\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "0 2\n", done.stderr


@pytest.mark.parametrize("passes", [1, 2, 5, 9])
def test_a_reconcile_that_is_killed_leaves_no_session_half_there(
    tmp_path: Path, passes: int
) -> None:
    many(tmp_path, 30)
    script = (
        "import sys\nfrom amberlog import SessionIndex\nfrom amberlog.index import reconcile\n"
        "index = SessionIndex.open(sys.argv[1])\n"
        "while True:\n    reconcile(index, sys.argv[1], full=True)\n"
        "    print('level', flush=True)\n"
    )

    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], env=environment(), stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout
        for _ in range(passes):
            assert writer.stdout.readline() == b"level\n"
        writer.kill()

    with closing(sqlite3.connect(tmp_path / SIDECAR)) as connection:
        counts = connection.execute(EACH_SESSION_ONCE).fetchone()
        faults = connection.execute("PRAGMA quick_check").fetchall()
    assert counts == (30,) * 8
    assert faults == [("ok",)]
    assert get_session_index_default(tmp_path).list(search="words").total == 30


@pytest.mark.parametrize(("stored_as", "total"), [("BLOB", 3), ("TEXT", 2)])
def test_an_entry_that_cannot_be_decoded_is_reported_and_read_again(
    tmp_path: Path, stored_as: str, total: int
) -> None:
    many(tmp_path, 3)
    index = get_session_index_default(tmp_path)
    key = b"s001.kohakutr"
    with closing(sqlite3.connect(tmp_path / SIDECAR)) as connection, connection:
        stored = connection.execute("SELECT value FROM entries WHERE key = ?", [key]).fetchone()[0]
        rotten = stored[:12] + bytes(len(stored) - 22) + stored[-10:]
        value = rotten if stored_as == "BLOB" else "no entry"
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", [value, key])

    pages = [index.list(), index.list()]
    refresh(index, tmp_path)
    afterwards = index.list()

    assert [(len(page.rows), page.total) for page in pages] == [(2, total), (2, 2)]
    for page in pages:
        assert [one.path for one in page.unreadable] == ["s001.kohakutr"]
        assert "damaged" in page.unreadable[0].reason
    assert (len(afterwards.rows), afterwards.total, afterwards.unreadable) == (3, 3, ())


@pytest.mark.parametrize("stored_as", ["BLOB", "TEXT"])
def test_an_entry_that_cannot_be_decoded_is_an_error_until_it_is_read_again(
    tmp_path: Path, stored_as: str
) -> None:
    many(tmp_path, 3)
    index = get_session_index_default(tmp_path)
    key = b"s001.kohakutr"
    with closing(sqlite3.connect(tmp_path / SIDECAR)) as connection, connection:
        stored = connection.execute("SELECT value FROM entries WHERE key = ?", [key]).fetchone()[0]
        rotten = stored[:12] + bytes(len(stored) - 22) + stored[-10:]
        value = rotten if stored_as == "BLOB" else "no entry"
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", [value, key])

    for _ in range(2):
        with pytest.raises(SessionDamagedError, match=r"s001\.kohakutr"):
            index.get("s001.kohakutr")
    refresh(index, tmp_path)

    found = index.get("s001.kohakutr")
    assert found is not None
    assert found["name"] == "s001"
    assert index.get("s009.kohakutr") is None

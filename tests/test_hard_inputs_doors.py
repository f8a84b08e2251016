"""Hard inputs to the sessions of a directory, by every door that a user has to them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import unicodedata
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from amberlog import SessionStore
from amberlog.errors import SessionGoneError
from amberlog.index import close_session_index
from support.children import environment, run_code
from support.doors import KINDS, Door, door_of, said
from support.places import place_for_all
from support.sessions import SIDECAR, files_below, many, record, say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# H04, and others of their kind.
PATHS = [
    "..%2F..%2Fvictim",
    "%2e%2e%2fvictim",
    "..%5Cvictim",
    "../victim",
    "/etc/passwd",
    ".",
    "..",
    "victim%00.json",
    "victim\0.json",
    "mirror/../../victim",
    SIDECAR,
]


@pytest.fixture(params=KINDS)
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    """Yields each of the doors to a directory of no sessions."""
    directory = tmp_path / "sessions"
    directory.mkdir()
    yield door_of(str(request.param), directory)
    close_session_index()


@pytest.mark.parametrize("name", PATHS)
def test_a_name_that_is_a_path_is_refused(door: Door, name: str, tmp_path: Path) -> None:
    record(tmp_path / "victim.kohakutr", "a secret")
    many(door.directory, 2)
    before = files_below(tmp_path)

    outcome = door.delete(name)

    assert outcome == "refused"
    assert {file for file in files_below(tmp_path) if SIDECAR not in file} == before
    assert door.listed().names() == {"s000", "s001"}


def test_a_link_goes_and_what_it_leads_to_stays(door: Door, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    record(foreign / "target.kohakutr", "a")
    (foreign / "kept.txt").write_text("kept")
    record(door.directory / "one.kohakutr", "a")
    (door.directory / "one.artifacts").symlink_to(foreign)
    (door.directory / "two.kohakutr").symlink_to(foreign / "target.kohakutr")
    before = files_below(foreign)
    listed = door.listed().names()

    outcomes = [door.delete(name) for name in ("one", "two")]

    assert (listed, outcomes) == ({"one", "two"}, ["deleted", "deleted"])
    assert files_below(foreign) == before
    assert not {name for name in files_below(door.directory) if name.startswith(("one", "two"))}
    assert door.listed().total == 0


def test_three_bad_files_hide_none_of_a_hundred_good_ones(door: Door) -> None:
    names = many(door.directory, 100)
    whole = (door.directory / names[0]).read_bytes()
    (door.directory / "random.kohakutr").write_bytes(os.urandom(5000))
    (door.directory / "cut.kohakutr").write_bytes(whole[:100])
    with closing(sqlite3.connect(door.directory / "other.kohakutr")) as other, other:
        other.execute("CREATE TABLE customer (name TEXT)")

    listed = door.listed()

    assert (listed.total, len(listed.rows)) == (100, 100)
    assert listed.unreadable.keys() == {"random.kohakutr", "cut.kohakutr", "other.kohakutr"}
    assert all(listed.unreadable.values())


def test_turns_without_a_checkpoint_are_listed(door: Door) -> None:
    path = record(door.directory / "live.kohakutr", "old question")
    door.listed()
    script = (
        "import sys\nfrom amberlog import SessionStore\nfrom support.sessions import say\n"
        "store = SessionStore(sys.argv[1])\nsay(store, 'one', 'two', 'newest question')\n"
        "print('said', flush=True)\nsys.stdin.read()\n"
    )

    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"said\n"
        # A process of its own has no index yet that would be level.
        row = door.listed().row("live")
        writer.kill()

    assert (row["preview"], row["event_count"]) == ("newest question", 12)


@pytest.mark.parametrize("how", ["missing", "empty", "random", "directory", "newer"])
def test_sessions_are_listed_whatever_became_of_the_sidecar(door: Door, how: str) -> None:
    many(door.directory, 24)
    sidecar = door.directory / SIDECAR
    if how == "directory":
        sidecar.mkdir()
    elif how == "newer":
        with closing(sqlite3.connect(sidecar)) as newer, newer:
            newer.execute("CREATE TABLE meta (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)")
            newer.execute("INSERT INTO meta VALUES (CAST('schema_version' AS BLOB), '77')")
    elif how != "missing":
        sidecar.write_bytes(b"" if how == "empty" else os.urandom(5000))

    first, found = door.listed(), door.listed(search="words 7")

    assert (first.total, len(first.rows), first.unreadable) == (24, 24, {})
    assert found.names() == {"s007"}


def test_a_deleted_session_is_gone_for_whoever_has_it_open(door: Door) -> None:
    path = record(door.directory / "a.kohakutr", "zebra")
    store = SessionStore(path)
    say(store, "more")

    outcome = door.delete("a")
    with pytest.raises(SessionGoneError):
        say(store, "lost")
    store.close(update_status=False)
    after = [door.listed().total, door.listed(search="zebra").total]
    close_session_index()

    assert outcome == "deleted"
    assert [*after, door.listed().total] == [0, 0, 0]
    assert not path.exists()


def test_a_session_whose_writer_lock_is_held_stays(door: Door) -> None:
    path = record(door.directory / "a.kohakutr", "zebra")
    with SessionStore(path, writer_lock=True):
        outcome = door.delete("a")

    assert outcome == "in use"
    assert said(path) == ["zebra"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("offset", str(2**63)),
        ("offset", "-1"),
        ("limit", "abc"),
        ("limit", "1e3"),
        ("limit", ""),
        ("limit", "0"),
        ("sort", "password"),
        ("order", "up"),
        ("cursor", "nothing"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(door: Door, argument: str, value: str) -> None:
    many(door.directory, 1)

    refused = door.refusal(**{argument: value})

    assert argument in refused


def test_a_quoted_filter_is_text(door: Door) -> None:
    many(door.directory, 1)

    refused = door.refusal(status="x' OR '1'='1")
    listed = door.listed(search="x' OR '1'='1")

    assert (refused, listed.total) == ("", 0)


def test_names_that_nearly_agree_are_sessions_of_their_own(door: Door) -> None:
    composed = unicodedata.normalize("NFC", "Café")
    names = ["Chat", "chat", composed, unicodedata.normalize("NFD", composed)]
    names += ["CON", "nul", "x.", "x ", "a" * 230]
    for name in names:
        record(door.directory / f"{name}.kohakutr", f"said in {name}")

    listed = door.listed().names()
    outcomes = [door.delete(name) for name in ("chat", composed, "x ")]

    assert listed == set(names)
    assert outcomes == ["deleted"] * 3
    assert door.listed().names() == set(names) - {"chat", composed, "x "}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_one_may_not_write_is_listed_and_left_alone(kind: str) -> None:
    script = (
        "import json, os, pathlib, sys\nimport fastapi.testclient, amberlog.server\n"
        "from support.doors import door_of\nos.setuid(65534)\n"
        "door = door_of(sys.argv[1], pathlib.Path(sys.argv[2]))\n"
        "listed, found = door.listed(), door.listed(search='words 2')\n"
        "try:\n    outcome = door.delete('s001')\n"
        "except Exception as error:\n    outcome = type(error).__name__\n"
        "print(json.dumps([listed.total, sorted(found.names()), outcome]))\n"
    )
    with place_for_all() as place:
        directory = place / "sessions"
        many(directory, 3)
        directory.chmod(0o555)
        before = files_below(directory)

        said_last = run_code(script, kind, directory).splitlines()[-1]
        after = files_below(directory)

    total, found, outcome = json.loads(said_last)
    assert (total, found) == (3, ["s002"])
    assert outcome != "deleted"
    assert after == before

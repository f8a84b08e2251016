"""The real peer and we keep one sidecar in turns, and each sees what the other wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from amberlog import SessionIndex
from amberlog.index import reconcile
from support.children import environment
from support.sessions import fixture_directory, fixture_rows, record

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "index.py"
Seen = dict[str, object]


def peer(directory: Path, *orders: str, queries: tuple[str, ...] = ()) -> Seen:
    """Has the peer look at an index and then do what it is told; returns what it saw."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(directory), json.dumps(queries), *orders],
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return cast("Seen", json.loads(done.stdout.splitlines()[-1]))


def rows_of(seen: Seen) -> dict[str, dict[str, object]]:
    rows = cast("list[dict[str, object]]", seen["rows"])
    return {str(row["filename"]): row for row in rows}


def test_the_peer_lists_a_directory_that_we_indexed(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)
    with SessionIndex.open(directory) as index:
        reconcile(index, directory)

    seen = peer(directory, queries=("login token", "css", "データベース移行"))

    assert rows_of(seen) == fixture_rows()
    assert seen["found"] == {
        "login token": ["sess_00.kohakutr"],
        "css": ["sess_05.kohakutr"],
        "データベース移行": ["sess_03.kohakutr"],
    }


def test_the_peer_finds_nothing_to_do_after_us(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)
    with SessionIndex.open(directory) as index:
        reconcile(index, directory)

    seen = peer(directory, "reconcile")

    # It tries the file that it cannot read each time.
    assert seen["report"] == {"read": 1, "deleted": 0}


def test_we_see_what_the_peer_changed(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        record(tmp_path / f"{name}.kohakutr", f"text of {name}")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        before = index.get("one.kohakutr")

        peer(tmp_path, "retitle", "one.kohakutr", "A retitled session", "remove", "two.kohakutr")

        page = index.list(sort="name", order="asc")
        row = index.get("one.kohakutr")
        assert [found["filename"] for found in page.rows] == ["one.kohakutr", "three.kohakutr"]
        assert row == {**(before or {}), "title": "A retitled session"}
        assert index.list(search="retitled").total == 1
        assert index.list(search="two").total == 0
        assert page.total == index.count() == 2
        # What it took out though the file is there comes back.
        reconcile(index, tmp_path)
        assert index.count() == 3


def test_the_peer_updates_its_own_rows_of_our_entries(tmp_path: Path) -> None:
    record(tmp_path / "one.kohakutr", "first words")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
    record(tmp_path / "one.kohakutr", "second words")

    peer(tmp_path, "reconcile")
    seen = peer(tmp_path, queries=("first", "words"))

    assert seen["total"] == 1
    found = cast("dict[str, list[str]]", seen["found"])
    assert found["words"] == ["one.kohakutr"]


def test_we_update_the_rows_that_the_peer_searches(tmp_path: Path) -> None:
    path = record(tmp_path / "one.kohakutr", "apples")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        record(path, "pears")
        reconcile(index, tmp_path, full=True)
        (tmp_path / "two.kohakutr").write_bytes(path.read_bytes())
        reconcile(index, tmp_path)
        path.unlink()
        reconcile(index, tmp_path)

    seen = peer(tmp_path, queries=("pears",))

    assert seen["total"] == 1
    assert seen["found"] == {"pears": ["two.kohakutr"]}

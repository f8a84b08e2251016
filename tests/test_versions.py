"""Which file of a session is the one to open, and what needs no migration or gets none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionNotFoundError, SessionStore, SessionVersionError
from amberlog._versions import session_in_name
from amberlog.migration import ensure_latest_version
from support import independent, kohaku
from support.first_format import dated, make, turn

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Returns the session of the first format that the peer's fixtures have."""
    return kohaku.unpack("v1.kohakutr.gz", tmp_path, "v1.kohakutr")


def test_a_session_of_the_present_format_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "new.kohakutr"
    with SessionStore(path) as store:
        store.init_meta("new", "agent", "", "/w", ["alice"])

    assert amberlog.migrate(path) == path
    assert ensure_latest_version(path) == path


def test_a_session_of_an_unknown_version_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "newer.kohakutr"
    independent.write(path, "meta", {"format_version": independent.encoded(9)})
    before = kohaku.contents(tmp_path)

    with pytest.raises(SessionVersionError) as caught:
        amberlog.migrate(path)

    assert (caught.value.found, caught.value.supported) == (9, 2)
    assert ensure_latest_version(path) == path
    with pytest.raises(SessionVersionError):
        SessionStore(path)
    assert kohaku.contents(tmp_path) == before


def test_the_newest_version_that_can_be_read_is_the_one_to_open(v1: Path) -> None:
    newer = v1.with_name("v1.kohakutr.v9")
    independent.write(newer, "meta", {"format_version": independent.encoded(9)})

    assert ensure_latest_version(v1) == v1.with_name("v1.kohakutr.v2")
    assert ensure_latest_version(newer) == v1.with_name("v1.kohakutr.v2")


def test_a_name_may_hold_what_is_a_pattern(tmp_path: Path) -> None:
    source = make(tmp_path / "a[1]*.kohakutr", {"alice": dated(turn(1))})
    make(tmp_path / "a1.kohakutr.v2", {})

    assert ensure_latest_version(source) == tmp_path / "a[1]*.kohakutr.v2"


def test_a_missing_session_is_not_found(tmp_path: Path) -> None:
    missing = tmp_path / "missing.kohakutr"

    assert ensure_latest_version(missing) == missing
    with pytest.raises(SessionNotFoundError):
        amberlog.migrate(missing)


def test_a_named_session_that_is_too_new_is_refused_and_not_exchanged_for_an_older_one(
    v1: Path,
) -> None:
    amberlog.migrate(v1)
    newer = v1.with_name("v1.kohakutr.v9")
    independent.write(newer, "meta", {"format_version": independent.encoded(9)})
    before = kohaku.contents(v1.parent)

    with pytest.raises(SessionVersionError) as caught:
        amberlog.resume(newer)
    found = amberlog.resume(v1, readonly=True)
    found.store.close()

    assert caught.value.found == 9
    assert found.store.path == f"{v1}.v2"
    assert kohaku.contents(v1.parent) == before


def test_an_older_file_that_is_named_leads_to_its_newer_one(v1: Path) -> None:
    made = amberlog.migrate(v1)

    for named in (v1, made, v1.with_name("v1.kohakutr.v1")):
        resumed = amberlog.resume(named)
        resumed.store.close()

        assert resumed.store.path == str(made)


def test_a_store_of_the_present_format_only_leaves_an_older_session_as_it_is(
    v1: Path, tmp_path: Path
) -> None:
    with SessionStore(tmp_path / "unstated.kohakutr") as store:
        store.meta["title"] = "no version"
    log = v1.with_name("v1.kohakutr-wal")
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".lock"}

    for path in (v1, tmp_path / "unstated.kohakutr"):
        with pytest.raises(SessionVersionError, match="older than 2") as caught:
            SessionStore(path, present_only=True)

        assert (caught.value.found, caught.value.supported) == (1, 2)

    assert {path: path.read_bytes() for path in files} == files
    assert not log.exists()
    with SessionStore(tmp_path / "new.kohakutr", present_only=True) as store:
        assert store.is_ready


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.kohakutr", ("a", 1)),
        ("a.kohakutr.v2", ("a", 2)),
        ("a.kohakutr.v10", ("a", 10)),
        ("a.b.kohakutr.v2", ("a.b", 2)),
        ("a.kohakutr.v2.kohakutr", ("a.kohakutr.v2", 1)),
        ("a.kt", ("a", 0)),
        ("a.kohakutr.lock", None),
        ("a.kohakutr.v²", None),
        (".kohakutr", None),
        ("a.txt", None),
    ],
)
def test_a_files_name_says_of_which_session_and_version_it_is(
    name: str, expected: tuple[str, int] | None
) -> None:
    assert session_in_name(name) == expected

"""Which file of a session is the one to open, and what needs no migration or gets none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionNotFoundError, SessionStore, SessionVersionError
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

"""Which session of a directory was written last, asked from Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionNotFoundError, last_session
from support.sessions import record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the session directory."""
    monkeypatch.setenv("AMBERLOG_SESSION_DIR", str(tmp_path))
    return tmp_path


def written(path: Path, at: int) -> Path:
    """Makes a session that was written at a time."""
    record(path, "words")
    os.utime(path, (at, at))
    return path


def test_the_last_session_may_be_of_the_legacy_name(sessions: Path) -> None:
    written(sessions / "old.kohakutr", 1_000)
    legacy = written(sessions / "new.kt", 2_000)

    last = last_session()

    assert (last.path, last.skipped) == (legacy, ())


def test_of_equal_times_the_first_name_is_the_last_session(sessions: Path) -> None:
    for name in ("b", "a", "c"):
        written(sessions / f"{name}.kohakutr", 2_000)

    last = last_session()

    assert last.path.name == "a.kohakutr"


def test_a_damaged_file_is_mentioned_and_passed_over(sessions: Path) -> None:
    good = written(sessions / "good.kohakutr", 1_000)
    damaged = sessions / "damaged.kohakutr"
    damaged.write_bytes(b"no session" * 100)
    os.utime(damaged, (3_000, 3_000))

    last = last_session()

    assert last.path == good
    assert [one.path for one in last.skipped] == [damaged]
    assert last.skipped[0].reason


def test_where_none_can_be_read_there_is_no_last_session(sessions: Path) -> None:
    (sessions / "damaged.kohakutr").write_bytes(b"no session")

    with pytest.raises(SessionNotFoundError):
        last_session()

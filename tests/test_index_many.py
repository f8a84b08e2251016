"""An index over more sessions than one transaction takes, and searches that most of them answer."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionIndex, SessionStore
from amberlog.cli import main
from amberlog.index import reconcile
from support.children import TIMEOUT_S, environment
from support.sessions import SIDECAR, record, say
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 3000
THREADS = Path("/proc/self/task")


def is_reading(process: subprocess.Popen[bytes]) -> bool:
    """Returns whether a process has begun to read sessions."""
    names = Path(f"/proc/{process.pid}/task").glob("*/comm")
    return any(name.read_text().startswith("amberlog-read") for name in names)


@pytest.mark.skipif(not THREADS.exists(), reason="the system does not tell a process's threads")
def test_a_reindex_that_is_interrupted_keeps_what_is_done_and_goes_on_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = record(tmp_path / "s0000.kohakutr", "what was said")
    for number in range(1, COUNT):
        (tmp_path / f"s{number:04d}.kohakutr").hardlink_to(first)
    SessionIndex.open(tmp_path).close()
    command = [sys.executable, "-m", "amberlog", "reindex", "--workers", "2"]

    with closing(sqlite3.connect(tmp_path / SIDECAR, isolation_level=None)) as other:
        # The first transaction waits for this one, so that the signal comes before its end.
        other.execute("BEGIN IMMEDIATE")
        child = subprocess.Popen(
            [*command, "--dir", str(tmp_path)], env=environment(), stderr=subprocess.PIPE
        )
        has_begun = comes_true(lambda: is_reading(child))
        child.send_signal(signal.SIGINT)
        other.execute("ROLLBACK")
    _, complaint = child.communicate(timeout=TIMEOUT_S)
    with closing(sqlite3.connect(tmp_path / SIDECAR)) as connection:
        [[done]] = connection.execute("SELECT count(*) FROM entries")
    code = main(["reindex", "--dir", str(tmp_path), "--json"])

    assert has_begun
    assert (child.returncode, b"Traceback" in complaint) == (130, False)
    assert 0 < done < COUNT
    assert code == 0
    assert json.loads(capsys.readouterr().out)["total"] == COUNT
    with SessionIndex.open(tmp_path) as index:
        assert index.count() == index.list(search="what was said").total == COUNT


def test_a_session_that_is_written_among_many_at_rest_is_listed_as_it_is(tmp_path: Path) -> None:
    first = record(tmp_path / "s0000.kohakutr", "what was said")
    for number in range(1, 400):
        (tmp_path / f"s{number:04d}.kohakutr").hardlink_to(first)

    with SessionStore(tmp_path / "live.kohakutr") as store, SessionIndex.open(tmp_path) as index:
        store.init_meta("live", "agent", "/c", "/w", ["alice"])
        say(store, "a walrus")
        reports = [reconcile(index, tmp_path)]
        before = [row["last_user"] for row in index.list(search="walrus").rows]
        say(store, "a narwhal")
        reports += [reconcile(index, tmp_path), reconcile(index, tmp_path, full=True)]
        after = [row["last_user"] for row in index.list(search="narwhal").rows]

    assert [(report.total, report.unreadable) for report in reports] == [(401, ())] * 3
    assert (before, after) == (["a walrus"], ["a narwhal"])


SESSIONS = [
    {
        "filename": f"s{number:04d}.kohakutr",
        "title": "a common title" if number % 8 else "another",
        "status": ("paused", "completed", "crashed")[number % 3],
        "config_type": ("agent", "terrarium")[number % 2],
        "last_active": f"2026-01-{1 + number % 28:02d}T00:00:00+00:00",
        "created_at": f"2026-02-{1 + number % 27:02d}T00:00:00+00:00",
    }
    for number in range(1600)
]
SORTED_BY = {"last_active": "last_active", "created_at": "created_at", "status": "status"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionIndex]:
    """Yields an index in which a word stands in most entries."""
    with SessionIndex.open(tmp_path_factory.mktemp("many")) as opened:
        for session in SESSIONS:
            opened.upsert(session)
        yield opened


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", [*SORTED_BY, "name", "relevance"])
@pytest.mark.parametrize("config_type", [None, "agent"])
def test_pages_of_a_search_for_a_common_word_are_those_of_a_plain_sort(
    index: SessionIndex, sort: str, order: str, config_type: str | None
) -> None:
    found = [
        session
        for session in SESSIONS
        if session["title"] != "another" and config_type in (None, session["config_type"])
    ]
    # What most sessions say is not ranked.
    column = SORTED_BY.get(sort, "filename" if sort == "name" else "last_active")
    wanted = sorted(found, key=lambda session: session["filename"])
    wanted.sort(key=lambda session: session[column], reverse=order == "desc")
    names = [session["filename"] for session in wanted]

    def page(cursor: str | None = None, offset: int = 0) -> tuple[int, list[object], str | None]:
        listed = index.list(
            search="common",
            sort=sort,
            order=order,
            config_type=config_type,
            limit=97,
            offset=offset,
            cursor=cursor,
        )
        return listed.total, [row["filename"] for row in listed.rows], listed.next_cursor

    paged: list[object] = []
    total, rows, cursor = page()
    paged += rows
    while cursor is not None:
        _, rows, cursor = page(cursor)
        paged += rows

    assert total == len(names)
    assert page(offset=300)[1] == names[300:397]
    assert paged == names


def test_sessions_of_one_name_come_in_the_order_of_their_files(tmp_path: Path) -> None:
    files = ["twice.kt", "mirror/twice.kohakutr", "once.kohakutr", "twice.kohakutr"]
    with SessionIndex.open(tmp_path) as opened:
        for file in files:
            opened.upsert({"filename": file, "title": "t"})

        ascending = [row["filename"] for row in opened.list(sort="name", order="asc").rows]
        descending = [row["filename"] for row in opened.list(sort="name", order="desc").rows]

    ties = ["mirror/twice.kohakutr", "twice.kohakutr", "twice.kt"]
    assert ascending == ["once.kohakutr", *ties]
    assert descending == [*ties, "once.kohakutr"]

"""What a process leaves behind that is killed while it makes a session beside another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import independent
from support.children import environment

if TYPE_CHECKING:
    from amberlog import SessionStore

EVENTS = 4_000
KILLS = 40

MAKING = """
import os, sys, threading, time, amberlog
store = amberlog.SessionStore(sys.argv[1])
print("open", flush=True)
def end():
    time.sleep(float(sys.argv[4]))
    os.kill(os.getpid(), 9)
threading.Thread(target=end, daemon=True).start()
for number in range(1000):
    target = f"{sys.argv[1]}.{sys.argv[3]}-{number}.v2"
    if sys.argv[2] == "fork":
        store.fork(target, at_event_id=4000)
    else:
        store.backup(target)
"""


@pytest.fixture
def parent(store: SessionStore) -> SessionStore:
    """Returns a session that takes a while to copy."""
    store.append_events("alice", [("text", {"content": "w" * 500}) for _ in range(EVENTS)])
    return store


@pytest.mark.parametrize("work", ["fork", "backup"])
def test_the_next_one_removes_what_a_killed_one_left(
    parent: SessionStore, tmp_path: Path, work: str
) -> None:
    left = set()
    for kill in range(KILLS):
        delay = str(0.03 + 0.007 * kill)
        command = [sys.executable, "-c", MAKING, parent.path, work, str(kill), delay]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, env=environment(), check=False)
        assert ended.returncode == -9
        left |= {found.name for found in tmp_path.glob(".amberlog-*")}
        if left:
            break
    made = [path for path in tmp_path.glob("*.v2") if path.name != "last.v2"]

    parent.fork(tmp_path / "last.v2", at_event_id=1).close()

    assert left
    assert not list(tmp_path.glob(".amberlog-*"))
    for path in made:
        assert len(independent.rows(path, "events")) == EVENTS


def test_what_another_thread_works_on_stays(parent: SessionStore, tmp_path: Path) -> None:
    work = [parent.submit(parent.backup, tmp_path / f"{number}.copy") for number in range(3)]

    for number in range(6):
        parent.fork(tmp_path / f"{number}.v2", at_event_id=1).close()

    for done in work:
        done.result()
    assert all(
        len(independent.rows(tmp_path / f"{number}.copy", "events")) == EVENTS
        for number in range(3)
    )


def test_a_fork_is_as_private_as_its_parent(parent: SessionStore, tmp_path: Path) -> None:
    Path(parent.path).chmod(0o600)

    parent.fork(tmp_path / "private.v2", at_event_id=1).close()

    assert (tmp_path / "private.v2").stat().st_mode & 0o777 == 0o600

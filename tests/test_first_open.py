"""Processes that meet at a session which none of them has made yet."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support.children import environment
from torture.form import sized

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 4
EVENTS = 10

# A line on standard input is the start; each says that it is ready before.
OPENING = """
import sys
from amberlog import SessionStore
print("ready", flush=True)
sys.stdin.readline()
with SessionStore(sys.argv[1]) as store:
    for number in range(int(sys.argv[3])):
        store.append_event(sys.argv[2], "text", {"number": number})
"""


@pytest.mark.parametrize("attempt", range(sized(short=6, long=60)))
def test_processes_that_make_one_file_at_once_all_open_it(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / f"session {attempt}.kohakutr"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(path), f"agent {number}", str(EVENTS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for number in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()

    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    errors = [child.communicate(timeout=60)[1] for child in children]

    assert errors == [""] * PROCESSES
    with SessionStore(path) as store:
        stored = [len(store.get_events(f"agent {number}")) for number in range(PROCESSES)]
        assert store.max_event_id("agent 0") == PROCESSES * EVENTS
    assert stored == [EVENTS] * PROCESSES

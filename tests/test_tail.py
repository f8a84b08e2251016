"""The tail: what the kernel has been given is there after a kill, and no number is given twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amberlog import SessionStore
from amberlog.errors import SessionBusyError

PACKAGE = Path(sys.modules["amberlog"].__file__ or "").parent.parent

APPEND = """
import json, os, signal, sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
for number in range(int(sys.argv[2])):
    key, event = store.append_event(sys.argv[3], "note", {"content": f"{sys.argv[3]} {number}"})
    os.write(1, json.dumps([key, event, f"{sys.argv[3]} {number}"]).encode() + b"\\n")
"""
STOP = APPEND + "os.kill(os.getpid(), signal.SIGSTOP)\nstore.close()\n"
KILL = APPEND + "os.kill(os.getpid(), signal.SIGKILL)\n"
CLOSE = APPEND + "store.close()\n"
FILL = """
import json, os, resource, signal, sys
from amberlog import SessionStore
from amberlog.errors import SessionWriteError
store = SessionStore(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
whole = resource.getrlimit(resource.RLIMIT_FSIZE)
failed = 0
for number in range(int(sys.argv[2])):
    limit = whole if number % 16 > 11 else (700_000, whole[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    text = f"{sys.argv[3]} {number}"
    fields = {"content": text, "more": "x" * 50_000}
    try:
        key, event = store.append_event(sys.argv[3], "note", fields)
    except SessionWriteError:
        failed += 1
        continue
    os.write(1, json.dumps([key, event, text]).encode() + b"\\n")
os.write(1, json.dumps(failed).encode() + b"\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, whole)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every store of the test, in whatever process, use a tail."""
    monkeypatch.setenv("AMBERLOG_TAIL", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), *sys.path]))


def start(script: str, path: Path, count: int, agent: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", script, str(path), str(count), agent]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def heard(child: subprocess.Popen[bytes]) -> list[list[object]]:
    output, _ = child.communicate()
    return [json.loads(line) for line in output.splitlines()]


def stored(store: SessionStore, agent: str) -> list[list[object]]:
    return [
        [key, event["event_id"], event["content"]]
        for key, event in store.get_all_events()
        if key.startswith(f"{agent}:e")
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 255, 256, 257, 700])
def test_a_killed_writer_has_lost_nothing_and_a_reader_writes_nothing(
    count: int, path: Path
) -> None:
    acknowledged = heard(start(KILL, path, count, "alice"))
    before = sorted(entry.name for entry in path.parent.iterdir())

    with SessionStore.open_readonly(path) as reader:
        read = stored(reader, "alice")

    assert len(acknowledged) == count
    assert read == acknowledged
    assert sorted(entry.name for entry in path.parent.iterdir()) == before
    with SessionStore(path) as writer:
        assert stored(writer, "alice") == acknowledged
        assert writer.verify().ok
        assert writer.append_event("alice", "note", {})[1] == count + 1
    assert not path.with_name(path.name + ".tail").exists()


def test_two_writers_at_once_give_no_number_twice(path: Path) -> None:
    SessionStore(path).close()

    children = [start(CLOSE, path, 1500, agent) for agent in ("alice", "bob")]
    acknowledged = [heard(child) for child in children]

    with SessionStore.open_readonly(path) as reader:
        logs = [stored(reader, agent) for agent in ("alice", "bob")]
    ids = sorted(event for log in logs for _, event, _ in log if isinstance(event, int))
    assert logs == acknowledged
    assert ids == list(range(1, 3001))
    assert not path.with_name(path.name + ".tail").exists()


def test_a_stopped_writer_costs_another_an_error_and_no_number(path: Path) -> None:
    SessionStore(path).close()
    child = start(STOP, path, 20, "alice")
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    acknowledged: list[list[object]] = []

    with SessionStore(path) as store:
        try:
            key, event = store.append_event("bob", "note", {"content": "early"})
            acknowledged.append([key, event, "early"])
        except SessionBusyError:
            pass
        os.kill(child.pid, signal.SIGCONT)
        of_child = heard(child)
        key, event = store.append_event("bob", "note", {"content": "late"})
        acknowledged.append([key, event, "late"])

    with SessionStore.open_readonly(path) as reader:
        assert stored(reader, "alice") == of_child
        assert stored(reader, "bob") == acknowledged
    ids = [event for _, event, _ in of_child + acknowledged]
    assert len(set(map(str, ids))) == len(ids)


def test_an_append_that_finds_no_room_fails_and_costs_no_other(path: Path) -> None:
    *acknowledged, failed = heard(start(FILL, path, 64, "alice"))

    with SessionStore(path) as store:
        kept = stored(store, "alice")
        ids = [event for _, event, _ in kept if isinstance(event, int)]

    assert failed
    assert kept == acknowledged
    assert len(ids) == len(kept)
    assert ids == sorted(set(ids))

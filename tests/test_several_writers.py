"""Several writers on one session: nobody waits in vain, nothing is overwritten, order is kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionGoneError, SessionLockedError, SessionStore
from torture.form import sized

if TYPE_CHECKING:
    from collections.abc import Iterator

EACH = sized(short=500, long=2_000)
WRITERS = 4
PATIENCE_S = 60.0

APPENDING = """
import sys
from amberlog import SessionStore
path, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with SessionStore(path) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        store.append_event("alice", "text", {"writer": writer, "n": n}, turn_index=n // 4)
    store.close(update_status=False)
print("done", flush=True)
"""

ENDLESS = """
import sys, time
from amberlog import SessionStore
path, writer, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
store = SessionStore(path)
print("ready", flush=True)
sys.stdin.readline()
end, n = time.monotonic() + seconds, 0
while time.monotonic() < end:
    store.append_event(f"agent{writer % 3}", "text", {"writer": writer, "n": n, "content": "words"})
    if n % 50 == 0:
        store.save_conversation(f"agent{writer}", [{"role": "user", "content": f"{n}"}])
        store.flush()
    n += 1
store.close(update_status=False)
print(n, flush=True)
"""

READING = """
import sys, time
from amberlog import SessionStore
path, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
end, reads = time.monotonic() + seconds, 0
while time.monotonic() < end:
    opened = SessionStore.open_readonly(path) if number % 2 else SessionStore(path)
    with opened as store:
        for agent in store.namespaces():
            last = {}
            for event in store.iter_events(agent):
                expected = last.get(event["writer"], -1) + 1
                assert event["n"] > last.get(event["writer"], -1), (event, expected)
                last[event["writer"]] = event["n"]
        store.search("words", 3)
        store.load_meta()
        store.close(update_status=False)
    reads += 1
print(reads, flush=True)
"""

HOLDING = """
import sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1], writer_lock=sys.argv[2] == "exclusive")
store.append_event("alice", "text", {"content": "held"})
print("ready", flush=True)
sys.stdin.readline()
"""


class Process:
    """A script in a process of its own that is told when to go on."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )

    def word(self, busy_s: float = 0) -> str:
        """Returns the next line that it prints, which it may work on for so many seconds."""
        stdout = self.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], busy_s + PATIENCE_S)[0]:
            raise TimeoutError(f"process {self.process.pid} is silent")
        return stdout.readline().decode().strip()

    def go(self) -> None:
        """Lets it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Waits until it has ended and returns what it still printed."""
        out, error = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, error.decode()
        return out.decode().strip()

    def kill(self) -> None:
        """Kills it."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        self.process.wait()


class Processes:
    """Starts processes and remembers them."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def __call__(self, script: str, *arguments: object) -> Process:
        """Starts a script and waits until it is ready."""
        process = Process(script, *arguments)
        self.started.append(process)
        assert process.word() == "ready"
        return process


@pytest.fixture
def started() -> Iterator[Processes]:
    """Yields what starts a process; none of them outlives the test."""
    processes = Processes()
    yield processes
    for process in processes.started:
        process.kill()


def in_order(events: list[dict[str, object]]) -> dict[object, list[object]]:
    by_writer: dict[object, list[object]] = {}
    for event in events:
        by_writer.setdefault(event["writer"], []).append(event["n"])
    return by_writer


@pytest.mark.torture
def test_processes_that_append_at_once_lose_and_reorder_nothing(
    path: Path, started: Processes
) -> None:
    writers = [started(APPENDING, path, number, EACH) for number in range(WRITERS)]
    prefixes: list[list[object]] = []

    for writer in writers:
        writer.go()
    while any(writer.process.poll() is None for writer in writers):
        with SessionStore.open_readonly(path) as reader:
            prefixes.append([event["event_id"] for event in reader.get_events("alice")])
    codes = [writer.process.wait() for writer in writers]
    with SessionStore(path) as store:
        events = store.get_events("alice")
        keys = [key for key, _ in store.get_all_events()]
        report = store.verify()

    ids = [event["event_id"] for event in events]
    assert codes == [0] * WRITERS
    assert ids == list(range(1, WRITERS * EACH + 1))
    assert len(set(keys)) == WRITERS * EACH
    assert in_order(events) == {number: list(range(EACH)) for number in range(WRITERS)}
    assert all(prefix == ids[: len(prefix)] for prefix in prefixes)
    assert report.ok


def test_threads_that_append_at_once_lose_and_reorder_nothing(store: SessionStore) -> None:
    def write(writer: int) -> None:
        for n in range(EACH):
            store.append_event("alice", "text", {"writer": writer, "n": n})

    prefixes: list[list[object]] = []
    with ThreadPoolExecutor(WRITERS) as pool:
        futures = [pool.submit(write, writer) for writer in range(WRITERS)]
        while not all(future.done() for future in futures):
            prefixes.append([event["event_id"] for event in store.get_events("alice")])
        for future in futures:
            future.result()

    events = store.get_events("alice")
    ids = [event["event_id"] for event in events]
    assert ids == list(range(1, WRITERS * EACH + 1))
    assert in_order(events) == {number: list(range(EACH)) for number in range(WRITERS)}
    assert all(prefix == ids[: len(prefix)] for prefix in prefixes)


def test_two_handles_of_one_process_number_on_from_each_other(path: Path) -> None:
    with SessionStore(path) as one, SessionStore(path) as other:
        ids = [
            store.append_event("alice", "text", {"n": n})[1]
            for n, store in enumerate([one, other, other, one, one, other] * 20)
        ]
        seen = [[event["n"] for event in store.get_events("alice")] for store in (one, other)]

    assert ids == list(range(1, 121))
    assert seen == [list(range(120))] * 2


@pytest.mark.torture
def test_many_writers_and_readers_meet_no_lock_error(path: Path, started: Processes) -> None:
    seconds = sized(short=4, long=60)
    SessionStore(path).close()

    writers = [started(ENDLESS, path, number, seconds) for number in range(8)]
    readers = [started(READING, path, number, seconds) for number in range(4)]
    for process in (*writers, *readers):
        process.go()
    written = [int(writer.word(seconds)) for writer in writers]
    read = [int(reader.word(seconds)) for reader in readers]
    rest = [process.end() for process in (*writers, *readers)]

    with SessionStore(path) as store:
        events = [event for number in range(3) for event in store.get_events(f"agent{number}")]
        report = store.verify()
    ids = [event["event_id"] for event in events]
    assert rest == [""] * 12
    assert min(read) > 0
    assert in_order(events) == {number: list(range(count)) for number, count in enumerate(written)}
    assert sorted(map(str, ids)) == sorted(str(number) for number in range(1, sum(written) + 1))
    assert report.ok


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_a_lock_left_by_a_killed_process_costs_nothing(
    kind: str, path: Path, started: Processes
) -> None:
    holder = started(HOLDING, path, kind)
    holder.kill()

    begun = time.monotonic()
    with SessionStore(path, writer_lock=True) as store:
        _, event_id = store.append_event("alice", "text", {})

    assert event_id == 2
    assert time.monotonic() - begun < 1


def test_the_writer_lock_keeps_others_out_and_names_its_holder(
    path: Path, started: Processes
) -> None:
    holder = started(HOLDING, path, "exclusive")

    for exclusive in (True, False):
        with pytest.raises(SessionLockedError) as refused:
            SessionStore(path, writer_lock=exclusive)
        assert refused.value.holder_pid == holder.process.pid
        assert refused.value.path == str(path)
    with SessionStore.open_readonly(path) as reader:
        read = [event["content"] for event in reader.get_events("alice")]

    assert read == ["held"]


def test_an_exclusive_writer_is_refused_while_others_share_the_session(
    path: Path, started: Processes
) -> None:
    holder = started(HOLDING, path, "shared")

    with pytest.raises(SessionLockedError):
        SessionStore(path, writer_lock=True)
    with SessionStore(path) as store:
        _, event_id = store.append_event("alice", "text", {})
    holder.go()
    holder.end()
    SessionStore(path, writer_lock=True).close()

    assert event_id == 2


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_peers_own_lock_keeps_us_out_and_ours_keeps_it_out(
    path: Path, *, exclusive: bool
) -> None:
    SessionStore(path).close()
    lock = path.with_name(f"{path.name}.lock")

    with lock.open("r+b") as peer:
        fcntl.flock(peer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(SessionLockedError):
            SessionStore(path, writer_lock=exclusive)
    with (
        SessionStore(path, writer_lock=exclusive),
        lock.open("r+b") as peer,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(peer, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert lock.exists()


@pytest.mark.parametrize("how", ["unlinked", "renamed", "replaced"])
def test_a_session_whose_file_is_gone_takes_no_more_events(how: str, path: Path) -> None:
    store = SessionStore(path)
    store.append_event("alice", "text", {})
    elsewhere = path.with_name("elsewhere.kohakutr")

    if how == "unlinked":
        path.unlink()
    else:
        path.rename(elsewhere)
    if how == "replaced":
        path.write_bytes(b"")
    with pytest.raises(SessionGoneError) as gone:
        store.append_event("alice", "text", {})
    with pytest.raises(SessionGoneError):
        store.save_state("alice", turn_count=1)
    with contextlib.suppress(SessionGoneError):
        store.close()

    assert gone.value.path == str(path)
    assert path.exists() == (how == "replaced")
    assert not path.exists() or path.read_bytes() == b""


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_hundred_open_sessions_use_few_descriptors(tmp_path: Path) -> None:
    before = descriptors()
    stores = [SessionStore(tmp_path / f"{n}.kohakutr") for n in range(100)]
    for store in stores:
        store.append_event("alice", "text", {"content": "words"})

    used = descriptors() - before
    for store in stores:
        store.close()

    assert used <= 350
    assert descriptors() <= before + 1


def test_threads_that_open_and_close_one_session_disturb_nobody(path: Path) -> None:
    stop = threading.Event()

    def come_and_go(number: int) -> int:
        done = 0
        while not stop.is_set():
            kind = SessionStore.open_readonly if number % 2 else SessionStore
            with kind(path) as store:
                store.get_events("alice")
                store.close(update_status=False)
            done += 1
        return done

    with SessionStore(path) as store, ThreadPoolExecutor(4) as pool:
        store.append_event("alice", "text", {"n": 0})
        visitors = [pool.submit(come_and_go, number) for number in range(4)]
        ids = [store.append_event("alice", "text", {"n": n})[1] for n in range(1, EACH)]
        stop.set()
        visits = [visitor.result() for visitor in visitors]
        seen = [event["n"] for event in store.get_events("alice")]

    assert ids == list(range(2, EACH + 1))
    assert seen == list(range(EACH))
    assert min(visits) > 0

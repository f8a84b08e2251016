"""Measurements of one contestant in one process: `python -m benches.measure append amberlog`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack

from benches.contestants import ENGINE, STDLIB, Store, open_branch_store, open_store
from benches.workload import AGENT, Event, Message, conversation, events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNK = 256
"""Events of one transaction where many are appended at a time."""
KEPT_TURNS = 60
"""Turns of the conversation that a resumed session holds: about 520 messages."""


class Appending:
    """A session that is appended to once a round."""

    def __init__(self, name: str, count: int, before: int) -> None:
        self._name = name
        self._before = before
        self._work = events(count)
        pairs = [(kind, fields) for kind, fields, _ in self._work]
        self._parts = [pairs[at : at + CHUNK] for at in range(0, count, CHUNK)]
        self._took: list[float] = []
        self._store: Store | None = None

    def begin(self, directory: Path) -> None:
        """Makes the session of the next round and closes that of the last."""
        self.close()
        self._store = open_store(self._name, directory / "s.kohakutr")
        if self._before:
            _fill(self._store, self._before)

    def append_all(self) -> None:
        """Appends all events one by one."""
        if self._store is not None:
            store = self._store
            self._took = [_append_one(store, event) for event in self._work]

    def append_parts(self) -> None:
        """Appends all events many at a time."""
        if self._store is not None:
            for part in self._parts:
                self._store.append_events(AGENT, part)

    def close(self) -> None:
        """Closes the session of this round."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def end(self) -> dict[str, float]:
        """Closes the session and returns how long the appends of the last round took."""
        self.close()
        took = sorted(self._took)
        if not took:
            return {}
        return {
            "p50 us": took[len(took) // 2] * 1e6,
            "p99 us": took[len(took) * 99 // 100] * 1e6,
            "max us": took[-1] * 1e6,
        }


def append(name: str, directory: Path, count: int, before: int = 0) -> dict[str, float]:
    """Appends events one by one to a session that holds some, and closes it."""
    path = directory / "s.kohakutr"
    store = open_store(name, path)
    if before:
        _fill(store, before)
        store.close()
        store = open_store(name, path)
    work = events(count)
    payload = sum(len(msgpack.packb(fields)) for _, fields, _ in work)
    written = _written()

    started = time.perf_counter()
    took = [_append_one(store, event) for event in work]
    appended = time.perf_counter()
    store.close()
    closed = time.perf_counter()

    took.sort()
    return {
        "mean us": (appended - started) / count * 1e6,
        "p50 us": took[count // 2] * 1e6,
        "p99 us": took[count * 99 // 100] * 1e6,
        "p99.9 us": took[count * 999 // 1000] * 1e6,
        "max us": took[-1] * 1e6,
        "close ms": (closed - appended) * 1e3,
        "with close us": (closed - started) / count * 1e6,
        "written/payload": (_written() - written) / payload,
        "file/payload": path.stat().st_size / payload,
    }


def batches(name: str, directory: Path, count: int, before: int = 0) -> dict[str, float]:
    """Appends events many at a time, and closes the session."""
    path = directory / "s.kohakutr"
    store = open_store(name, path)
    if before:
        _fill(store, before)
    work = events(count)
    pairs = [(kind, fields) for kind, fields, _ in work]
    parts = [pairs[at : at + CHUNK] for at in range(0, count, CHUNK)]

    started = time.perf_counter()
    for part in parts:
        store.append_events(AGENT, part)
    appended = time.perf_counter()
    store.close()
    closed = time.perf_counter()

    return {
        "mean us": (appended - started) / count * 1e6,
        "with close us": (closed - started) / count * 1e6,
    }


def many(name: str, directory: Path, stores: int, count: int) -> dict[str, float]:
    """Keeps many sessions open and appends to each in turn."""
    work = events(count)
    # What a contestant loads once is not the cost of a session.
    warm = open_store(name, directory / "warm.kohakutr")
    _append_one(warm, work[0])
    warm.close()
    memory, descriptors = _memory(), _descriptors()

    started = time.perf_counter()
    opened = [open_store(name, directory / f"s{number}.kohakutr") for number in range(stores)]
    ready = time.perf_counter()
    for number, event in enumerate(work):
        _append_one(opened[number % stores], event)
    appended = time.perf_counter()
    grown, held = _memory() - memory, _descriptors() - descriptors
    closing = time.perf_counter()
    for store in opened:
        store.close()
    closed = time.perf_counter()

    return {
        "open ms": (ready - started) * 1e3,
        "mean us": (appended - ready) / count * 1e6,
        "close ms": (closed - closing) * 1e3,
        "rss MB": grown / 1e6,
        "descriptors": held,
    }


def snapshot(name: str, directory: Path, turns: int, *, branches: bool = True) -> dict[str, float]:
    """Saves the whole conversation after each of its turns."""
    path = directory / "s.kohakutr"
    news = conversation(turns)
    save, close = _saver(name, path, branches=branches)
    messages: list[Message] = []
    written = _written()

    took = []
    for number, new in enumerate(news):
        messages.extend(new)
        started = time.perf_counter()
        save(messages, number + 1)
        took.append(time.perf_counter() - started)
    closing = time.perf_counter()
    close()
    closed = time.perf_counter()

    size = len(msgpack.packb(messages))
    edge = min(10, turns)
    return {
        "total s": sum(took) + closed - closing,
        "turn ms": sum(took) / turns * 1e3,
        "first ms": sorted(took[:edge])[edge // 2] * 1e3,
        "last ms": sorted(took[-edge:])[edge // 2] * 1e3,
        "close ms": (closed - closing) * 1e3,
        "file/messages": path.stat().st_size / size,
        "written/messages": (_written() - written) / size,
        "messages MB": size / 1e6,
    }


def resume(name: str, directory: Path, count: int, repeats: int = 15) -> dict[str, float]:
    """Opens a session and reads its meta and its newest conversation."""
    path = directory / "s.kohakutr"
    make_resumable(name, path, count)
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        store = open_store(name, path)
        opened = time.perf_counter()
        store.load_meta()
        known = time.perf_counter()
        messages = store.load_conversation(AGENT)
        loaded = time.perf_counter()
        store.close()
        closed = time.perf_counter()
        if not messages:
            raise AssertionError(f"{name} lost the conversation")
        took.append(
            (loaded - started, opened - started, known - opened, loaded - known, closed - loaded)
        )
    middle = sorted(took)[repeats // 2]
    names = ("all ms", "open ms", "load_meta ms", "conversation ms", "close ms")
    return dict(zip(names, (part * 1e3 for part in middle), strict=True)) | {
        "min ms": min(took)[0] * 1e3
    }


def read(name: str, directory: Path, count: int) -> dict[str, float]:
    """Reads all events of a session."""
    store = open_store(name, directory / "s.kohakutr")
    _fill(store, count)
    took = []
    for _ in range(3):
        started = time.perf_counter()
        found = len(store.get_events(AGENT))
        took.append(time.perf_counter() - started)
        if found != count:
            raise AssertionError(f"{name} returned {found} of {count} events")
    store.close()
    return {"us an event": min(took) / count * 1e6}


def empty(name: str, directory: Path) -> dict[str, float]:
    """Makes a session that holds only its meta."""
    path = directory / "s.kohakutr"
    if name in (STDLIB, ENGINE):
        open_store(name, path).close()
    else:
        store = open_branch_store(name, path)
        store.init_meta("s", "agent", "/work/agent.yaml", "/work", [AGENT])
        store.close()
    return {"KiB": sum(file.stat().st_size for file in directory.glob("s.kohakutr*")) / 1024}


def make_resumable(name: str, path: Path, count: int) -> None:
    """Makes a session with events and a conversation to come back to."""
    store = open_store(name, path)
    _fill(store, count)
    store.save_conversation(
        AGENT, [message for turn in conversation(KEPT_TURNS) for message in turn]
    )
    store.close()


def in_fresh_process(
    figure: str, name: str, *sizes: int, within: Path | None = None
) -> dict[str, float]:
    """Runs one measurement in a process and a directory of its own."""
    arguments = [figure, name, *map(str, sizes)]
    if within is not None:
        arguments += ["--within", str(within)]
    done = subprocess.run(
        [sys.executable, "-m", "benches.measure", *arguments],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parent.parent,
        env=os.environ,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _fill(store: Store, count: int) -> None:
    work = [(kind, fields) for kind, fields, _ in events(min(count, 10_000), seed=1)]
    left = count
    while left > 0:
        part = work[: min(left, len(work))]
        for at in range(0, len(part), 1_000):
            store.append_events(AGENT, part[at : at + 1_000])
        left -= len(part)


def _append_one(store: Store, event: Event) -> float:
    kind, fields, turn = event
    started = time.perf_counter()
    store.append_event(AGENT, kind, fields, turn_index=turn)
    return time.perf_counter() - started


def _saver(
    name: str, path: Path, *, branches: bool
) -> tuple[Callable[[list[Message], int], None], Callable[[], None]]:
    if not branches or name in (STDLIB, ENGINE):
        store = open_store(name, path)
        return lambda messages, _: store.save_conversation(AGENT, messages), store.close
    deep = open_branch_store(name, path)

    def save(messages: list[Message], turn: int) -> None:
        parents = [(earlier, 1) for earlier in range(1, turn)]
        branch = {"turn_index": turn, "branch_id": 1, "parent_branch_path": parents}
        deep.save_branch_snapshot(AGENT, messages, branch=branch, watermark=turn * 18)

    return save, deep.close


def _written() -> int:
    """Returns the bytes that this process has given to write calls."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one measurement and prints its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=sorted(_FIGURES))
    parser.add_argument("name")
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--within", type=Path, help="where the session is made")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.within, ignore_cleanup_errors=True) as made:
        directory = Path(made)
        figures = _FIGURES[given.figure](given.name, directory, given.sizes)
    print(json.dumps(figures))


_FIGURES: dict[str, Callable[[str, Path, Sequence[int]], dict[str, float]]] = {
    "append": lambda name, directory, sizes: append(name, directory, *sizes),
    "batches": lambda name, directory, sizes: batches(name, directory, *sizes),
    "empty": lambda name, directory, _: empty(name, directory),
    "many": lambda name, directory, sizes: many(name, directory, *sizes),
    "plain": lambda name, directory, sizes: snapshot(name, directory, *sizes, branches=False),
    "read": lambda name, directory, sizes: read(name, directory, *sizes),
    "resume": lambda name, directory, sizes: resume(name, directory, *sizes),
    "snapshot": lambda name, directory, sizes: snapshot(name, directory, *sizes),
}

if __name__ == "__main__":
    main()

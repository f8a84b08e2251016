"""Starting writers, killing them, and looking at what is left."""

from __future__ import annotations

import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kohakuvault import KVault

from amberlog import SessionStore
from torture.record import APPENDS, DURABLE, Record
from torture.steps import steps

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from torture.steps import Step

TOOLS = Path(__file__).parent.parent
STARTS_WITHIN_S = 60.0
SPEAKS_WITHIN_S = 30.0
BATCH_EVENTS = 256
# The service thread commits a batch after 50 ms; on a loaded machine it may get to run later.
BATCH_AGE_S = 1.0
ENDLESS = 10**9

Line = list[object]


@dataclass
class Child:
    """A writer and everything it has said."""

    process: subprocess.Popen[bytes]
    lines: list[Line] = field(default_factory=list)
    rest: bytes = b""

    def hear(self, until: Callable[[list[Line]], bool]) -> None:
        """Reads until what was said is enough, or the writer ended.

        Raises:
            TimeoutError: It hangs.
        """
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while not until(self.lines):
            patience = SPEAKS_WITHIN_S if self.lines else STARTS_WITHIN_S
            if not select.select([descriptor], [], [], patience)[0]:
                raise TimeoutError(f"the writer says nothing for {patience} s: {self.lines[-3:]}")
            heard = os.read(descriptor, 1 << 16)
            if not heard:
                return
            *whole, self.rest = (self.rest + heard).split(b"\n")
            self.lines += [json.loads(line) for line in whole]

    def kill(self) -> float:
        """Kills it, reads what it had said by then, and returns when it was killed."""
        killed = time.monotonic()
        self.process.kill()
        self.end()
        return killed

    def end(self) -> int:
        """Reads the rest of what it says, and returns its exit code."""
        self.hear(lambda _: False)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait()

    @property
    def acknowledged(self) -> list[Line]:
        """The lines that acknowledge a step."""
        return [line for line in self.lines if line[0] == "did"]


def start(
    path: Path,
    owner: str,
    seed: int,
    first: int = 0,
    last_id: int = 0,
    *,
    count: int = ENDLESS,
    durability: str = "process",
    plan: str = "steps",
) -> Child:
    """Starts a writer that goes on at step `first`, after the event `last_id`."""
    numbers = [str(seed), str(first), str(last_id), str(count)]
    arguments = [str(path), owner, *numbers, durability, plan]
    known = [TOOLS, *(Path(entry) for entry in sys.path if entry)]
    process = subprocess.Popen(
        [sys.executable, "-m", "torture.writer", *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, known))},
    )
    return Child(process)


def wait_a_moment(seconds: float) -> None:
    """Lets a random moment pass without giving up the processor."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@dataclass
class Session:
    """One session through several kills, and what its one writer was acknowledged."""

    path: Path
    seed: int
    durability: str = "process"
    owner: str = "alice"
    next: int = 0
    lost: int = 0
    record: Record = field(init=False)

    def __post_init__(self) -> None:
        self.record = Record(self.owner)

    def take(self, child: Child, killed: float) -> list[Step]:
        """Folds what a killed child was acknowledged; returns the steps that are in doubt.

        They are the one that was under way and, for `batch`, the appends before it.
        """
        done = child.acknowledged
        planned = islice(steps(self.seed, self.owner), self.next, None)
        pairs = [(step, line) for step, line in zip(planned, done, strict=False)]
        keep = len(pairs)
        if self.durability == "batch":
            while keep and pairs[keep - 1][0].verb not in DURABLE:
                keep -= 1
        for step, line in pairs[:keep]:
            assert step.number == line[1]
            self.record.fold(step, line[3])
        self._due = [cast("float", line[2]) < killed - BATCH_AGE_S for _, line in pairs[keep:]]
        started = self.next
        self.next += len(done) + 1
        under_way = islice(
            steps(self.seed, self.owner), started + len(done), started + len(done) + 1
        )
        return [*(step for step, _ in pairs[keep:]), *under_way]

    def settle(self, store: SessionStore, doubtful: list[Step]) -> list[str]:
        """Finds out which steps in doubt are there; returns what should not be missing."""
        faults: list[str] = []
        missing = 0
        for place, step in enumerate(doubtful):
            there = self.record.settle(store, step)
            if step.verb not in APPENDS or place == len(doubtful) - 1:
                continue
            if not there:
                missing += len(step.rows or (step.fields,))
                if self._due[place]:
                    faults.append(f"step {step.number} is lost, {BATCH_AGE_S} s after its end")
            elif missing:
                faults.append(f"step {step.number} is there, and one before it is not")
        if missing > BATCH_EVENTS:
            faults.append(f"{missing} events are lost")
        self.lost += missing
        return faults


def inspect(session: Session, doubtful: list[Step], scratch: Path, *, in_place: bool) -> list[str]:
    """Returns everything that is wrong with a session after a kill.

    Args:
        session: The session and its record.
        doubtful: The steps that may be there or not.
        scratch: An empty directory.
        in_place: Opens the session itself for writing; else only a copy, so that the next writer
            is the first to meet what the kill left.
    """
    faults: list[str] = []
    files = sorted(file.name for file in session.path.parent.iterdir())
    with SessionStore.open_readonly(session.path) as store:
        faults += session.settle(store, doubtful)
        faults += session.record.faults(store)
        faults += [f"verify of the log: {problem}" for problem in store.verify().problems]
    if files != sorted(file.name for file in session.path.parent.iterdir()):
        faults.append("reading has left files behind")
    copy = copied(session.path, scratch / "raw")
    faults += peer_faults(session.record, copy, is_closed=False)
    target = session.path if in_place else copied(session.path, scratch / "opened")
    with SessionStore(target) as store:
        faults += session.record.faults(store)
        faults += session.record.searched(store)
        faults += [f"verify: {problem}" for problem in store.verify().problems]
        newest = store.max_event_id()
        store.close(update_status=False)
    faults += peer_faults(session.record, copied(target, scratch / "closed"), is_closed=True)
    if session.record.events and newest < session.record.events[-1][2]:
        faults.append("the highest id went back")
    return faults


def copied(path: Path, directory: Path) -> Path:
    """Copies a session as a kill left it, its log included."""
    directory.mkdir(parents=True)
    for suffix in (".tail", "", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copy(source, directory / source.name)
    return directory / path.name


def peer_faults(record: Record, copy: Path, *, is_closed: bool) -> list[str]:
    """Returns what SQLite and the peer's reader find wrong with a copy of a session."""
    faults = []
    connection = sqlite3.connect(copy)
    try:
        answer = connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()
    if answer != [("ok",)]:
        faults.append(f"integrity_check: {answer}")
    conversation, state = KVault(str(copy), table="conversation"), KVault(str(copy), table="state")
    for vault in (conversation, state):
        vault.enable_auto_pack()
    counter = state.get("counters:max_event_id")
    if is_closed and record.events and counter < record.last_id:
        faults.append(f"the peer would number from {counter}, below {record.last_id}")
    for agent, shots in record.shots.items():
        seen = (
            conversation.get(agent),
            state.get(f"{agent}:snapshot_event_id"),
            state.get(f"{agent}:snapshot_branch"),
        )
        saved = [(shot.messages, shot.watermark, shot.branch) for shot in shots]
        if seen not in ([saved[-1]] if is_closed else saved):
            kind = "that" if is_closed else "any"
            faults.append(
                f"{agent}: the peer's list of {len(seen[0] or ())}, watermark {seen[1]}, branch "
                f"{seen[2]} were never {kind} of a snapshot: {[s[1:] for s in saved[-3:]]}"
            )
    for vault in (conversation, state):
        vault.close()
    return faults


def killed_once(
    session: Session, chance: random.Random, scratch: Path, plan: str = "steps"
) -> list[str]:
    """Runs one round: a writer goes on where the last one was killed, and is killed."""
    child = start(
        session.path,
        session.owner,
        session.seed,
        session.next,
        session.record.last_id,
        durability=session.durability,
        plan=plan,
    )
    if plan == "steps":
        wanted = chance.randrange(1, 250)
        child.hear(lambda lines: len(lines) > wanted)
    else:
        wanted = chance.randrange(1, 6)
        child.hear(lambda lines: sum(line[0] == "begins" for line in lines) >= wanted)
    wait_a_moment(chance.random() * chance.choice((0.0002, 0.002, 0.02)))
    doubtful = session.take(child, child.kill())
    return inspect(session, doubtful, scratch, in_place=chance.random() < 0.5)

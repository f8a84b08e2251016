"""What is left of a session whose writer was killed: everything that it was acknowledged."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from torture.form import sized
from torture.record import Record
from torture.rounds import Session, copied, inspect, killed_once, peer_faults, start, wait_a_moment
from torture.steps import steps

if TYPE_CHECKING:
    from pathlib import Path

    from torture.rounds import Child

pytestmark = pytest.mark.torture

KILLS = 4
"""Kills of one session, each writer going on where the one before it was killed."""


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """Returns a session's file in a directory of its own."""
    directory = tmp_path / "live"
    directory.mkdir()
    return directory / "session.kohakutr"


@pytest.mark.parametrize("seed", range(sized(short=2, long=50)))
def test_a_killed_writer_has_lost_nothing_that_was_acknowledged(
    seed: int, live: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    session = Session(live, seed)

    faults = [
        fault
        for kill in range(KILLS)
        for fault in killed_once(session, chance, tmp_path / str(kill))
    ]

    assert not faults
    assert session.lost == 0


@pytest.mark.parametrize("plan", ["close", "flush", "checkpoint", "backup"])
@pytest.mark.parametrize("seed", range(sized(short=1, long=10)))
def test_a_writer_may_be_killed_while_it_tidies_up(
    seed: int, plan: str, live: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    session = Session(live, seed)

    faults = [
        fault
        for kill in range(sized(short=1, long=2))
        for fault in killed_once(session, chance, tmp_path / str(kill), plan)
    ]
    copies = sorted(live.parent.glob("*.copy"))
    broken = [copy for copy in copies if not is_whole(copy)]

    assert not faults
    assert not broken


@pytest.mark.parametrize("durability", ["power", "batch"])
@pytest.mark.parametrize("seed", range(sized(short=1, long=25)))
def test_each_durability_keeps_its_own_promise(
    seed: int, durability: str, live: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    session = Session(live, seed, durability)

    faults = [
        fault for kill in range(2) for fault in killed_once(session, chance, tmp_path / str(kill))
    ]

    assert not faults
    assert session.lost == 0 or durability == "batch"


@pytest.mark.parametrize("seed", range(sized(short=2, long=40)))
def test_killing_one_of_two_writers_costs_neither_anything(
    seed: int, live: Path, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # rounds that can be repeated
    doomed = Session(live, seed, owner="bob")
    survivor = start(live, "alice", seed, count=300)
    second = start(live, "bob", seed)

    wanted = chance.randrange(1, 100)
    second.hear(lambda lines: len(lines) > wanted)
    wait_a_moment(chance.random() * 0.002)
    doubtful = doomed.take(second, second.kill())
    survivor.end()
    faults = inspect(doomed, doubtful, tmp_path / "scratch", in_place=True)
    kept = record_of(survivor, "alice", seed)
    with SessionStore.open_readonly(live) as store:
        faults += kept.faults(store)
        shared = store.get_events("shared")
    faults += peer_faults(kept, copied(live, tmp_path / "kept"), is_closed=True)

    assert survivor.lines[-1] == ["closed"]
    assert not faults
    assert len({event["event_id"] for event in shared}) == len(shared)


def is_whole(copy: Path) -> bool:
    with SessionStore.open_readonly(copy) as store:
        return store.verify().ok and len(store.namespaces()) > 0


def record_of(child: Child, owner: str, seed: int) -> Record:
    record = Record(owner)
    for step, line in zip(steps(seed, owner), child.acknowledged, strict=False):
        record.fold(step, line[3])
    return record

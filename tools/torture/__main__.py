"""Kills writers and prints what was lost: `python -m torture [ROUNDS] [SEED]`."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from torture.rounds import Session, killed_once

if TYPE_CHECKING:
    from collections.abc import Sequence

KILLS = 5
PLANS = ("steps", "steps", "steps", "steps", "close", "flush", "checkpoint", "backup")


def main(arguments: Sequence[str]) -> int:
    """Runs the rounds; returns 1 when anything was lost or is wrong."""
    rounds = int(arguments[0]) if arguments else 200
    seed = int(arguments[1]) if len(arguments) > 1 else time.time_ns() % 10**6
    durability = arguments[2] if len(arguments) > 2 else "process"
    chance = random.Random(seed)  # rounds that can be repeated
    events = failed = lost = 0
    begun = time.monotonic()
    for place in range(0, rounds, KILLS):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            (root / "live").mkdir()
            session = Session(root / "live" / "s.kohakutr", seed + place, durability)
            for kill in range(min(KILLS, rounds - place)):
                plan = chance.choice(PLANS)
                faults = killed_once(session, chance, root / f"scratch{kill}", plan)
                failed += bool(faults)
                for fault in faults:
                    print(f"session {seed + place}, kill {kill}, {plan}: {fault[:400]}", flush=True)
            events += len(session.record.events)
            lost += session.lost
    spent = time.monotonic() - begun
    print(
        f"{rounds} rounds, {failed} with faults; {events} events acknowledged, {lost} lost "
        f"({durability}); seed {seed}; {spent:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

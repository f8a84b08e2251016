"""The process that is killed.

Run as `python -m torture.writer FILE OWNER SEED FIRST LAST_ID COUNT DURABILITY PLAN`. Each line on
standard output is the acknowledgement of one step, written when its call had returned and before
the next one began. The plan `steps` does nothing else; `close`, `backup`, `flush` and `checkpoint`
do that as well after every few steps, and announce it first.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, cast

from amberlog import SessionStore
from torture.steps import perform, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amberlog.types import Durability
    from torture.steps import Step

STDOUT = 1
EVERY = 7
HANGS_AFTER_S = 120


def say(*words: object) -> None:
    """Writes one line in one call, so that a line is never half a line."""
    os.write(STDOUT, json.dumps(words).encode() + b"\n")


class Writer:
    """Performs the steps of one owner on one file."""

    def __init__(
        self, path: str, owner: str, durability: Durability, plan: str, last_id: int
    ) -> None:
        self.path, self.owner, self.durability, self.plan = path, owner, durability, plan
        self.store = self._open()
        self.last_id = last_id

    def _open(self) -> SessionStore:
        return SessionStore(self.path, durability=self.durability)

    def take(self, step: Step) -> None:
        """Performs one step and acknowledges it."""
        returned = perform(self.store, step, self.last_id)
        say("did", step.number, time.monotonic(), returned)
        if step.verb in ("event", "events") and isinstance(returned, list):
            self.last_id = returned[-1][1]

    def disturb(self, number: int) -> None:
        """Does what the plan wants the parent to kill in the middle of."""
        say("begins", number)
        if self.plan == "close":
            self.store.close(update_status=False)
            self.store = self._open()
        elif self.plan == "backup":
            self.store.backup(f"{self.path}.{number}.copy")
        elif self.plan == "flush":
            self.store.flush()
        elif self.plan == "checkpoint":
            self.store.checkpoint()
        say("ended", number)


def main(arguments: Sequence[str]) -> int:
    """Writes until it is killed, or until the steps are done."""
    path, owner, seed, first, last_id, count, durability, plan = arguments
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    writer = Writer(path, owner, cast("Durability", durability), plan, int(last_id))
    say("opened", os.getpid())
    for step in islice(steps(int(seed), owner), int(first), int(first) + int(count)):
        writer.take(step)
        if plan != "steps" and step.number % EVERY == 0:
            writer.disturb(step.number)
    writer.store.close(update_status=False)
    say("closed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

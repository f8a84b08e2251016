"""The process that the demonstration kills: it records, and acknowledges what it has recorded.

Run as `python -m amberlog.cli.recording FILE SEED STEPS`. Each line on standard output is the
acknowledgement of one step, written when the call that recorded it had returned.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING

from amberlog.cli.script import CODER, PLANNER, steps
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amberlog.cli.script import Step

STDOUT = 1


def record(path: str, seed: int, count: int) -> None:
    """Records the scripted session to a new file and acknowledges every step."""
    messages: dict[str, list[dict[str, object]]] = {PLANNER: [], CODER: []}
    with SessionStore(path) as store:
        store.init_meta("demo", "terrarium", "demo/config.yaml", "/demo", [PLANNER, CODER])
        for step in islice(steps(seed), count):
            begun = perf_counter_ns()
            key, number = _take(store, step, messages)
            spent_us = (perf_counter_ns() - begun) / 1000
            acknowledgement = [step.kind, step.agent, key, number, spent_us]
            # One write, so that a line is never half a line; a pipe is outside of the session.
            os.write(STDOUT, json.dumps(acknowledgement).encode() + b"\n")


def _take(
    store: SessionStore, step: Step, messages: dict[str, list[dict[str, object]]]
) -> tuple[str, int]:
    if step.kind == "event":
        return store.append_event(
            step.agent, step.name, step.fields, turn_index=step.turn, branch_id=1
        )
    if step.kind == "message":
        return store.save_channel_message(step.agent, step.fields), 0
    if step.kind == "run":
        run = store.next_subagent_run(step.agent, step.name)
        store.save_subagent(step.agent, step.name, run, step.fields)
        return f"{step.agent}:{step.name}:{run}:meta", run
    new = step.fields["messages"]
    said = messages[step.agent]
    if isinstance(new, list):
        said.extend(new)
    branch = {"turn_index": step.turn, "branch_id": 1, "parent_branch_path": []}
    watermark = store.max_event_id()
    store.save_branch_snapshot(step.agent, said, branch=branch, watermark=watermark)
    store.flush()
    return str(step.turn), len(said)


def main(arguments: Sequence[str]) -> int:
    """Records until it is killed, or until the steps are done."""
    path, seed, count = arguments
    record(path, int(seed), int(count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

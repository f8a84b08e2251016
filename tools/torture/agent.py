"""The agent of `examples/agent.py`, run as the process that is killed.

Run as `python -m torture.agent FILE`. It goes on with the session where there is one, and talks
until it is killed. Each line on standard output names an event, written when the event had been
stored and before anything else was.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import agent as example
import amberlog
from torture.writer import say

if TYPE_CHECKING:
    from collections.abc import Mapping


def acknowledge(key: str, event: Mapping[str, object]) -> None:
    """Says which event was stored."""
    say("did", key, event["event_id"], event["type"])


def main(path: Path) -> None:
    """Talks without end."""
    model = example.Script()
    if path.exists():
        resumed = amberlog.resume(path)
        resumed.store.subscribe(acknowledge)
        talker = example.take_up(resumed, model)
    else:
        store = amberlog.SessionStore(path)
        store.subscribe(acknowledge)
        talker = example.start(store, model, path.stem)
    requests = (f"What is here, for the {number}. time?" for number in itertools.count(1))
    for answer in example.converse(talker, requests):
        say("answered", answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Plays the peer's part in a session that it and amberlog write in turns.

A program for `tests/test_peers_in_turn.py`: a line of JSON on standard input is one turn. It opens
the session with the real store of KohakuTerrarium, looks at what is there, adds to it, closes it
and answers with one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from kohakuterrarium.session.store import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterable

AGENTS = ("alice", "alice:explorer")
CHANNEL = "tasks"


def take_turn(path: str, number: int, texts: Iterable[str]) -> dict[str, object]:
    """Opens the session, reads it and searches for `texts`, appends, and closes."""
    store = SessionStore(path)
    try:
        seen = {
            "events": {key.decode(): store.events[key] for key in store.events.keys(limit=10**6)},
            "messages": store.get_channel_messages(CHANNEL),
            "conversation": store.load_conversation("alice"),
            "branch": store.load_branch_snapshot("alice", {number - 1: 1}),
            "scratchpad": store.load_scratchpad("alice"),
            "found": {
                text: sorted(hit["meta"]["event_key"] for hit in store.search(text, k=1_000))
                for text in texts
            },
        }
        for agent in AGENTS:
            for part in range(2):
                store.append_event(
                    agent,
                    "text_chunk",
                    {"content": f"peer wrote part {part} in round{number}"},
                    turn_index=number,
                    branch_id=1,
                )
        store.save_channel_message(CHANNEL, {"sender": "peer", "content": f"peer{number}"})
        messages = [*(seen["conversation"] or []), {"role": "assistant", "content": f"p{number}"}]
        if number % 2:
            branch = {"turn_index": number, "branch_id": 1, "parent_branch_path": []}
            store.save_branch_snapshot(
                "alice", messages, branch=branch, watermark=store.max_event_id("alice")
            )
        else:
            store.save_conversation("alice", messages)
        store.save_state("alice", scratchpad={"written by": f"peer{number}"})
    finally:
        store.close()
    return seen


def main() -> None:
    """Takes turns until standard input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        seen = take_turn(order["path"], order["round"], order["texts"])
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()

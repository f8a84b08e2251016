"""The same session come back to by the peer and here."""

from __future__ import annotations

import json
import random
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import SessionStore
from support.agentlike import AGENT, Agentlike

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]


def of_peer(path: Path) -> list[dict[str, object]]:
    store = import_module("kohakuterrarium.session.store").SessionStore(str(path))
    load = import_module("kohakuterrarium.session.resume")._load_conversation_with_replay_fallback  # noqa: SLF001  # what its resume loads
    try:
        found: list[dict[str, object]] = load(store, AGENT)
    finally:
        store.close(update_status=False)
    return found


def spoken(messages: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [
        (m["role"], m.get("content") or "", json.dumps(m.get("tool_calls"), sort_keys=True))
        for m in messages
        if m["role"] != "tool"
    ]


def results(messages: list[dict[str, object]]) -> list[tuple[str, str]]:
    """Returns the results by their calls; those of interrupted calls say nothing in the peer's."""
    found = []
    for message in messages:
        about = message.get("metadata")
        is_made = isinstance(about, dict) and about.get("_synthetic_resume")
        if message["role"] == "tool":
            said = "" if is_made else str(message["content"])
            found.append((str(message["tool_call_id"]), said))
    return sorted(found)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_history_is_the_same_conversation_to_both(seed: int, path: Path) -> None:
    chance = random.Random(seed)
    kinds = ["turn", "turn", "rerun", "edit", "compact"]
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        agent = Agentlike(store, saves=chance.random() < 0.6, states=True)
        steps = range(chance.randrange(1, 9))
        agent.take(
            [("turn", 0, 0)]
            + [(chance.choice(kinds), chance.randrange(6), chance.randrange(3)) for _ in steps]
        )
        if chance.random() < 0.4:
            agent.break_off(chance.randrange(4), chance.randrange(4))

    resumed = amberlog.resume(path, readonly=True)
    ours = resumed.agents[AGENT].conversation
    resumed.store.close()
    theirs = of_peer(path)

    assert spoken(ours) == spoken(theirs)
    assert results(ours) == results(theirs)

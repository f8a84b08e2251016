"""Sessions to come back to, and how each contestant comes back."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, cast

import amberlog
from amberlog import lineage
from benches.contestants import OURS, open_branch_store
from benches.workload import AGENT, EVENTS_A_TURN, conversation, events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

KEPT_TURNS = 60
"""Turns of the conversation that a session holds: about 520 messages."""


class _TurnStore(Protocol):
    """A store whose events say which turn and branch they belong to."""

    def init_meta(
        self, session_id: str, config_type: str, config_path: str, pwd: str, agents: list[str]
    ) -> None: ...

    def append_event(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        *,
        turn_index: int,
        branch_id: int,
    ) -> object: ...

    def max_event_id(self, agent: str) -> int: ...

    def get_events(self, agent: str) -> Sequence[dict[str, object]]: ...

    def save_branch_snapshot(
        self,
        agent: str,
        messages: list[dict[str, object]],
        *,
        branch: Mapping[str, object] | None,
        watermark: int,
    ) -> None: ...

    def close(self) -> None: ...


def make_session(name: str, path: Path, count: int, turns: int, *, snapshot: bool) -> None:
    """Makes a session with events in turns, and the snapshot of a conversation where asked for."""
    store = cast("_TurnStore", open_branch_store(name, path))
    store.init_meta("s", "agent", "/work/agent.yaml", "/work", [AGENT])
    work = events(min(count, 10_000), seed=1)
    each = max(count // turns, 1)
    for number in range(count):
        kind, fields, _ = work[number % len(work)]
        if number % each == 0:
            kind, fields = "user_message", {"content": f"question {number}"}
        turn = min(number // each + 1, turns)
        store.append_event(AGENT, kind, fields, turn_index=turn, branch_id=1)
    if snapshot:
        parents = [[turn, 1] for turn in range(1, turns)]
        tag = {"turn_index": turns, "branch_id": 1, "parent_branch_path": parents}
        messages = _messages(turns)
        store.save_branch_snapshot(AGENT, messages, branch=tag, watermark=store.max_event_id(AGENT))
    store.close()


def _messages(turns: int) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = []
    for number, turn in enumerate(conversation(KEPT_TURNS)):
        place = max(turns - KEPT_TURNS, 0) + min(number + 1, turns)
        for message in turn:
            about = {"turn_index": min(place, turns), "branch_id": 1}
            messages.append(
                {**message, "metadata": about} if message["role"] == "user" else message
            )
    return messages


def turns_of(count: int) -> int:
    """Returns how many turns that many events make."""
    return max(count // EVENTS_A_TURN, 1)


class Resumer:
    """Opens a session and restores its agent, as a contestant does it.

    Args:
        name: The contestant.
        path: The session.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._path = path
        self._come_back = _ours if name == OURS else _peers
        self._close: Callable[[], object] | None = None

    def resume(self) -> int:
        """Returns how many messages the agent has; the session stays open."""
        messages, self._close = self._come_back(self._path)
        return messages

    def close(self) -> None:
        """Closes what the last call has opened, which is no part of it."""
        if self._close is not None:
            self._close()
            self._close = None


def replayer(name: str, path: Path) -> Callable[[], int]:
    """Returns what replays the events of a session, which are read before."""
    store = cast("_TurnStore", open_branch_store(name, path))
    log = store.get_events(AGENT)
    store.close()
    if name == OURS:
        return lambda: len(lineage.replay_conversation(log))
    replay = import_module("kohakuterrarium.session.history").replay_conversation
    return lambda: len(replay(log))


def _ours(path: Path) -> tuple[int, Callable[[], object]]:
    resumed = amberlog.resume(path)
    return len(resumed.agents[AGENT].conversation), resumed.store.close


def _peers(path: Path) -> tuple[int, Callable[[], object]]:
    inject = import_module("kohakuterrarium.session.resume").inject_saved_state
    store = open_branch_store("kohakuterrarium", path)
    agent = SimpleNamespace(
        config=SimpleNamespace(name=AGENT),
        controller=SimpleNamespace(conversation=None, config=None),
        session=SimpleNamespace(scratchpad={}),
    )
    inject(agent, store, AGENT)
    return len(agent.controller.conversation.get_messages()), store.close

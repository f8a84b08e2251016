"""A small runtime that records turns, reruns, edits and compactions as a real one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog import lineage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amberlog import SessionStore

AGENT = "alice"

Step = tuple[str, int, int]
"""What is done; of which turn; how many tools are called by it."""


class Agentlike:
    """Records into a session what an agent does, one step after another.

    Args:
        store: Where it is recorded.
        saves: Whether it takes a snapshot after each step.
        states: Whether events state the branches before them.
    """

    def __init__(self, store: SessionStore, *, saves: bool, states: bool) -> None:
        self._store = store
        self._saves = saves
        self._states = states
        self._highest: dict[int, int] = {}
        self._path: list[tuple[int, int]] = []
        self._jobs = 0
        self._rounds = 0

    def take(self, steps: Sequence[Step]) -> None:
        """Takes all steps."""
        for kind, which, calls in steps:
            if kind == "compact":
                self._compact()
            else:
                if kind in ("rerun", "edit") and self._path:
                    del self._path[which % len(self._path) :]
                self._turn("again" if kind == "rerun" else f"{kind} {which}", calls)
            self._save()

    def break_off(self, calls: int, answered: int) -> None:
        """Begins a turn and is killed while tools run."""
        self._turn("broken off", calls, answered=answered, ends=False)

    def _turn(
        self, said: str, calls: int, *, answered: int | None = None, ends: bool = True
    ) -> None:
        turn = len(self._path) + 1
        branch = self._highest.get(turn, 0) + 1
        self._highest[turn] = branch
        self._path.append((turn, branch))
        content = {"content": f"{said} at turn {turn}"}
        self._add("user_input", content)
        self._add("user_message", content)
        self._add("processing_start", {})
        self._add("text_chunk", {"content": f"I will, says {turn}.{branch}."})
        jobs = [f"bash_{self._jobs + number}" for number in range(calls)]
        self._jobs += calls
        for job in jobs:
            names = {"name": "bash", "call_id": job, "tool_call_id": f"call-{job}"}
            self._add("tool_call", {**names, "args": {"n": 1}})
        for job in jobs[:answered]:
            self._add("tool_result", {"name": "bash", "call_id": job, "output": f"did {job}"})
        if ends:
            self._add("text_chunk", {"content": "Done."})
            self._add("processing_end", {})

    def _compact(self) -> None:
        last = self._store.max_event_id()
        if not self._path:
            return
        self._rounds += 1
        path = [list(place) for place in self._path]
        self._add(
            "compact_complete",
            {
                "round": self._rounds,
                "summary": f"summary {self._rounds}",
                "messages_compacted": 2,
                "replaced_from_event_id": 1,
                "replaced_to_event_id": last,
                "compact_path": path,
                "compact_source_path": path,
                "compact_result_event_ids": [],
            },
        )

    def _add(self, kind: str, fields: Mapping[str, object]) -> None:
        turn, branch = self._path[-1]
        self._store.append_event(
            AGENT,
            kind,
            fields,
            turn_index=turn,
            branch_id=branch,
            parent_branch_path=self._path[:-1] if self._states else None,
        )

    def _save(self) -> None:
        if not self._saves or not self._path:
            return
        turn, branch = self._path[-1]
        messages = lineage.replay_with_settled_tools(
            self._store.get_events(AGENT), include_metadata=True, resumable=True
        )
        tag = {
            "turn_index": turn,
            "branch_id": branch,
            "parent_branch_path": [list(place) for place in self._path[:-1]],
            "context_cutoff_event_id": 0,
        }
        self._store.save_branch_snapshot(
            AGENT, messages, branch=tag, watermark=self._store.max_event_id()
        )


def unpaired(messages: Sequence[dict[str, object]]) -> list[object]:
    """Returns the ids of calls and results that do not match as the chat format demands.

    Each call of an assistant message has one result among the tool messages right behind it.
    """
    wrong: list[object] = []
    waiting: list[object] = []
    for message in messages:
        if message.get("role") == "tool":
            call = message.get("tool_call_id")
            if call in waiting:
                waiting.remove(call)
            else:
                wrong.append(call)
            continue
        wrong += waiting
        calls = message.get("tool_calls")
        waiting = [call["id"] for call in calls] if isinstance(calls, list) else []
    return wrong + waiting

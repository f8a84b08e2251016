"""Runs of sub-agents with their conversations, in both shapes that are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from amberlog.session import SessionStore


@dataclass(frozen=True, slots=True)
class ResumedSubagent:
    """One run of a sub-agent.

    Attributes:
        parent: The agent that started it.
        name: Its name.
        run: Its number among the runs of that name.
        meta: Its record.
    """

    parent: str
    name: str
    run: int
    meta: Mapping[str, object]
    _store: SessionStore = field(repr=False, compare=False)

    @property
    def conversation(self) -> list[dict[str, object]] | None:
        """Its messages, read at each access; None when none were kept or they are no messages."""
        text = self._store.load_subagent_conversation(self.parent, self.name, self.run)
        if text is None:
            return None
        try:
            parsed: object = json.loads(text)
        except ValueError:
            return None
        if isinstance(parsed, dict):
            parsed = parsed.get("messages")
        if not isinstance(parsed, list):
            return None
        return [message for message in parsed if isinstance(message, dict)]


def subagents_of(store: SessionStore, parent: str) -> tuple[ResumedSubagent, ...]:
    """Returns the runs that an agent started, by name and number."""
    return tuple(
        ResumedSubagent(parent, str(row["name"]), _number(row["run"]), _record(row["meta"]), store)
        for row in store.list_subagent_runs(parent=parent)
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _record(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

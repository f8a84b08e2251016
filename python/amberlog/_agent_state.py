"""What a session keeps of each agent: conversation snapshots, state, token counters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from amberlog._event_log import EventLog
from amberlog.types import RestoredConversation, SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class AgentState(EventLog):
    """The part of a session store that keeps conversations and state by agent."""

    def save_conversation(self, agent: str, messages: Sequence[Mapping[str, object]] | str) -> None:
        """Stores the agent's messages as they stand, in one transaction.

        Costs what is new since its last snapshot, not the length of the list. Branch snapshots
        of the agent are dropped; its watermark stays.

        Args:
            agent: Whose conversation it is.
            messages: The messages, or the JSON text of a list of messages.

        Raises:
            TypeError: A value of a type that cannot be stored; the message says where.
            ValueError: The text is not the JSON of a list of messages, or a value would not come
                back equal.
        """
        if isinstance(messages, str):
            messages = _parsed(messages)
        self._bundle.save_snapshot(agent, list(messages))

    def load_conversation(
        self, agent: str, turn: int | None = None
    ) -> list[dict[str, object]] | None:
        """Returns the messages of the agent's newest snapshot, or of the snapshot of a turn.

        Costs the snapshot, however many there are. None when there is no such snapshot.
        """
        return self._bundle.load_snapshot(agent, turn)

    def snapshots(self, agent: str) -> list[SnapshotInfo]:
        """Returns the agent's snapshots that can be loaded by turn, oldest first."""
        return [_snapshot_info(row) for row in self._bundle.snapshots(agent)]

    def save_branch_snapshot(
        self,
        agent: str,
        messages: Sequence[Mapping[str, object]],
        *,
        branch: Mapping[str, object] | None,
        watermark: int,
        compact_state: Mapping[str, object] | None = None,
    ) -> None:
        """Stores the messages with the branch they belong to, in one transaction.

        Args:
            agent: Whose conversation it is.
            messages: All its messages on that branch.
            branch: `turn_index`, `branch_id`, `parent_branch_path` and
                `context_cutoff_event_id` of the turn that ended.
            watermark: The highest event id that the messages include.
            compact_state: `compact_count` and `last_compact_time`.
        """
        self._bundle.save_snapshot(
            agent, list(messages), branch, watermark, compact_state, tagged=True
        )

    def load_branch_snapshot(
        self, agent: str, branch_view: Mapping[int, int]
    ) -> dict[str, object] | None:
        """Returns the newest snapshot that lies on a branch view; None when there is none.

        Args:
            agent: Whose conversation it is.
            branch_view: The chosen branch of each turn.
        """
        return self._bundle.load_branch_snapshot(agent, dict(branch_view))

    def restore_conversation(
        self,
        agent: str,
        view: Mapping[int, int] | None = None,
        live_job_ids: Collection[str] = (),
    ) -> RestoredConversation:
        """Returns the agent's messages as a resume wants them: each call has one result.

        They come from the newest snapshot and the events after it where those tell all, else from
        the whole log. Nothing is written.

        Args:
            agent: Whose conversation it is.
            view: The branch to show of some turns; without it those that were shown last.
            live_job_ids: Jobs that still run, whose calls stay open.

        Raises:
            InvalidBranchViewError: The view asks for what the log does not have.
        """
        return RestoredConversation(**self._bundle.resume(agent, view, list(live_job_ids)))

    def branch_path(self, agent: str, view: Mapping[int, int] | None = None) -> dict[int, int]:
        """Returns the branch that is shown of each turn; costs the agent's whole log.

        Raises:
            InvalidBranchViewError: The view asks for what the log does not have.
        """
        return self._bundle.branch_path(agent, view)

    def agent_state(self, agent: str) -> dict[str, object]:
        """Returns all slots of the agent's state by name, without those of its snapshots."""
        return self._bundle.agent_state(agent)

    def save_state(
        self,
        agent: str,
        *,
        scratchpad: Mapping[str, object] | None = None,
        turn_count: int | None = None,
        token_usage: Mapping[str, object] | None = None,
        triggers: Sequence[Mapping[str, object]] | None = None,
        compact_count: int | None = None,
    ) -> None:
        """Stores the slots that are given, in one transaction; the others stay as they are."""
        self._check_open()
        slots: dict[str, object] = {
            "scratchpad": scratchpad,
            "turn_count": turn_count,
            "token_usage": token_usage,
            "triggers": None if triggers is None else list(triggers),
            "compact_count": compact_count,
        }
        given = [(f"{agent}:{slot}", value) for slot, value in slots.items() if value is not None]
        if given:
            self._bundle.put("state", [*given])

    def load_scratchpad(self, agent: str) -> dict[str, object]:
        """Returns the agent's scratchpad; empty when there is none."""
        return self._state_map(agent, "scratchpad")

    def load_turn_count(self, agent: str) -> int:
        """Returns the agent's turn count; 0 when there is none."""
        count = self.state.get(f"{agent}:turn_count")
        return int(count) if isinstance(count, int | float) else 0

    def load_token_usage(self, agent: str) -> dict[str, object]:
        """Returns the agent's token counters as they were saved; empty when there are none."""
        return self._state_map(agent, "token_usage")

    def load_triggers(self, agent: str) -> list[dict[str, object]]:
        """Returns the agent's triggers; empty when there are none."""
        triggers = self.state.get(f"{agent}:triggers")
        return triggers if isinstance(triggers, list) else []

    def token_usage(
        self,
        agent: str | None = None,
        *,
        include_subagents: bool = False,
        include_attached: bool = False,
        by_turn: bool = False,
    ) -> dict[str, object]:
        """Returns the agent's token counters.

        Args:
            agent: Whose counters; it must be given.
            include_subagents: Adds `subagents`: the counters of each run by its path.
            include_attached: Adds `attached`: the counters of each attached agent.
            by_turn: Adds `by_turn`: the counters of each turn.

        Raises:
            ValueError: `agent` is None.
        """
        if agent is None:
            raise ValueError("agent must be given: a session has no counters of its own")
        return self._bundle.token_usage(agent, include_subagents, include_attached, by_turn)

    def token_usage_all_loops(self) -> list[tuple[str, dict[str, int]]]:
        """Returns path and counters of every agent, sub-agent run and attached agent."""
        return self._bundle.token_usage_all_loops()

    def _state_map(self, agent: str, slot: str) -> dict[str, object]:
        value = self.state.get(f"{agent}:{slot}")
        return value if isinstance(value, dict) else {}


def _parsed(text: str) -> list[Mapping[str, object]]:
    parsed: object = json.loads(text)
    if isinstance(parsed, dict) and "messages" in parsed:
        parsed = parsed["messages"]
    if not isinstance(parsed, list):
        raise ValueError("messages must be the JSON text of a list of messages")  # noqa: TRY004  # the text is a str, its content is wrong
    return parsed


def _snapshot_info(row: Mapping[str, object]) -> SnapshotInfo:
    ts = row.get("ts")
    branch = row.get("branch")
    return SnapshotInfo(
        turn=_whole(row.get("turn")),
        branch=_whole(branch.get("branch_id") if isinstance(branch, dict) else branch),
        watermark=_whole(row.get("watermark")),
        messages=_whole(row.get("messages")) or 0,
        ts=float(ts) if isinstance(ts, int | float) else 0.0,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None

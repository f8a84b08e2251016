"""What a session keeps of the work in it: turns, channels, sub-agents, jobs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from amberlog._recorded import Recorded
from amberlog.errors import SessionDamagedError
from amberlog.types import Attachment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amberlog._tables import Key


class WorkRecords(Recorded):
    """The part of a session store that keeps turn rollups, channels, sub-agent runs and jobs."""

    def save_turn_rollup(self, agent: str, turn_index: int, data: Mapping[str, object]) -> None:
        """Stores the summary of a turn; one that was there is replaced.

        `agent`, `turn_index` and `cost_usd` (None) are filled in where they are missing.
        """
        rollup = {"agent": agent, "turn_index": turn_index, "cost_usd": None, **data}
        self._bundle.put("turn_rollup", [(_rollup_key(agent, turn_index), rollup)])

    def get_turn_rollup(self, agent: str, turn_index: int) -> dict[str, object] | None:
        """Returns the summary of a turn; None when there is none."""
        return _record(self.turn_rollup.get(_rollup_key(agent, turn_index)))

    def list_turn_rollups(self, agent: str) -> list[dict[str, object]]:
        """Returns the summaries of the agent's turns by turn."""
        return self._bundle.rollups(agent)

    def save_channel_message(self, channel: str, data: Mapping[str, object]) -> str:
        """Appends a message to a channel, with `ts` when it has none, and returns its key.

        What is durable then is as for `append_event`. `data` is not changed.
        """
        return self._bundle.append_message(channel, data)

    def get_channel_messages(self, channel: str) -> list[dict[str, object]]:
        """Returns the messages of one channel in the order they were appended."""
        return self._bundle.messages(channel)

    def next_subagent_run(self, parent: str, name: str) -> int:
        """Returns the next run number of a sub-agent, from 0, and keeps others from taking it."""
        return self._bundle.next_subagent_run(parent, name)

    def save_subagent(
        self,
        parent: str,
        name: str,
        run: int,
        meta: Mapping[str, object],
        conv_json: str | None = None,
    ) -> None:
        """Stores what is known of a sub-agent run, in one transaction.

        Args:
            parent: The agent that started it.
            name: Its name.
            run: Its number, from `next_subagent_run`.
            meta: Its record; `ts` is added when it has none. `meta` is not changed.
            conv_json: The JSON text of its conversation.
        """
        prefix = f"{parent}:{name}:{run}"
        rows: list[tuple[Key, object]] = [(f"{prefix}:meta", _dated(meta))]
        if conv_json is not None:
            rows.append((f"{prefix}:conversation", conv_json))
        self._bundle.put("subagents", rows)

    def load_subagent_meta(self, parent: str, name: str, run: int) -> dict[str, object] | None:
        """Returns the record of a sub-agent run; None when there is none."""
        return _record(self.subagents.get(f"{parent}:{name}:{run}:meta"))

    def load_subagent_conversation(self, parent: str, name: str, run: int) -> str | None:
        """Returns the JSON text of a run's conversation; None when there is none."""
        text = self.subagents.get(f"{parent}:{name}:{run}:conversation")
        if isinstance(text, bytes):
            return text.decode()
        return text if isinstance(text, str) else None

    def load_subagent_messages(
        self, parent: str, name: str, run: int
    ) -> list[dict[str, object]] | None:
        """Returns the messages of a run's conversation; None when none are kept.

        They are stored as the JSON text of a list, or of a map with the list under `messages`.

        Raises:
            SessionDamagedError: What is stored is neither.
        """
        text = self.load_subagent_conversation(parent, name, run)
        if text is None:
            return None
        try:
            stored: object = json.loads(text)
        except ValueError:
            stored = None
        messages = stored.get("messages") if isinstance(stored, dict) else stored
        if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
            return messages
        at = f"subagents[{parent}:{name}:{run}:conversation]"
        what = "it is not a list of messages"
        raise SessionDamagedError(
            f"`{self.path}` is damaged at {at}: {what}", path=self.path, at=at, what=what
        )

    def attach_agent(
        self, host: str, role: str, agent_name: str, *, attached_by: str | None = None
    ) -> Attachment:
        """Attaches an agent to another one, and returns where its events belong.

        In one transaction it gets the next number of its role, an `agent_attached` event is
        appended to the host's log, and a viewer shows its history first from then on. Its own
        events are appended under the attachment's `namespace`; its host's are not changed.

        Args:
            host: The agent that it is attached to.
            role: What it is there for; one role may be taken by many agents.
            agent_name: What it is called.
            attached_by: Who attached it; the agent itself when left out.

        Raises:
            ValueError: The host or the role is empty.
        """
        fields = _attached(self.session_id, role, agent_name, attached_by)
        number, key, event = self._bundle.attach(host, role, fields)
        self._notify(key, event)
        return Attachment(host, role, number, agent_name)

    def detach_agent(self, attachment: Attachment) -> None:
        """Appends an `agent_detached` event to the host's log; the agent's own events stay.

        Attaching the agent again gives it the next number.
        """
        given = attachment
        fields = _attached(self.session_id, given.role, given.agent_name, None)
        self.append_event(given.host, "agent_detached", {**fields, "attach_seq": given.attach_seq})

    def list_subagent_runs(
        self, *, parent: str | None = None, name: str | None = None
    ) -> list[dict[str, object]]:
        """Returns `parent`, `name`, `run`, `job_id` and `meta` of the runs.

        Args:
            parent: Only the runs that this agent started.
            name: Only the runs of this sub-agent.
        """
        return [_run(*row) for row in self._bundle.subagent_runs(parent, name)]

    def find_subagent_run(
        self, job_id: str, *, parent: str | None = None
    ) -> dict[str, object] | None:
        """Returns the run of a job, in the shape of `list_subagent_runs`; None when none has it."""
        self._check_open()
        if not job_id:
            return None
        row = self._bundle.find_subagent_run(job_id, parent)
        return None if row is None else _run(*row)

    def save_job(self, job_id: str, data: Mapping[str, object]) -> None:
        """Stores a job's record, with `ts` when it has none. `data` is not changed."""
        self._bundle.put("jobs", [(job_id, _dated(data))])

    def load_job(self, job_id: str) -> dict[str, object] | None:
        """Returns a job's record; None when there is none."""
        return _record(self.jobs.get(job_id))


def _attached(
    session_id: str, role: str, agent_name: str, attached_by: str | None
) -> dict[str, object]:
    return {
        "agent_name": agent_name,
        "role": role,
        "attached_by": attached_by or agent_name,
        "session_id": session_id,
    }


def _rollup_key(agent: str, turn_index: int) -> str:
    return f"{agent}:turn:{turn_index:06d}"


def _dated(record: Mapping[str, object]) -> dict[str, object]:
    return dict(record) if "ts" in record else {**record, "ts": time.time()}


def _record(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def _run(parent: str, name: str, run: int, meta: dict[str, object]) -> dict[str, object]:
    return {
        "parent": parent,
        "name": name,
        "run": run,
        "job_id": meta.get("job_id"),
        "meta": meta,
    }

"""The bundle of a session that is not kept."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from amberlog._core import Bundle
from amberlog._null_memory import NullMemory
from amberlog.errors import SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amberlog._parts import NewEventParts, SnapshotParts, StoredParts
    from amberlog.types import RestoredFields


class NullBundle(NullMemory):
    """Takes what `_core.Bundle` takes, keeps nothing, and answers as an empty bundle does.

    Only the numbers it hands out grow, since a runtime tells its events apart by them.
    """

    readonly = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.closed = False
        self._event_id = 0
        self._next: dict[str, Iterator[int]] = {}

    def append(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        turn_index: int | None = None,
        spawned_in_turn: int | None = None,
        branch_id: int | None = None,
        parent_branch_path: list[tuple[int, int]] | None = None,
        stamped: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
    ) -> tuple[str, int, dict[str, object] | None]:
        """Returns the key and id that the event would have had."""
        del turn_index, spawned_in_turn, branch_id, parent_branch_path
        key = f"{agent}:e{self._number(f'e:{agent}'):06d}"
        self._event_id += 1
        event = {**data, "type": event_type, "event_id": self._event_id} if stamped else None
        return key, self._event_id, event

    def attach(
        self, host: str, role: str, data: Mapping[str, object]
    ) -> tuple[int, str, dict[str, object]]:
        """Returns the number that the attached agent would have had, and its event."""
        number = self._number(f"attach:{host}:{role}")
        fields = {**data, "attach_seq": number}
        key, _, event = self.append(host, "agent_attached", fields, stamped=True)
        return number, key, event or fields

    def append_many(
        self,
        agent: str,
        events: list[tuple[str, Mapping[str, object]]],
        turn_index: int | None = None,
        branch_id: int | None = None,
    ) -> list[tuple[str, int]]:
        """Returns the keys and ids that the events would have had."""
        del turn_index, branch_id
        return [self.append(agent, event_type, data)[:2] for event_type, data in events]

    def record(
        self,
        agent: str,
        events: list[NewEventParts],
        puts: list[tuple[str, str | bytes, object]],
        deletes: list[tuple[str, str | bytes]],
        snapshot: SnapshotParts | None = None,
        run: tuple[str, str, str, Mapping[str, object], str] | None = None,
        sync: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
        stamped: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
    ) -> list[StoredParts]:
        """Returns what the events would have been given."""
        del puts, deletes, snapshot, run, sync
        self._check()
        stored: list[StoredParts] = []
        for event in events:
            key, event_id, whole = self.append(agent, event[0], event[1], stamped=stamped)
            stored.append((key, event_id, False, whole))
        return stored

    def compact(
        self,
        agent: str,
        summary: str,
        from_event_id: int | None = None,
        to_event_id: int | None = None,
        fields: Mapping[str, object] | None = None,
        stamped: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
    ) -> StoredParts | None:
        """Returns what the event of the summary would have been given; None for a blank one."""
        del from_event_id, to_event_id
        self._check()
        if not summary.strip():
            return None
        data = {**(fields or {}), "summary": summary}
        key, event_id, whole = self.append(agent, "compact_complete", data, stamped=stamped)
        return key, event_id, False, whole

    def working_history(self, agent: str, limit: int | None = None) -> list[dict[str, object]]:
        """Returns no messages."""
        del agent, limit
        self._check()
        return []

    def place_of(self, agent: str) -> tuple[int, int | None, list[tuple[int, int]]] | None:
        """Returns None."""
        del agent
        self._check()
        return None

    def events(
        self,
        agent: str,
        since: int | None = None,
        until: int | None = None,
        types: list[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
        after: int | None = None,
    ) -> tuple[list[dict[str, object]], int | None]:
        """Returns an empty last page."""
        del agent, since, until, types, limit, reverse, after
        self._check()
        return [], None

    def all_events(self) -> list[tuple[str, dict[str, object]]]:
        """Returns no events."""
        self._check()
        return []

    def event_by_id(self, agent: str, event_id: int) -> dict[str, object] | None:
        """Returns None."""
        del agent, event_id
        self._check()
        return None

    def max_event_id(self) -> int:
        """Returns the last id that was handed out."""
        self._check()
        return self._event_id

    def max_branch_id(self, agent: str, turn_index: int) -> int:
        """Returns 0."""
        del agent, turn_index
        self._check()
        return 0

    def resumable_events(
        self, agent: str, live_job_ids: list[str], since: int | None
    ) -> list[dict[str, object]]:
        """Returns no events."""
        del agent, live_job_ids, since
        self._check()
        return []

    def turns(self, agent: str) -> list[dict[str, object]]:
        """Returns no turns."""
        del agent
        self._check()
        return []

    def resume(
        self,
        agent: str,
        view: Mapping[int, int] | None = None,
        live_job_ids: list[str] | None = None,
    ) -> RestoredFields:
        """Returns no conversation."""
        del agent, view, live_job_ids
        self._check()
        return {
            "source": "nothing",
            "messages": [],
            "position": None,
            "repairs": [],
            "watermark": None,
            "context_cutoff_event_id": 0,
            "told": 0,
            "events_read": 0,
            "triggers": [],
        }

    def branch_path(self, agent: str, view: Mapping[int, int] | None = None) -> dict[int, int]:
        """Returns no turns."""
        del agent, view
        self._check()
        return {}

    def agent_state(self, agent: str) -> dict[str, object]:
        """Returns no slots."""
        del agent
        self._check()
        return {}

    def namespaces(self) -> list[str]:
        """Returns no namespaces."""
        self._check()
        return []

    def get(self, table: str, key: str | bytes) -> object:
        """Raises `KeyError`."""
        del table
        self._check()
        raise KeyError(key)

    def put(self, table: str, items: list[tuple[str | bytes, object]]) -> None:
        """Keeps nothing."""
        del table, items
        self._check()

    def note(self, table: str, items: list[tuple[str | bytes, object]]) -> None:
        """Keeps nothing."""
        del table, items
        self._check()

    def put_across(
        self,
        items: list[tuple[str, str | bytes, object]],
        delete: list[tuple[str, str | bytes]] | None = None,
    ) -> None:
        """Keeps nothing."""
        del items, delete
        self._check()

    def delete(self, table: str, key: str | bytes) -> bool:
        """Returns that there was nothing."""
        del table, key
        self._check()
        return False

    def keys(
        self,
        table: str,
        prefix: str | bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
    ) -> list[bytes]:
        """Returns no keys."""
        del table, prefix, limit, reverse
        self._check()
        return []

    def items(
        self, table: str, prefix: str | bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, object]]:
        """Returns no items."""
        del table, prefix, limit
        self._check()
        return []

    def count(self, table: str) -> int:
        """Returns 0."""
        del table
        self._check()
        return 0

    def append_message(self, channel: str, data: Mapping[str, object]) -> str:
        """Returns the key that the message would have had."""
        del data
        return f"{channel}:m{self._number(f'm:{channel}'):06d}"

    def messages(self, channel: str) -> list[dict[str, object]]:
        """Returns no messages."""
        del channel
        self._check()
        return []

    def rollups(self, agent: str) -> list[dict[str, object]]:
        """Returns no rollups."""
        del agent
        self._check()
        return []

    def next_subagent_run(self, parent: str, name: str) -> int:
        """Returns the next number, from 0."""
        return self._number(f"r:{parent}:{name}")

    def subagent_runs(
        self, parent: str | None = None, name: str | None = None
    ) -> list[tuple[str, str, int, dict[str, object]]]:
        """Returns no runs."""
        del parent, name
        self._check()
        return []

    def find_subagent_run(
        self, job_id: str, parent: str | None = None
    ) -> tuple[str, str, int, dict[str, object]] | None:
        """Returns None."""
        del job_id, parent
        self._check()
        return None

    def save_snapshot(
        self,
        agent: str,
        messages: list[Mapping[str, object]],
        branch: Mapping[str, object] | None = None,
        watermark: int | None = None,
        compact_state: Mapping[str, object] | None = None,
        tagged: bool = False,  # noqa: FBT001, FBT002  # the signature of `_core.Bundle`
    ) -> None:
        """Keeps nothing."""
        del agent, messages, branch, watermark, compact_state, tagged
        self._check()

    def load_snapshot(self, agent: str, turn: int | None = None) -> list[dict[str, object]] | None:
        """Returns None."""
        del agent, turn
        self._check()
        return None

    def snapshots(self, agent: str) -> list[dict[str, object]]:
        """Returns no snapshots."""
        del agent
        self._check()
        return []

    def load_branch_snapshot(self, agent: str, view: dict[int, int]) -> dict[str, object] | None:
        """Returns None."""
        del agent, view
        self._check()
        return None

    def token_usage(
        self,
        agent: str,
        include_subagents: bool,  # noqa: FBT001  # the signature of `_core.Bundle`
        include_attached: bool,  # noqa: FBT001  # the signature of `_core.Bundle`
        by_turn: bool,  # noqa: FBT001  # the signature of `_core.Bundle`
    ) -> dict[str, object]:
        """Returns counters of 0 in the shape that was asked for."""
        self._check()
        names = ("total_tokens", "prompt_tokens", "completion_tokens", "cached_tokens")
        usage: dict[str, object] = {"agent": agent, **dict.fromkeys(names, 0)}
        if include_subagents:
            usage["subagents"] = {}
        if include_attached:
            usage["attached"] = {}
        if by_turn:
            usage["by_turn"] = []
        return usage

    def token_usage_all_loops(self) -> list[tuple[str, dict[str, int]]]:
        """Returns no loops."""
        self._check()
        return []

    def search(
        self, query: str, k: int, agent: str | None = None, types: list[str] | None = None
    ) -> list[tuple[int, float, dict[str, object]]]:
        """Returns no hits."""
        del query, k, agent, types
        self._check()
        return []

    def flush(self) -> None:
        """Does nothing."""
        self._check()

    def checkpoint(self) -> None:
        """Does nothing."""
        self._check()

    def close(self) -> None:
        """Makes every verb raise from here on."""
        self.closed = True

    def backup(self, path: str) -> None:
        """Writes no file: there is nothing to copy."""
        del path
        self._check()

    def fork_point(
        self, path: str, at_event_id: int, pending: list[str]
    ) -> tuple[bytes, dict[str, object]] | None:
        """Checks the point as a bundle does; no event is there to return."""
        del path, pending
        self._check()
        if at_event_id < 1 or self._event_id < 1:
            raise ValueError(f"at_event_id: no event has the id {at_event_id} or a lower one")
        return None

    def fork(
        self,
        path: str,
        at_event_id: int,
        pending: list[str],
        meta: list[tuple[str, object]],
        entry: Mapping[str, object],
        edit: tuple[bytes, Mapping[str, object] | None] | None = None,
    ) -> NullBundle:
        """Returns a bundle that keeps nothing either, whose ids go on from the point."""
        del meta, entry, edit
        self.fork_point(path, at_event_id, pending)
        child = NullBundle(path)
        child._event_id = min(at_event_id, self._event_id)
        return child

    def verify(self) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
        """Returns that nothing is there and nothing is wrong."""
        self._check()
        return {}, []

    def _number(self, series: str) -> int:
        self._check()
        # `setdefault` and `next` are single steps of the interpreter, so two threads never
        # receive the same number.
        return next(self._next.setdefault(series, count()))

    def _check(self) -> None:
        if self.closed:
            raise SessionClosedError("the session is closed", path=self.path)


AnyBundle = Bundle | NullBundle
"""What a store may have beneath it."""

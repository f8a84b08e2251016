"""The events of a session: appending and reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog._handle import StoreHandle
from amberlog.types import TurnView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

PAGE = 256
"""Events that an iterator holds at a time."""

FRAMEWORK = "terrarium"
ATTACHED = ":attached:"


class EventLog(StoreHandle):
    """The part of a session store that appends events and reads them."""

    def append_event(
        self,
        agent: str,
        event_type: str,
        data: Mapping[str, object],
        *,
        turn_index: int | None = None,
        spawned_in_turn: int | None = None,
        branch_id: int | None = None,
        parent_branch_path: Sequence[tuple[int, int]] | None = None,
    ) -> tuple[str, int]:
        """Appends one event, in one transaction that is committed when the call returns.

        What that protects against is the store's `durability`. The stored event is a copy of
        `data` with `type`, `event_id`, `ts` (kept when given) and the stamps below; `data` itself
        is not changed. Ids grow over the whole session, and two processes that append at once
        never receive the same one.

        Args:
            agent: The namespace that the event belongs to.
            event_type: What kind of event it is.
            data: Its fields. A positive `event_id` among them is kept.
            turn_index: The user turn it belongs to.
            spawned_in_turn: The turn that caused it; `turn_index` when left out.
            branch_id: Which of the turn's alternatives it belongs to.
            parent_branch_path: The turn and branch of every earlier turn.

        Returns:
            The key and the event id.

        Raises:
            TypeError: A value of a type that cannot be stored; the message says where.
            ValueError: A value that would not come back equal; the message says where.
            SessionWriteError: The system refused the write. The event is not stored, and the
                store can be used on.
        """
        key, event_id, event = self._bundle.append(
            agent,
            event_type,
            data,
            turn_index,
            spawned_in_turn,
            branch_id,
            None if parent_branch_path is None else list(parent_branch_path),
            bool(self._subscribers),
        )
        if event is not None:
            self._notify(key, event)
        return key, event_id

    def append_events(
        self,
        agent: str,
        events: Iterable[tuple[str, Mapping[str, object]]],
        *,
        turn_index: int | None = None,
        branch_id: int | None = None,
    ) -> list[tuple[str, int]]:
        """Appends many events in one transaction: all of them or none.

        Args:
            agent: The namespace that the events belong to.
            events: The type and the fields of each event.
            turn_index: The user turn that all of them belong to.
            branch_id: Which of the turn's alternatives they belong to.

        Returns:
            The key and event id of each, in order. Errors are those of `append_event`.
        """
        appended = self._bundle.append_many(agent, list(events), turn_index, branch_id)
        if self._subscribers:
            for key, _ in appended:
                event = self._bundle.get("events", key)
                if isinstance(event, dict):
                    self._notify(key, event)
        return appended

    def iter_events(
        self,
        agent: str,
        *,
        since: int | None = None,
        until: int | None = None,
        types: Collection[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[dict[str, object]]:
        """Yields an agent's events in the order they were appended, holding one page at a time.

        Events that are appended while it runs may be among them.

        Args:
            agent: The namespace to read.
            since: Only events with an id above this one.
            until: Only events with an id up to this one.
            types: Only events of these types.
            limit: At most this many.
            reverse: Newest first.

        Raises:
            SessionDamagedError: An event does not have the bytes that were written.
        """
        if isinstance(types, str):
            raise TypeError("types must be a collection of type names, not one string")
        if limit is not None and limit < 0:
            raise ValueError(f"limit must not be negative, not {limit}")
        self._check_open()
        return self._pages(agent, since, until, types, limit, reverse=reverse)

    def get_events(self, agent: str, since_event_id: int | None = None) -> list[dict[str, object]]:
        """Returns an agent's events, or those with an id above `since_event_id`, in append order.

        Costs what it returns. `iter_events` does not hold all of them at once.
        """
        return list(self.iter_events(agent, since=since_event_id))

    def get_event_by_id(self, agent: str, event_id: int) -> dict[str, object] | None:
        """Returns the agent's event of that id; None when it has none."""
        return self._bundle.event_by_id(agent, event_id)

    def get_all_events(self) -> list[tuple[str, dict[str, object]]]:
        """Returns the events of all agents with their keys, by time, then in append order.

        A clock that was set back by less than a day moves no event before an earlier one.
        """
        return self._bundle.all_events()

    def get_resumable_events(
        self,
        agent: str,
        *,
        live_job_ids: Collection[str] | None = None,
        since_event_id: int | None = None,
    ) -> list[dict[str, object]]:
        """Returns an agent's events as a resume wants them.

        Adjacent doubles are left out, and every call without a result is closed as interrupted
        unless its job still runs. What is stored does not change.

        Args:
            agent: The namespace to read.
            live_job_ids: The jobs that still run; after a restart there are none.
            since_event_id: Only events with an id above this one.
        """
        return self._bundle.resumable_events(agent, sorted(live_job_ids or ()), since_event_id)

    def turns(self, agent: str) -> list[TurnView]:
        """Returns what was asked and answered in each of an agent's turns, oldest first.

        Of a turn that was edited or rerun only the newest branch is looked at. Costs one pass over
        the agent's events.
        """
        return [_turn(index, row) for index, row in enumerate(self._bundle.turns(agent))]

    def max_event_id(self, agent: str | None = None) -> int:
        """Returns the highest event id of the session; 0 when it has no event.

        Args:
            agent: Without effect: ids are counted over the session, not over an agent.
        """
        del agent
        return self._bundle.max_event_id()

    def max_branch_id(self, agent: str, turn_index: int) -> int:
        """Returns the highest branch that a turn of the agent has; 0 when it has none."""
        return self._bundle.max_branch_id(agent, turn_index)

    def namespaces(self) -> list[str]:
        """Returns every namespace that has events, by name."""
        return self._bundle.namespaces()

    def discover_agents_from_events(self) -> list[str]:
        """Returns the agents that have events, without the framework and attached agents."""
        return [name for name in self.namespaces() if name != FRAMEWORK and ATTACHED not in name]

    def discover_attached_agents(self) -> list[dict[str, object]]:
        """Returns `host`, `role`, `attach_seq` and `namespace` of each attached agent."""
        found: list[dict[str, object]] = []
        for namespace in self.namespaces():
            host, mark, rest = namespace.partition(ATTACHED)
            # A role may hold colons, a number may not.
            role, _, number = rest.rpartition(":")
            if mark and role and number.isascii() and number.isdigit():
                found.append(
                    {
                        "host": host,
                        "role": role,
                        "attach_seq": int(number),
                        "namespace": namespace,
                    }
                )
        return found

    def _pages(
        self,
        agent: str,
        since: int | None,
        until: int | None,
        types: Collection[str] | None,
        limit: int | None,
        *,
        reverse: bool,
    ) -> Iterator[dict[str, object]]:
        names = None if types is None else list(types)
        after: int | None = None
        while limit is None or limit > 0:
            size = PAGE if limit is None else min(PAGE, limit)
            page, after = self._bundle.events(agent, since, until, names, size, reverse, after)
            yield from page
            if after is None:
                return
            if limit is not None:
                limit -= len(page)


def _turn(index: int, row: Mapping[str, object]) -> TurnView:
    calls, ts = row["tool_calls"], row["ts"]
    return TurnView(
        index,
        row["user_text"],
        str(row["assistant_text"]),
        tuple(calls) if isinstance(calls, list) else (),
        str(row["source"]),
        float(ts) if isinstance(ts, int | float) else 0.0,
    )

"""Coming back to a session: what its agents had, and how a runtime takes it over."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from amberlog._event_log import ATTACHED
from amberlog._handover import (
    AgentParts,
    Handover,
    MakesTriggers,
    Repaints,
    TakesConversation,
    TakesScratchpad,
    TakesSubagents,
    TakesTriggers,
    hand_over,
)
from amberlog._subagents import ResumedSubagent, subagents_of
from amberlog._successor import SUCCESSOR, resolve_successor
from amberlog._triggers import (
    RestoredTrigger,
    ResumableTrigger,
    TriggerFailure,
    TriggerRegistry,
    TriggerState,
    triggers_of,
)
from amberlog._versions import file_to_open, is_file, migration_source
from amberlog.errors import (
    SessionNotFoundError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)
from amberlog.lineage import BranchView
from amberlog.migration import is_old, migrate
from amberlog.session import FORMAT_VERSION, SessionStore
from amberlog.types import RepairKind, Source

Build = Callable[[str, Mapping[str, object]], object]
"""What makes a runtime of `config_path` and `config_snapshot`."""

_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_LEGACY_OPTIONS = "__native_tool_options__"

_REPAIRS: Mapping[str, str] = {
    "answered": "the call {} had no result and got one that says it was interrupted",
    "moved": "the result of {} stood apart from its call and was moved to it",
    "dropped": "a result of {} belonged to no call and was left out",
    "repeated": "the call {} was there twice, or had no id, and was left out",
    "malformed": "what stood at place {} is no message and was left out",
}


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was changed in the messages, so that a provider takes them.

    What is stored does not change.

    Attributes:
        agent: Whose conversation it is.
        kind: What was done.
        call_id: The call that it is about; of what is no message, its place.
    """

    agent: str
    kind: RepairKind
    call_id: str

    def __str__(self) -> str:
        return _REPAIRS[self.kind].format(self.call_id or "without an id")


@dataclass(frozen=True, slots=True)
class ResumedAgent:
    """What an agent had when its session ended.

    Attributes:
        name: Its name.
        source: How the conversation was come by.
        conversation: Its messages, in which each call has one result.
        scratchpad: Its scratchpad, without the names that are internal.
        state: Every other slot of its state, by name.
        triggers: Its triggers.
        turn_index: The turn that it stands at; None when no event says.
        branch_id: The branch of that turn.
        watermark: The highest event id that its newest snapshot includes; None when there is none.
        context_cutoff_event_id: The event at which its context was cleared; 0 when it never was.
        events_read: How many events were read for the conversation.
        repairs: What was changed in the messages.
    """

    name: str
    source: Source
    conversation: list[dict[str, object]]
    scratchpad: Mapping[str, object]
    state: Mapping[str, object]
    triggers: tuple[TriggerState, ...]
    turn_index: int | None
    branch_id: int | None
    watermark: int | None
    context_cutoff_event_id: int
    events_read: int
    repairs: tuple[Repair, ...]
    _store: SessionStore = field(repr=False, compare=False)
    _view: BranchView | None = field(repr=False, compare=False)
    _live_jobs: tuple[str, ...] = field(repr=False, compare=False)

    @property
    def is_attached(self) -> bool:
        """Whether it was attached to the session by another agent."""
        return ATTACHED in self.name

    @property
    def events(self) -> list[dict[str, object]]:
        """The events to repaint, with every call announced and finished; read at each access."""
        return self._store.get_resumable_events(self.name, live_job_ids=self._live_jobs)

    @property
    def parent_branch_path(self) -> tuple[tuple[int, int], ...]:
        """Turn and branch of each turn before this one; read from the log at each access."""
        turn = self.turn_index
        if turn is None:
            return ()
        path = self._store.branch_path(self.name, self._view)
        return tuple((earlier, path[earlier]) for earlier in sorted(path) if 0 < earlier < turn)

    @property
    def subagents(self) -> tuple[ResumedSubagent, ...]:
        """The runs of its sub-agents, with their conversations; read at each access."""
        return subagents_of(self._store, self.name)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session that was come back to.

    Nothing in it grows with the history but the conversations: events, branch paths and sub-agents
    are read when they are asked for.

    Attributes:
        meta: What the session says about itself.
        agents: Its agents by name, attached ones last.
        store: The session, open. Whoever resumed a path closes it.
    """

    meta: Mapping[str, object]
    agents: Mapping[str, ResumedAgent]
    store: SessionStore = field(repr=False, compare=False)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What was changed in the messages of all agents."""
        return tuple(repair for agent in self.agents.values() for repair in agent.repairs)

    def into(
        self,
        runtime: object = None,
        *,
        triggers: TriggerRegistry | None = None,
        import_triggers: bool = False,
        build: Build | None = None,
    ) -> Handover:
        """Gives a runtime what its agents had. The runtime takes what it has methods for.

        Agent by agent, in this order: `restore_conversation(agent, messages)`,
        `restore_scratchpad(agent, scratchpad)`, the triggers, `attach_subagent(parent, name, run,
        meta, messages)` for each run, and `on_resume(events)` to repaint. A trigger is made by the
        runtime's `make_trigger(type, module, data)` where it has one, else of a class of the
        registry and then given to `add_trigger(agent, trigger_id, trigger)`.

        A trigger that cannot be made stops nothing: it is among `failures` of what is returned.
        Whatever else the runtime raises is passed on.

        Args:
            runtime: Any object; `amberlog.resuming` has a protocol for each method.
            triggers: The classes that triggers may be made of.
            import_triggers: Whether a class that is not registered may be imported by the name in
                the file. Whoever can write the file then chooses what is run.
            build: Makes the runtime of `config_path` and `config_snapshot`, for what no file keeps.

        Raises:
            ValueError: Neither or both of `runtime` and `build` are given.
        """
        if (runtime is None) == (build is None):
            raise ValueError("either a runtime or a build that makes one must be given")
        if build is not None:
            path, snapshot = self.meta.get("config_path"), self.meta.get("config_snapshot")
            runtime = build(
                path if isinstance(path, str) else "",
                snapshot if isinstance(snapshot, Mapping) else {},
            )
        registry = TriggerRegistry() if triggers is None else triggers
        return hand_over(runtime, list(self.agents.values()), registry, may_import=import_triggers)


def resume(
    path_or_store: str | os.PathLike[str] | SessionStore,
    *,
    agent: str | None = None,
    view: BranchView | None = None,
    live_jobs: Collection[str] = (),
    readonly: bool = False,
) -> Resumed:
    """Comes back to a session and returns what its agents had.

    From the newest snapshot and the events after it where those tell all, else from the whole log;
    each agent's `source` says which. No stored event changes.

    A path leads to the newest version of its session, and from a session that was merged to the
    one it was merged into. It is opened for writing and marked as running and open, or for reading
    where it may not be written; closing the store is left to the caller. A store is used as it is.

    Args:
        path_or_store: The session.
        agent: Only this agent.
        view: The branch to show of some turns, all of which must be there; without it those that
            were shown last. Needs `agent` where there are several.
        live_jobs: Jobs that still run. Their calls stay open, and the whole log is read.
        readonly: Opens a path for reading only, and marks nothing.

    Raises:
        SessionNotFoundError: There is no such session.
        SessionLockedError: Somebody else holds its writer lock.
        SessionDamagedError: A row that is needed does not have the bytes that were written.
        SessionVersionError: A newer version wrote it.
        SessionNotResumableError: It was retired, and its successor cannot be had.
        InvalidBranchViewError: `view` asks for what the log does not have.
        ValueError: There is no such agent, or `view` does not say whose it is.
    """
    jobs = _jobs(live_jobs)
    if isinstance(path_or_store, SessionStore):
        return _resumed(path_or_store, path_or_store.load_meta(), agent, view, jobs)
    store, meta = _opened(path_or_store, readonly=readonly)
    try:
        resumed = _resumed(store, meta, agent, view, jobs)
        if not store.readonly:
            store.mark_resumed()
    except BaseException:
        store.close(update_status=False)
        raise
    return resumed


def _jobs(live_jobs: Collection[str]) -> tuple[str, ...]:
    if isinstance(live_jobs, str):
        raise TypeError("live_jobs must be a collection of ids, not one string")
    return tuple(sorted(live_jobs))


def _opened(
    given: str | os.PathLike[str], *, readonly: bool
) -> tuple[SessionStore, dict[str, object]]:
    path = os.fspath(given)
    if not isinstance(path, str):
        raise TypeError("path must be text, not bytes")
    if path.startswith("~"):
        path = str(Path(path).expanduser())
    store, meta = _looked_at(file_to_open(path), readonly=readonly)
    if meta.get(SUCCESSOR) is None:
        return store, meta
    store.close(update_status=False)
    return _looked_at(str(resolve_successor(path)), readonly=readonly)


def _looked_at(path: str, *, readonly: bool) -> tuple[SessionStore, dict[str, object]]:
    store = _open(path, readonly=readonly)
    try:
        return store, store.load_meta()
    except BaseException:
        store.close(update_status=False)
        raise


def _open(path: str, *, readonly: bool) -> SessionStore:
    if not is_file(path):
        raise SessionNotFoundError(f"there is no session at `{path}`", path=str(path))
    if readonly:
        return SessionStore.open_readonly(path)
    source = migration_source(path)
    if source == path or not is_old(source):
        store = _open_present(path)
        if store is not None:
            return store
        source = path
    try:
        return _open_present(str(migrate(source))) or SessionStore.open_readonly(path)
    except SessionWriteError as error:
        if error.errno not in _UNWRITABLE:
            raise
        return SessionStore.open_readonly(path)


def _open_present(path: str) -> SessionStore | None:
    """Opens a session of the present format, for reading where it may not be written.

    Returns None for an older one, which is left as it is.
    """
    try:
        return SessionStore(path, present_only=True)
    except SessionVersionError as error:
        if error.found is None or error.found >= FORMAT_VERSION:
            raise
        return None
    except SessionReadOnlyError:
        pass
    except SessionWriteError as error:
        if error.errno not in _UNWRITABLE:
            raise
    return None if is_old(path) else SessionStore.open_readonly(path)


def _resumed(
    store: SessionStore,
    meta: dict[str, object],
    agent: str | None,
    view: BranchView | None,
    jobs: tuple[str, ...],
) -> Resumed:
    names = _names(store, meta, agent)
    if view is not None and agent is None:
        main = [name for name in names if ATTACHED not in name]
        if len(main) > 1:
            raise ValueError(f"whose view is it? agent must be one of {', '.join(main)}")
        names = main
    agents = {name: _agent(store, name, view, jobs) for name in names}
    return Resumed(MappingProxyType(meta), MappingProxyType(agents), store)


def _names(store: SessionStore, meta: Mapping[str, object], agent: str | None) -> Sequence[str]:
    listed = meta.get("agents")
    found = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    found += [name for name in store.namespaces() if ATTACHED in name and name not in found]
    if agent is None:
        return found
    if agent not in found and store.load_conversation(agent) is None:
        raise ValueError(f"the session has no agent {agent!r}, only {', '.join(found) or 'none'}")
    return [agent]


def _agent(
    store: SessionStore, name: str, view: BranchView | None, jobs: tuple[str, ...]
) -> ResumedAgent:
    found = store.restore_conversation(name, view, jobs)
    state = store.agent_state(name)
    scratchpad = state.pop("scratchpad", None)
    turn, branch = found.position or (None, None)
    return ResumedAgent(
        name=name,
        source=found.source,
        conversation=found.messages,
        scratchpad=MappingProxyType(_visible(scratchpad)),
        state=MappingProxyType(state),
        triggers=triggers_of(state.get("triggers"), found.triggers),
        turn_index=turn,
        branch_id=branch,
        watermark=found.watermark,
        context_cutoff_event_id=found.context_cutoff_event_id,
        events_read=found.events_read,
        repairs=tuple(Repair(name, kind, call) for kind, call in found.repairs),
        _store=store,
        _view=view,
        _live_jobs=jobs,
    )


def _visible(scratchpad: object) -> dict[str, object]:
    fields = scratchpad if isinstance(scratchpad, dict) else {}
    return {
        name: value
        for name, value in fields.items()
        if name == _LEGACY_OPTIONS or not (name.startswith("__") and name.endswith("__"))
    }


__all__ = [
    "AgentParts",
    "Build",
    "Handover",
    "MakesTriggers",
    "Repaints",
    "Repair",
    "RepairKind",
    "RestoredTrigger",
    "ResumableTrigger",
    "Resumed",
    "ResumedAgent",
    "ResumedSubagent",
    "Source",
    "TakesConversation",
    "TakesScratchpad",
    "TakesSubagents",
    "TakesTriggers",
    "TriggerFailure",
    "TriggerRegistry",
    "TriggerState",
    "resume",
]

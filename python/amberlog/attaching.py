"""A session with the agent that runs it, and the agents that are attached to that one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from uuid import uuid4

from amberlog._versions import path_for_version
from amberlog.errors import AlreadyAttachedError, NotAttachedError
from amberlog.session import FORMAT_VERSION, SessionStore
from amberlog.session_output import SessionOutput
from amberlog.types import Attachment

if TYPE_CHECKING:
    from typing_extensions import Self

    from amberlog._lineage import Mutation

# The peer's agents detach themselves by what they find under this name.
_STATE = "_wave_f_attach_state"
_HOST = "host"
_LONGEST_NAME = 100
_UNFIT = re.compile(r"[^\w.,+=@ -]")


class NamedConfig(Protocol):
    """What a configuration says of its agent."""

    @property
    def name(self) -> str:
        """What the agent is called."""


class AttachableAgent(Protocol):
    """What an agent must have to be attached: a name.

    One with an `OutputRouter` as its `output_router` gets an output that records what it does.
    """

    @property
    def config(self) -> NamedConfig:
        """Its configuration."""


@runtime_checkable
class OutputRouter(Protocol):
    """What passes an agent's output on to more than one place."""

    def add_secondary(self, output: object, /) -> None:
        """Passes a copy of everything to one more place."""

    def remove_secondary(self, output: object, /) -> None:
        """Stops doing so."""


@runtime_checkable
class BufferedOutput(Protocol):
    """An output that may hold text back."""

    def flush_sync(self) -> None:
        """Records what it holds back."""


OutputFactory = Callable[[str, SessionStore, AttachableAgent, str], object]
"""What makes the output of an attached agent: called with the agent's name, the store, the agent
and the namespace to record under."""


class Session:
    """A session, the agent that runs it, and what is done with both.

    Args:
        store: The session. It is not closed by this one.
        agent: The agent that runs it, where there is one.
        name: What to call it; the session's id when left out.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        agent: AttachableAgent | None = None,
        name: str | None = None,
    ) -> None:
        self._store = store
        self._agent = agent
        self._name = name or store.session_id
        self._forking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Session({self.name!r}, {self.path!r})"

    @property
    def store(self) -> SessionStore:
        """The session; it is not closed by this one."""
        return self._store

    @property
    def agent(self) -> AttachableAgent | None:
        """The agent that runs it, where there is one."""
        return self._agent

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def path(self) -> str:
        """The path of the session's file."""
        return self.store.path

    def attach_agent(
        self, agent: AttachableAgent, role: str, *, output: OutputFactory | None = None
    ) -> Attachment:
        """Attaches another agent to this session, as `attach_agent_to_session` does."""
        return attach_agent_to_session(agent, self, role, output=output)

    def detach_agent(self, agent: AttachableAgent) -> None:
        """Detaches an agent from this session, as `detach_agent_from_session` does.

        Raises:
            NotAttachedError: It is not attached, or to another session.
        """
        state = get_attach_state(agent)
        if state is None or state.get("session") is not self:
            raise _not_attached(agent, self.path)
        detach_agent_from_session(agent)

    async def fork(
        self, at_event_id: int, mutate: Mutation | None = None, name: str | None = None
    ) -> Self:
        """Forks the session at an event into `<stem>-<name>.kohakutr.v2` beside it.

        The work is done on a thread, one fork after the other. Jobs that the agent's `executor`
        lists as pending are kept from being cut through.

        Args:
            at_event_id: The last event that is kept.
            mutate: As for `SessionStore.fork`.
            name: What to call the child; this one's name and a random ending when left out.

        Raises:
            ValueError: The name is not fit for a file's name.
            What `SessionStore.fork` raises.
        """
        child = name or f"{self.name}-fork-{uuid4().hex[:8]}"
        target = fork_path(self.path, name or _fit(child))
        async with self._forking:
            store = await asyncio.to_thread(
                self.store.fork,
                target,
                at_event_id=at_event_id,
                mutate=mutate,
                name=child,
                pending_job_ids=_pending_jobs(self.agent),
            )
        return type(self)(store, name=child)

    def host(self) -> str:
        """Returns the namespace of the agent that others are attached to.

        That is the name of this session's agent, else the first of the agents that it names.
        """
        name = getattr(getattr(self.agent, "config", None), "name", None)
        if isinstance(name, str) and name:
            return name
        agents = self.store.load_meta().get("agents")
        first = agents[0] if isinstance(agents, list) and agents else None
        return first if isinstance(first, str) and first else _HOST


def fork_path(path: str | Path, name: str) -> Path:
    """Returns where a fork of a session lies that is called so.

    Raises:
        ValueError: The name is not fit for a file's name.
    """
    if not name or name != _fit(name):
        raise ValueError(f"name must be fit for the name of a file, not {name!r}")
    parent = Path(path)
    stem, mark, _ = parent.name.partition(".kohakutr")
    stem = stem if mark else parent.stem
    return path_for_version(parent.with_name(f"{stem}-{name}.kohakutr"), FORMAT_VERSION)


def attach_agent_to_session(
    agent: AttachableAgent,
    session: Session,
    role: str,
    *,
    attached_by: str | None = None,
    output: OutputFactory | None = None,
) -> Attachment:
    """Attaches an agent to a session, and returns where its events belong.

    It gets the next number of its role, and a lineage event in the log of the host, in one
    transaction. Attaching it to the same session again changes nothing.

    Args:
        agent: The agent. It is remembered on it to which session it is attached.
        session: The session.
        role: What it is there for.
        attached_by: Who attached it; the agent itself when left out.
        output: Makes what records its events, a `SessionOutput` when left out; it is added to the
            agent's `output_router`. Of an agent without one the caller records what it does, under
            the attachment's `namespace`, unless an output is given.

    Raises:
        AlreadyAttachedError: It is attached to another session.
    """
    known = get_attach_state(agent)
    if known is not None:
        if known.get("session") is session:
            return _attachment(agent, known)
        raise AlreadyAttachedError(
            f"the agent `{agent.config.name}` is attached to another session", path=session.path
        )
    store, name = session.store, agent.config.name
    attachment = store.attach_agent(session.host(), role, name, attached_by=attached_by)
    try:
        router = getattr(agent, "output_router", None)
        if output is None and isinstance(router, OutputRouter):
            output = _recording
        sink = None if output is None else output(name, store, agent, attachment.namespace)
        if sink is not None and isinstance(router, OutputRouter):
            router.add_secondary(sink)
        state = {
            "session": session,
            "store": store,
            "host": attachment.host,
            "role": role,
            "attach_seq": attachment.attach_seq,
            "prefix": attachment.namespace,
            "output": sink,
        }
        setattr(agent, _STATE, state)
    except BaseException:
        store.detach_agent(attachment)
        raise
    return attachment


def _recording(
    name: str, store: SessionStore, agent: AttachableAgent, namespace: str
) -> SessionOutput:
    return SessionOutput(name, store, agent, event_key_prefix=namespace)


def detach_agent_from_session(agent: AttachableAgent) -> None:
    """Detaches an agent from its session: its output is taken away, and its host's log says so.

    Everything that it did is on disk by then. It may be attached again.

    Raises:
        NotAttachedError: It is not attached to any.
    """
    state = get_attach_state(agent)
    store = None if state is None else state.get("store")
    if state is None or not isinstance(store, SessionStore):
        raise _not_attached(agent, None)
    output, router = state.get("output"), getattr(agent, "output_router", None)
    if output is not None and isinstance(router, OutputRouter):
        router.remove_secondary(output)
    if isinstance(output, BufferedOutput):
        output.flush_sync()
    store.detach_agent(_attachment(agent, state))
    store.flush()
    delattr(agent, _STATE)


def get_attach_state(agent: AttachableAgent) -> dict[str, object] | None:
    """Returns what is remembered of an agent's attachment; None when it is not attached.

    `session`, `store`, `host`, `role`, `attach_seq`, `prefix` (its namespace) and `output`.
    """
    state: object = getattr(agent, _STATE, None)
    return dict(state) if isinstance(state, dict) else None


def _attachment(agent: AttachableAgent, state: dict[str, object]) -> Attachment:
    number = state.get("attach_seq")
    return Attachment(
        str(state.get("host")),
        str(state.get("role")),
        number if isinstance(number, int) else 0,
        agent.config.name,
    )


def _not_attached(agent: AttachableAgent, path: str | None) -> NotAttachedError:
    return NotAttachedError(f"the agent `{agent.config.name}` is not attached", path=path)


def _pending_jobs(agent: object) -> set[str]:
    listing = getattr(getattr(agent, "executor", None), "list_pending_jobs", None)
    jobs: object = listing() if callable(listing) else ()
    return {_job_id(job) for job in jobs} - {""} if isinstance(jobs, Iterable) else set()


def _job_id(job: object) -> str:
    for name in ("call_id", "job_id"):
        found = job.get(name) if isinstance(job, dict) else getattr(job, name, None)
        if found:
            return str(found)
    return ""


def _fit(name: str) -> str:
    fit = _UNFIT.sub("-", name).strip()[:_LONGEST_NAME]
    return f"-{fit[1:]}" if fit.startswith(".") else fit


__all__ = [
    "AttachableAgent",
    "BufferedOutput",
    "OutputFactory",
    "OutputRouter",
    "Session",
    "attach_agent_to_session",
    "detach_agent_from_session",
    "fork_path",
    "get_attach_state",
]

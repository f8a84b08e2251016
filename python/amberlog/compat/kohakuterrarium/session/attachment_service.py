"""Agents that are attached to the session of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog import attaching
from amberlog.attaching import detach_agent_from_session, get_attach_state
from amberlog.compat.kohakuterrarium.session.output import SessionOutput

if TYPE_CHECKING:
    from amberlog.attaching import AttachableAgent, OutputFactory, Session
    from amberlog.session import SessionStore
    from amberlog.types import Attachment


def attach_agent_to_session(
    agent: AttachableAgent,
    session: Session,
    role: str,
    *,
    attached_by: str | None = None,
    output: OutputFactory | None = None,
) -> Attachment:
    """Attaches an agent to a session, as `amberlog.attaching.attach_agent_to_session` does.

    Whether the agent passes its output on or not, a recorder under the peer's contract is made for
    it: the state of the attachment has it as `output`.

    Raises:
        AlreadyAttachedError: It is attached to another session.
    """
    make = recorder if output is None else output
    return attaching.attach_agent_to_session(
        agent, session, role, attached_by=attached_by, output=make
    )


def recorder(
    name: str, store: SessionStore, agent: AttachableAgent, namespace: str
) -> SessionOutput:
    """Returns what records an attached agent."""
    return SessionOutput(name, store, agent, event_key_prefix=namespace)


__all__ = ["attach_agent_to_session", "detach_agent_from_session", "get_attach_state"]

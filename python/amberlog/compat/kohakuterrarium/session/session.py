"""A session with the agent that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import amberlog.attaching
from amberlog.compat.kohakuterrarium.session.attachment_service import recorder

if TYPE_CHECKING:
    from amberlog.attaching import AttachableAgent, OutputFactory
    from amberlog.types import Attachment


class Session(amberlog.attaching.Session):
    """`amberlog.attaching.Session` whose attached agents are recorded under the peer's contract."""

    def attach_agent(
        self, agent: AttachableAgent, role: str, *, output: OutputFactory | None = None
    ) -> Attachment:
        """Attaches another agent to this session, as `attach_agent_to_session` does."""
        return super().attach_agent(agent, role, output=recorder if output is None else output)


__all__ = ["Session"]

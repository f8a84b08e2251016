"""The older name of the module of attachments."""

from amberlog.compat.kohakuterrarium.session.attachment_service import (
    attach_agent_to_session,
    detach_agent_from_session,
    get_attach_state,
)

__all__ = ["attach_agent_to_session", "detach_agent_from_session", "get_attach_state"]

"""Which project the process works in."""

from amberlog.chat.workspace import workspace_id

__all__ = ["workspace_id"]

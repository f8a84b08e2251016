"""Which project the process works in."""

from amberlog.chat.workspace import _first_commit as _git_root_commit
from amberlog.chat.workspace import _resolve, workspace_id

__all__ = ["workspace_id"]

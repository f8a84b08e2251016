"""The errors of sessions that amberlog raises."""

from amberlog.errors import AlreadyAttachedError, ForkNotStableError, NotAttachedError

__all__ = ["AlreadyAttachedError", "ForkNotStableError", "NotAttachedError"]

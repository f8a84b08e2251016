"""The errors of sessions that amberlog raises."""

from amberlog.errors import ForkNotStableError

__all__ = ["ForkNotStableError"]

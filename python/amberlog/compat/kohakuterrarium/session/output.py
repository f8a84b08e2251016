"""The recorder that a runtime plugs in as its output module."""

from amberlog.session_output import SessionOutput

__all__ = ["SessionOutput"]

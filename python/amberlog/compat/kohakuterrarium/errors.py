"""The locked session, as both amberlog and KohakuTerrarium know it."""

from __future__ import annotations

import importlib
import importlib.util

from amberlog import errors


def _joint() -> type[errors.SessionLockedError]:
    """Returns an error that is caught as ours and as the peer's, where the peer has one."""
    ours = errors.SessionLockedError
    is_installed = importlib.util.find_spec("kohakuterrarium") is not None
    # The first versions of the peer have no errors of their own.
    if not is_installed or importlib.util.find_spec("kohakuterrarium.errors") is None:
        return ours
    theirs = importlib.import_module("kohakuterrarium.errors").SessionLockedError
    return type(ours.__name__, (ours, theirs), {"__module__": __name__, "__doc__": ours.__doc__})


SessionLockedError = _joint()

__all__ = ["SessionLockedError"]

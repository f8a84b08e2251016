"""The session store, as KohakuTerrarium's package of sessions offers it."""

from amberlog.compat.kohakuterrarium.session.store import SessionStore

__all__ = ["SessionStore"]

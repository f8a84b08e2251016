"""Where the peer keeps its sessions."""

from __future__ import annotations

import importlib

from amberlog.compat.praisonai._peer import peer
from amberlog.config import chat_session_dir


def default_session_dir() -> str:
    """Returns the directory of sessions, looked up anew each time.

    What was assigned to `DEFAULT_SESSION_DIR` of the module `store` comes first, then what the
    peer itself says, then `amberlog.config.chat_session_dir()`.
    """
    store = importlib.import_module("amberlog.compat.praisonai.store")
    assigned = vars(store).get("DEFAULT_SESSION_DIR")
    if assigned:
        return str(assigned)
    paths = peer("paths")
    return str(chat_session_dir() if paths is None else paths.get_sessions_dir())


__all__ = ["default_session_dir"]

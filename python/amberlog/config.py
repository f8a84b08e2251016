"""Where sessions live: the only module that reads the environment."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """Returns the directory of configuration, without creating it.

    `AMBERLOG_CONFIG_DIR` comes first, then `KT_CONFIG_DIR`, then `~/.kohakuterrarium`.
    """
    return _first_set("AMBERLOG_CONFIG_DIR", "KT_CONFIG_DIR") or Path.home() / ".kohakuterrarium"


def session_dir() -> Path:
    """Returns the directory that session names are looked up in, without creating it.

    `AMBERLOG_SESSION_DIR` comes first, then `KT_SESSION_DIR`, then `sessions` in `config_dir()`.
    """
    return _first_set("AMBERLOG_SESSION_DIR", "KT_SESSION_DIR") or config_dir() / "sessions"


def server_token() -> str | None:
    """Returns the bearer token of `amberlog serve`: `AMBERLOG_TOKEN`; None when it is not set."""
    return os.environ.get("AMBERLOG_TOKEN") or None


def _first_set(*names: str) -> Path | None:
    for name in names:
        # An empty variable is how shells unset one for a single command.
        if value := os.environ.get(name):
            return Path(value).expanduser()
    return None


__all__ = ["config_dir", "server_token", "session_dir"]

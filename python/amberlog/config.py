"""Where sessions live: the only module that reads the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

ChatIndex = Literal["fts5", "like", "off"]
_CHAT_INDEXES: tuple[ChatIndex, ...] = ("fts5", "like", "off")


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


def has_tail() -> bool:
    """Returns whether appends go to a tail first: `AMBERLOG_TAIL` is 1; False if not set."""
    return os.environ.get("AMBERLOG_TAIL") == "1"


def api_key(name: str) -> str | None:
    """Returns the key of a service, from the variable of that name; None when it is not set."""
    return os.environ.get(name) or None


def chat_session_dir() -> Path:
    """Returns the directory of chat sessions, without creating it; looked up anew each time.

    `AMBERLOG_CHAT_DIR` comes first, then `sessions` in `PRAISONAI_HOME`, then the first of
    `~/.praisonai/sessions` and `~/.praison` (older) that exists, then `praisonai/sessions` in
    `XDG_DATA_HOME`, then `~/.praisonai/sessions`.
    """
    if chosen := _first_set("AMBERLOG_CHAT_DIR"):
        return chosen
    if home := _first_set("PRAISONAI_HOME"):
        return home / "sessions"
    own, older = Path.home() / ".praisonai", Path.home() / ".praison"
    if own.is_dir():
        return own / "sessions"
    if older.is_dir():
        return older / "sessions"
    shared = os.environ.get("XDG_DATA_HOME", "")
    return (Path(shared) / "praisonai" if Path(shared).is_absolute() else own) / "sessions"


def chat_spill_dir() -> Path:
    """Returns the directory of messages that chat stores could not write, without creating it.

    It is `state/session_spill` in the first of `PRAISONAI_HOME`, `~/.praisonai` and `~/.praison`
    that there is, `praisonai` in `XDG_STATE_HOME`, and `~/.local/state/praisonai`.
    """
    return _praison_state_home() / "state" / "session_spill"


def chat_retention() -> str | None:
    """Returns the retention of the default store under the peer's name, where one is set."""
    return os.environ.get("PRAISONAI_SESSION_RETENTION") or None


def chat_active_window() -> str | None:
    """Returns the window of the default store under the peer's name as it is set, where it is."""
    return os.environ.get("PRAISONAI_SESSION_ACTIVE_WINDOW") or None


def _praison_state_home() -> Path:
    if home := _first_set("PRAISONAI_HOME"):
        return home
    for kept in (Path.home() / ".praisonai", Path.home() / ".praison"):
        if kept.is_dir():
            return kept
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "praisonai"


def chat_index() -> ChatIndex:
    """Returns how the index of a `SqliteSessionStore` is kept: `AMBERLOG_CHAT_INDEX`.

    `fts5`, the default, keeps the peer's text table as one of full text; `like` as a plain one, as
    where SQLite has no FTS5; `off` keeps no index, as where there is no SQLite: all is read from
    the files.

    Raises:
        ValueError: It is set to something else.
    """
    chosen = os.environ.get("AMBERLOG_CHAT_INDEX") or "fts5"
    for known in _CHAT_INDEXES:
        if chosen == known:
            return known
    raise ValueError(f"AMBERLOG_CHAT_INDEX must be one of {_CHAT_INDEXES}, not {chosen!r}")


def identity_path() -> Path:
    """Returns the file of identity links, without creating it; looked up anew each time.

    `PRAISONAI_IDENTITY_PATH` comes first, then `~/.praisonai/identity.json`.
    """
    return _first_set("PRAISONAI_IDENTITY_PATH") or Path.home() / ".praisonai" / "identity.json"


def _first_set(*names: str) -> Path | None:
    for name in names:
        # An empty variable is how shells unset one for a single command.
        if value := os.environ.get(name):
            return Path(value).expanduser()
    return None


__all__ = [
    "ChatIndex",
    "api_key",
    "chat_active_window",
    "chat_index",
    "chat_retention",
    "chat_session_dir",
    "chat_spill_dir",
    "config_dir",
    "identity_path",
    "server_token",
    "session_dir",
]

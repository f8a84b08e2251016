"""Which project the process works in, in steps that others may replace."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from amberlog.chat.workspace import first_commit


def workspace_id() -> str:
    """Returns what tells the project apart from others, as `amberlog.chat.workspace_id` does."""
    try:
        directory = Path.cwd().resolve()
    except OSError:
        return "global"
    return _resolve(str(directory))


@cache
def _resolve(cwd: str) -> str:
    first = _git_root_commit(cwd)
    return f"git:{first}" if first else f"dir:{cwd}"


def _git_root_commit(cwd: str) -> str | None:
    return first_commit(cwd)


__all__ = ["workspace_id"]

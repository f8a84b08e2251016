"""Which project the process works in, for sessions that belong to one."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

_GIT_TIMEOUT_S = 2.0


def workspace_id() -> str:
    """Returns what tells the project apart from others.

    In a Git repository that is `git:` and its first commit, the same in every clone; elsewhere
    `dir:` and the working directory; `global` where that is gone. Git is asked once for each
    directory, and for two seconds at most.
    """
    try:
        directory = Path.cwd().resolve()
    except OSError:
        return "global"
    return _resolve(str(directory))


@cache
def _resolve(directory: str) -> str:
    first = _first_commit(directory)
    return f"git:{first}" if first else f"dir:{directory}"


def _first_commit(directory: str) -> str | None:
    command = ["git", "rev-list", "--max-parents=0", "HEAD"]
    try:
        done = subprocess.run(  # noqa: S603  # nothing of it comes from outside
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commits = done.stdout.split()
    # Histories that were joined have several; Git gives the oldest last.
    return commits[-1] if done.returncode == 0 and commits else None


__all__ = ["workspace_id"]

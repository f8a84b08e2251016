"""The file that a name means in a session directory."""

from __future__ import annotations

import os
from pathlib import Path

from amberlog._core import session_files
from amberlog._versions import session_in_name


def named_session(directory: str | os.PathLike[str], name: str) -> Path:
    """Returns the file that the exact name of a session, or of one file, means.

    Names are compared with what the directory lists, never opened as paths. Of several versions of
    a session the highest stands for all.

    Raises:
        SessionNotFoundError: There is no session of exactly that name.
        ValueError: The name could not be that of a session.
    """
    files = [Path(file) for file in session_files(os.fsdecode(directory), name)]
    return max(files, key=lambda file: (session_in_name(file.name) or ("", 0))[1])


__all__ = ["named_session"]

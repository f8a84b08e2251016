"""The version of a session's file."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amberlog.compat.kohakuterrarium.session.readonly import read_session_meta
from amberlog.errors import SessionError, SessionNotFoundError
from amberlog.session import FORMAT_VERSION

if TYPE_CHECKING:
    import os

logger = logging.getLogger("amberlog")

# A session that does not state its version is of the first.
_UNSTATED_VERSION = 1


def detect_format_version(path: str | os.PathLike[str]) -> int:
    """Returns the version that a session states, and 1 for one that states none.

    By the peer's contract a file that cannot be read is of version 1 too; the reason is logged to
    the logger `amberlog`.

    Raises:
        SessionNotFoundError: There is no such file.
    """
    try:
        stated = read_session_meta(path).get("format_version", _UNSTATED_VERSION)
    except SessionNotFoundError:
        raise
    except SessionError:
        logger.warning("cannot read the version of %s", path, exc_info=True)
        return _UNSTATED_VERSION
    return stated if isinstance(stated, int) else _UNSTATED_VERSION


__all__ = ["FORMAT_VERSION", "detect_format_version"]

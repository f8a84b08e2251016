"""Reading what a session says about itself, without opening it for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os


def read_session_meta(path: str | os.PathLike[str]) -> dict[str, object]:
    """Returns the meta of a session as it is stored; nothing is written beside the file.

    A session that is open in this process is read too, and keeps its locks.

    Raises:
        SessionNotFoundError: There is no such file.
        SessionDamagedError: The file is not a session, or no longer one.
    """
    with SessionStore.open_readonly(path) as store:
        return {key.decode(): value for key, value in store.meta.records()}


__all__ = ["read_session_meta"]

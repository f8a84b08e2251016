"""Running the application: on this machine alone, unless told otherwise and given a token."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import uvicorn

from amberlog.server.app import create_app

if TYPE_CHECKING:
    import os


def serve(
    directory: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
) -> None:
    """Serves a session directory until it is interrupted.

    Raises:
        ValueError: The host can be reached from elsewhere, and there is no token.
    """
    if token is None and not _is_loopback(host):
        raise ValueError(f"host: a token is needed to serve on {host!r}, not only on this machine")
    uvicorn.run(create_app(directory, token=token), host=host, port=port, log_level="warning")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = ["serve"]

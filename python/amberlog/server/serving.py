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
    watch: bool = False,
) -> None:
    """Serves a session directory until it is interrupted.

    Args:
        directory: The session directory.
        host: Where to listen.
        port: On which port.
        token: The bearer token that every request must carry.
        watch: Whether the listing follows the directory, without being asked to `refresh`.

    Raises:
        MissingExtraError: The extra `amberlog[watch]` is not installed, and `watch` is wanted.
        ValueError: The host can be reached from elsewhere, and there is no token.
    """
    if token is None and not _is_loopback(host):
        raise ValueError(f"host: a token is needed to serve on {host!r}, not only on this machine")
    app = create_app(directory, token=token, watch=watch)
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = ["serve"]

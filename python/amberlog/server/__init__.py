"""Sessions over HTTP: listed, counted and deleted. Needs the extra `amberlog[server]`."""

from amberlog.server.app import create_app
from amberlog.server.serving import serve

__all__ = ["create_app", "serve"]

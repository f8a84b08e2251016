"""The command line: `amberlog show`, `events`, `search`, `verify`, `backup`, `demo`."""

from amberlog.cli.commands import main

__all__ = ["main"]

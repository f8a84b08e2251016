"""The command line: `amberlog show`, `events`, `search`, `verify`, `list`, `delete` and others."""

from amberlog.cli.commands import main

__all__ = ["main"]

"""The command line: `amberlog show`, `events`, `search`, `verify`, `backup`, `list`, `delete`, …"""

from amberlog.cli.commands import main

__all__ = ["main"]

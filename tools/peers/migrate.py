"""Migrates sessions by the peer's own migrator; run as a program.

    python tools/peers/migrate.py SOURCE TARGET [SOURCE TARGET …]

It runs in a process of its own, since the peer brings another copy of SQLite. Prints one line of
JSON for each pair: null, or the name of the error that was raised.
"""

from __future__ import annotations

import json
import sys

from kohakuterrarium.session.migrations import v1_to_v2


def main(*paths: str) -> None:
    """Migrates each source to the target behind it."""
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        try:
            v1_to_v2.migrate(source, target)
        except ValueError as error:
            print(json.dumps(type(error).__name__))
        else:
            print(json.dumps(None))


if __name__ == "__main__":
    main(*sys.argv[1:])

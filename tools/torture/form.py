"""How much is done: a sample of each test in every run, all of it when asked."""

from __future__ import annotations

import os

LONG = os.environ.get("AMBERLOG_HARNESS", "short") == "long"
"""Whether `AMBERLOG_HARNESS` asks for the long form."""


def sized(*, short: int, long: int) -> int:
    """Returns the size of the form that was asked for."""
    return long if LONG else short

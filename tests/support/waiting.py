"""Waiting until something is so, however slow the machine is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60.0


def comes_true(condition: Callable[[], bool]) -> bool:
    """Waits until something is so, or for as long as a test may take."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > ends:
            return False
        # The thread that is waited for needs the processor too.
        time.sleep(0.01)
    return True

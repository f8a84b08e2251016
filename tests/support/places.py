"""Directories that tests need elsewhere than pytest makes them."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def place_for_all() -> Iterator[Path]:
    """Makes a directory that other users may enter; pytest closes its own to them at each start."""
    with tempfile.TemporaryDirectory(prefix="amberlog-") as made:
        Path(made).chmod(0o755)
        yield Path(made)

"""What many tests are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns where a session may be made."""
    return tmp_path / "session.kohakutr"


@pytest.fixture
def store(path: Path) -> Iterator[SessionStore]:
    """Yields an empty session and closes it."""
    with SessionStore(path) as opened:
        yield opened

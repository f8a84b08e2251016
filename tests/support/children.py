"""Other processes that tests start: programs of ours, and Python given as text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
TIMEOUT_S = 120


def environment() -> dict[str, str]:
    """Returns the environment in which a child finds what this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}


def run_module(module: str, *arguments: str | Path) -> str:
    """Runs a module of the tests in a process of its own and returns what it prints."""
    return _run(["-m", module, *map(str, arguments)])


def run_code(code: str, *arguments: str | Path) -> str:
    """Runs Python code in a process of its own and returns what it prints."""
    return _run(["-c", code, *map(str, arguments)])


def _run(arguments: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

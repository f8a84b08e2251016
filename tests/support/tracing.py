"""What a program asks of the system, as `strace` sees it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.children import TIMEOUT_S, environment

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def system_calls(code: str, *arguments: str | Path, trace: str) -> list[str]:
    """Runs Python code and returns its calls in order, and the lines that it prints among them.

    Args:
        code: The program; it flushes what it prints.
        *arguments: Its arguments.
        trace: The calls to look for, separated by commas.
    """
    with TemporaryDirectory() as place:
        log = Path(place) / "calls"
        traced = ["strace", "-f", "-y", "-e", f"trace=write,{trace}", "-o", str(log)]
        done = subprocess.run(
            [*traced, sys.executable, "-c", code, *map(str, arguments)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in map(_call, lines) if line]


def _call(line: str) -> str:
    call = re.sub(r"^\d+ +", "", line)
    printed = re.match(r'write\(1<[^>]*>, "(.*?)(?:\\n)?", \d+\)', call)
    return printed[1] if printed else call


__all__ = ["needs_strace", "system_calls"]

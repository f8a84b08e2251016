"""Places that are awkward to write to, and processes that must end in time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NOBODY = 65534
PATIENCE_S = 60.0


def run(
    script: str, *arguments: object, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, which must end in time."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment() | dict(variables or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def shell(*arguments: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the command line of the package in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "amberlog", *map(str, arguments)],
        env=environment() | variables,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


def environment() -> dict[str, str]:
    """Returns an environment in which a child finds what this process has found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def listing(directory: Path) -> dict[str, bytes]:
    """Returns the files of a directory with their bytes."""
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir()) if file.is_file()}


@contextmanager
def mounted(kind: str, *arguments: str) -> Iterator[Path | None]:
    """Yields a directory with something mounted on it; None where one may not mount."""
    with tempfile.TemporaryDirectory(prefix="amberlog-mount-") as directory:
        command = ["mount", *(["-t", kind] if kind != "bind" else ["--bind"]), *arguments]
        if os.geteuid() != 0 or subprocess.run([*command, directory], check=False).returncode:
            yield None
            return
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", directory], check=True)  # noqa: S607  # wherever it is


@contextmanager
def open_to_all() -> Iterator[Path]:
    """Yields a directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="amberlog-open-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path

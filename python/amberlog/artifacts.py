"""The bytes that are kept beside a session."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePath, PureWindowsPath


def artifacts_dir_for(session: Path) -> Path:
    """Returns the directory of a session's artifacts, without creating it."""
    return session.parent / f"{session.stem}.artifacts"


def resolve(artifacts: Path, name: str) -> Path:
    """Returns where an artifact of that name lies.

    Args:
        artifacts: The directory of the session's artifacts.
        name: A relative path in it.

    Raises:
        ValueError: The name is empty, absolute or climbs with `..`, or a link on the way leads
            out of the directory.
    """
    if not name or "\0" in name:
        raise ValueError(f"name must be the name of an artifact, not {name!r}")
    # A name that is harmless here is still refused when it would climb on Windows, where the
    # session may be opened next.
    for flavour in (PurePath(name), PureWindowsPath(name)):
        if flavour.is_absolute() or flavour.drive or flavour.root or ".." in flavour.parts:
            raise ValueError(f"name must stay inside the artifacts of its session: {name!r}")
    target = artifacts / name
    root = artifacts.resolve()
    resolved = target.resolve()
    if resolved == root or not resolved.is_relative_to(root):
        raise ValueError(f"name must stay inside the artifacts of its session: {name!r}")
    return target


def write(artifacts: Path, name: str, content: bytes) -> Path:
    """Writes an artifact whole: a reader, or a crash, finds the old bytes or the new ones.

    Returns its path; the bytes are on disk by then. Names are those of `resolve`.
    """
    target = resolve(artifacts, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target

"""The files of one session: the bare one, and those of a format version in their name."""

from __future__ import annotations

import os
import re
from pathlib import Path

from amberlog.errors import SessionDamagedError, SessionVersionError
from amberlog.session import FORMAT_VERSION, SessionStore

# A session that does not state its version is of the first.
UNSTATED_VERSION = 1

_SUFFIX = re.compile(r"\.v([0-9]+)$")
_SESSION = re.compile(r"(?P<name>.+)\.(?:kohakutr(?:\.v(?P<version>[0-9]+))?|kt)", re.DOTALL)


def bare_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a session without the version in its name."""
    given = Path(path)
    return given.with_name(_SUFFIX.sub("", given.name) or given.name)


def version_in_name(path: str | os.PathLike[str]) -> int | None:
    """Returns the version that a file's name states; None when it states none."""
    match = _SUFFIX.search(Path(path).name)
    return int(match[1]) if match else None


def session_in_name(name: str) -> tuple[str, int] | None:
    """Returns which session a file is of and in which version, by the file's name.

    The version is 1 where the name states none, and 0 for a name of before there were versions
    (`x.kt`), which stands behind all others. None for a file that is no session's.
    """
    match = _SESSION.fullmatch(name)
    if match is None:
        return None
    if name.endswith(".kt"):
        return match["name"], 0
    return match["name"], int(match["version"] or UNSTATED_VERSION)


def path_for_version(path: str | os.PathLike[str], version: int) -> Path:
    """Returns where a session of that version lies: `x.kohakutr`, `x.kohakutr.v2`, and so on."""
    bare = bare_path(path)
    return bare if version <= UNSTATED_VERSION else bare.with_name(f"{bare.name}.v{version}")


def detect_format_version(path: str | os.PathLike[str]) -> int:
    """Returns the version that a session states in its meta; 1 when it states none.

    Nothing is changed, and the cost does not depend on the size of the file.

    Raises:
        SessionNotFoundError: There is no such file.
        SessionDamagedError: The file is not a session, or no longer one.
    """
    try:
        with SessionStore.open_readonly(path) as store:
            stated = store.meta.get("format_version")
    except SessionVersionError as error:
        # Files of ours have a second version, of their private tables, that may be the newer one.
        return max(error.found or 0, FORMAT_VERSION + 1)
    return stated if isinstance(stated, int) and stated >= 1 else UNSTATED_VERSION


def discover_versions(path: str | os.PathLike[str]) -> list[tuple[int, Path]]:
    """Returns version and path of the files of a session, the highest version first.

    The version of the bare file is the one in its meta, that of the others the one in their name;
    of two of one version the one that has it in its name counts. A bare file that cannot be read
    is listed last, as version 0.
    """
    bare = bare_path(path)
    found = _named(bare)
    if bare.is_file():
        try:
            found.setdefault(detect_format_version(bare), bare)
        except SessionDamagedError:
            found.setdefault(0, bare)
    return sorted(found.items(), reverse=True)


def latest_readable_version(path: str | os.PathLike[str]) -> Path:
    """Returns the newest file of a session that this version reads; nothing is migrated.

    Where all are newer it is the newest, and where there is none it is `path`, so that whoever
    opens it gets the error. A file whose name states a version is not looked into.
    """
    newest = path_for_version(path, FORMAT_VERSION)
    if newest.is_file():
        return newest
    found = discover_versions(path)
    readable = [file for version, file in found if version <= FORMAT_VERSION]
    return next(iter(readable), found[0][1] if found else Path(path))


def file_to_open(path: str) -> str:
    """Returns the file that a path means to somebody who wants to go on with its session.

    It is `latest_readable_version`, without a look at the whole directory where the path is a file.
    A file that is named and is too new to be read is not given up for an older one: whoever opens
    it gets the error.
    """
    match = _SUFFIX.search(path)
    if match and int(match[1]) > FORMAT_VERSION and is_file(path):
        return path
    newest = f"{path[: match.start()] if match else path}.v{FORMAT_VERSION}"
    if is_file(newest):
        return newest
    return path if is_file(path) else str(latest_readable_version(path))


def migration_source(path: str) -> str:
    """Returns the file that a migration makes `path` of: the bare one beside it, or itself.

    Another program may have been killed while it made the newer file of an old one, so the bare one
    says whether there is anything left to do.
    """
    bare = path.removesuffix(f".v{FORMAT_VERSION}")
    return bare if bare != path and is_file(bare) else path


def is_file(path: str) -> bool:
    """Returns whether a file lies there."""
    # A `Path` for each look takes longer than the looks, which a resume waits for.
    return os.path.isfile(path)  # noqa: PTH113


def _named(bare: Path) -> dict[int, Path]:
    # No glob: a name may hold what is a pattern there.
    if not bare.parent.is_dir():
        return {}
    beginning = f"{bare.name}.v"
    files = [file for file in bare.parent.iterdir() if file.name.startswith(beginning)]
    return {
        version: file
        for file in sorted(files)
        if (version := version_in_name(file)) is not None
        and bare_path(file) == bare
        and file.is_file()
    }

"""Which user of a platform is who."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from amberlog._core import IdentityLinks
from amberlog.config import identity_path

_BETWEEN = "::"
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class IdentityLink:
    """A platform's user, and who that is.

    Attributes:
        platform: The platform, `telegram`.
        platform_user_id: The user's id there.
        unified_user_id: The user's id across platforms.
    """

    platform: str
    platform_user_id: str
    unified_user_id: str


@runtime_checkable
class IdentityResolverProtocol(Protocol):
    """What tells who a platform's user is."""

    def resolve(self, platform: str, platform_user_id: str) -> str:
        """Returns the user's id across platforms; `platform:id` where there is no link."""
        ...

    def link(self, platform: str, platform_user_id: str, unified_user_id: str) -> None:
        """Links a platform's user."""
        ...

    def unlink(self, platform: str, platform_user_id: str) -> None:
        """Removes a link, where there is one."""
        ...

    def links_for(self, unified_user_id: str) -> list[IdentityLink]:
        """Returns the platforms' users who are one."""
        ...


class InMemoryIdentityResolver:
    """Links that end with the process; for any number of threads."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()

    def resolve(self, platform: str, platform_user_id: str) -> str:
        """Returns the user's id across platforms; `platform:id` where there is no link."""
        with self._lock:
            found = self._links.get((platform, platform_user_id))
        return f"{platform}:{platform_user_id}" if found is None else found

    def link(
        self, platform: str, platform_user_id: str, unified_user_id: str, *, replace: bool = False
    ) -> None:
        """Links a platform's user.

        Args:
            platform: The platform.
            platform_user_id: The user's id there.
            unified_user_id: Who that is.
            replace: Whether a link to somebody else may be replaced.

        Raises:
            ValueError: The user is linked to somebody else.
        """
        key = (platform, platform_user_id)
        with self._lock:
            other = self._links.get(key, unified_user_id)
            if other != unified_user_id and not replace:
                raise ValueError(f"{key} is linked to {other!r}, and not to be replaced")
            self._links[key] = unified_user_id

    def unlink(self, platform: str, platform_user_id: str) -> None:
        """Removes a link, where there is one."""
        with self._lock:
            self._links.pop((platform, platform_user_id), None)

    def links_for(self, unified_user_id: str) -> list[IdentityLink]:
        """Returns the platforms' users who are one, in the order in which they were linked."""
        with self._lock:
            links = list(self._links.items())
        return [IdentityLink(*key, found) for key, found in links if found == unified_user_id]


class FileIdentityResolver:
    """Links in a file, which any number of processes may change at once.

    The file is that of `praisonaiagents`. Every answer is what the file holds now; a link is on
    disk when `link` returns.

    Args:
        path: The file; `None` is `amberlog.config.identity_path()`.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._file = IdentityLinks(Path(path) if path else identity_path(), timeout_s=_TIMEOUT_S)

    def resolve(self, platform: str, platform_user_id: str) -> str:
        """Returns the user's id across platforms; `platform:id` where there is no link.

        Raises:
            SessionDamagedError: The file holds no links; it is left as it is.
        """
        found = self._file.get(_key(platform, platform_user_id))
        return f"{platform}:{platform_user_id}" if found is None else found

    def link(
        self, platform: str, platform_user_id: str, unified_user_id: str, *, replace: bool = False
    ) -> None:
        """Links a platform's user.

        Args:
            platform: The platform, without `::` in its name.
            platform_user_id: The user's id there.
            unified_user_id: Who that is.
            replace: Whether a link to somebody else may be replaced.

        Raises:
            ValueError: The user is linked to somebody else, or the platform has no such name.
            SessionWriteError: The system refused the write; the file is as it was.
            SessionDamagedError: The file holds no links; it is left as it is.
        """
        if _BETWEEN in platform or platform.endswith(":"):
            raise ValueError(f"platform must not contain {_BETWEEN!r} or end in ':': {platform!r}")
        self._file.link(_key(platform, platform_user_id), unified_user_id, replace=replace)

    def unlink(self, platform: str, platform_user_id: str) -> None:
        """Removes a link, where there is one."""
        self._file.unlink(_key(platform, platform_user_id))

    def links_for(self, unified_user_id: str) -> list[IdentityLink]:
        """Returns the platforms' users who are one, in the order in which they were linked."""
        found = (key.partition(_BETWEEN) for key, to in self._file.all() if to == unified_user_id)
        return [IdentityLink(platform, user, unified_user_id) for platform, _, user in found]


def _key(platform: str, platform_user_id: str) -> str:
    return f"{platform}{_BETWEEN}{platform_user_id}"


__all__ = [
    "FileIdentityResolver",
    "IdentityLink",
    "IdentityResolverProtocol",
    "InMemoryIdentityResolver",
]

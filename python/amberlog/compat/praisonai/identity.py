"""Which user is who, by the contract of the peer."""

from __future__ import annotations

import logging
import threading
import time
from collections import ChainMap
from pathlib import Path
from typing import TYPE_CHECKING

import amberlog.chat
from amberlog.chat.identity import IdentityLink, IdentityResolverProtocol
from amberlog.config import identity_path
from amberlog.errors import SessionDamagedError, SessionError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

logger = logging.getLogger("amberlog")


class InMemoryIdentityResolver(amberlog.chat.InMemoryIdentityResolver):
    """Links that end with the process; a new one takes the place of an old one."""

    def link(
        self, platform: str, platform_user_id: str, unified_user_id: str, *, replace: bool = True
    ) -> None:
        """Links a platform's user, whoever it was before."""
        super().link(platform, platform_user_id, unified_user_id, replace=replace)


class FileIdentityResolver(amberlog.chat.FileIdentityResolver):
    """Links in a file; a new one takes the place of an old one.

    A file that holds no links is as good as empty, and set aside before it is written to. A link
    that cannot be written is logged.

    Args:
        path: The file; `None` is the peer's.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        super().__init__(path)
        self._path = Path(path) if path else identity_path()
        self._lock = threading.RLock()
        # What a subclass noted and has not flushed.
        self._noted: dict[tuple[str, str], str] = {}

    def resolve(self, platform: str, platform_user_id: str) -> str:
        """Returns the user's id across platforms; `platform:id` where there is no link."""
        try:
            return super().resolve(platform, platform_user_id)
        except SessionError as error:
            logger.warning("no identity links: %s", error)
            return f"{platform}:{platform_user_id}"

    def link(
        self, platform: str, platform_user_id: str, unified_user_id: str, *, replace: bool = True
    ) -> None:
        """Links a platform's user, whoever it was before."""
        try:
            try:
                super().link(platform, platform_user_id, unified_user_id, replace=replace)
            except SessionDamagedError:
                self._path.rename(f"{self._path}.corrupt-{int(time.time() * 1000)}")
                super().link(platform, platform_user_id, unified_user_id, replace=replace)
        except SessionError as error:
            logger.error("identity link not stored: %s", error)  # noqa: TRY400

    def unlink(self, platform: str, platform_user_id: str) -> None:
        """Removes a link, where there is one."""
        try:
            super().unlink(platform, platform_user_id)
        except SessionError as error:
            logger.error("identity link not removed: %s", error)  # noqa: TRY400

    def links_for(self, unified_user_id: str) -> list[IdentityLink]:
        """Returns the platforms' users who are one, in the order in which they were linked."""
        try:
            return super().links_for(unified_user_id)
        except SessionError as error:
            logger.warning("no identity links: %s", error)
            return []

    @property
    def _links(self) -> MutableMapping[tuple[str, str], str]:
        """All links, for subclasses; what they set is stored by `_flush`."""
        try:
            stored = self._file.all()
        except SessionError as error:
            logger.warning("no identity links: %s", error)
            stored = []
        keys = ((key.partition("::"), to) for key, to in stored)
        return ChainMap(self._noted, {(platform, user): to for (platform, _, user), to in keys})

    def _flush(self) -> None:
        with self._lock:
            for (platform, user), to in self._noted.items():
                self.link(platform, user, to)
            self._noted.clear()


__all__ = [
    "FileIdentityResolver",
    "IdentityLink",
    "IdentityResolverProtocol",
    "InMemoryIdentityResolver",
]

"""The recorder that a runtime plugs in as its output module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import amberlog.session_output
from amberlog._track import Track

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SessionOutput(amberlog.session_output.SessionOutput):
    """`amberlog.SessionOutput` with what the peer's runtime expects of its output modules.

    Everything that a call was told is stored when it returns. The attributes with an underscore
    are those by which the runtime renames a recorder and turns its reports on and off.
    """

    async def on_user_input(self, text: str) -> None:
        """Does nothing: the runtime records what the user says."""

    async def on_resume(self, events: Sequence[Mapping[str, object]]) -> None:
        """Does nothing: what is repainted was recorded before."""

    @property
    def _capture_activity(self) -> bool:
        return self._captures

    @_capture_activity.setter
    def _capture_activity(self, captures: bool) -> None:
        self._captures = captures

    @property
    def _event_key_prefix(self) -> str:
        return self._namespace

    @_event_key_prefix.setter
    def _event_key_prefix(self, namespace: str) -> None:
        # What streamed in before the agent was renamed belongs to its old name.
        self.flush_sync()
        self._namespace = namespace
        self._track = Track(self._store, namespace)


__all__ = ["SessionOutput"]

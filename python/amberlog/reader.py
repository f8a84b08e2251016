"""A session as somebody reads it who does not run it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from typing_extensions import Self

    from amberlog.types import SearchHit, TurnView

_MODES = ("fts", "auto")


class SessionReader:
    """What a session holds, read only: nothing is created, changed or left beside the file.

    What another process appends meanwhile is seen. It is a context manager.

    Args:
        path: The session's file.

    Raises:
        SessionNotFoundError: There is no such file; it is a `FileNotFoundError` too.
        SessionDamagedError: The file is not a session, or no longer one.
        SessionVersionError: A newer version wrote it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).expanduser()
        self._store = SessionStore.open_readonly(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def close(self) -> None:
        """Closes the session; a second call does nothing."""
        self._store.close()

    @property
    def path(self) -> Path:
        """The session's file, as it was given."""
        return self._path

    @property
    def meta(self) -> dict[str, object]:
        """What the session says about itself, read at each access."""
        return self._store.load_meta()

    @property
    def agents(self) -> list[str]:
        """The names of its agents: those that it names, then those that only have events."""
        agents = self.meta.get("agents")
        return (
            [name for name in agents if isinstance(name, str)] if isinstance(agents, list) else []
        )

    def events(self, agent: str | None = None) -> list[dict[str, object]]:
        """Returns the events of an agent, or of all agents, one after the other."""
        return [event for name in self._names(agent) for event in self._store.get_events(name)]

    def conversation(self, agent: str | None = None) -> list[dict[str, object]]:
        """Returns the newest messages of an agent, of the first one when none is named."""
        return self._store.load_conversation(next(iter(self._names(agent)), "")) or []

    def channel_messages(self, channel: str) -> list[dict[str, object]]:
        """Returns the messages of a channel, oldest first."""
        return self._store.get_channel_messages(channel)

    def turns(self, agent: str | None = None) -> list[TurnView]:
        """Returns the turns of an agent, or of all agents, one after the other.

        Of a turn that was edited or rerun only the newest branch is looked at.
        """
        turns = [turn for name in self._names(agent) for turn in self._store.turns(name)]
        return [replace(turn, index=index) for index, turn in enumerate(turns)]

    def search(
        self, query: str, *, mode: str = "fts", k: int = 10, agent: str | None = None
    ) -> list[SearchHit]:
        """Returns the events and channel messages that match best, as `SessionStore.search` does.

        Args:
            query: What to look for.
            mode: `fts` or `auto`: by words.
            k: At most this many.
            agent: Only events of this agent.

        Raises:
            ValueError: The mode is another one.
        """
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
        return self._store.search(query, k, agent=agent)

    def index(self) -> int:
        """Returns 0: everything that was appended is found without it."""
        return 0

    def _names(self, agent: str | None) -> list[str]:
        return self.agents if agent is None else [agent]


__all__ = ["SessionReader"]

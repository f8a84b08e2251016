"""The memory search of a session that is not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amberlog._core import BlockHit


class NullMemory:
    """Answers as the memory search of an empty bundle does."""

    __slots__ = ()

    def _check(self) -> None:
        """Raises where the bundle is closed."""
        raise NotImplementedError

    def memory_index(self, agent: str | None = None) -> int:
        """Returns 0."""
        del agent
        self._check()
        return 0

    def memory_give(self, agent: str, start: int, events: list[dict[str, object]]) -> None:
        """Does nothing."""
        del agent, start, events
        self._check()

    def memory_find(  # noqa: PLR0913  # as the bundle's
        self,
        query: str,
        mode: str,
        k: int,
        *,
        vector: bytes | None = None,
        model: str | None = None,
        engine: str = "auto",
        agent: str | None = None,
        kinds: list[str] | None = None,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        turns: tuple[int | None, int | None] | None = None,
        all_branches: bool = False,
    ) -> list[BlockHit]:
        """Returns no hits."""
        del query, mode, k, vector, model, engine, agent, kinds, tool, since, until, turns
        del all_branches
        self._check()
        return []

    def memory_block(self, block_id: str) -> BlockHit | None:
        """Returns None."""
        del block_id
        self._check()
        return None

    def memory_stats(self, model: str | None = None, dimensions: int = 0) -> dict[str, int]:
        """Returns zeros."""
        del model, dimensions
        self._check()
        return {"blocks": 0, "left": 0, "all": 0, "vectors": 0}

    def memory_pending(self, model: str, dimensions: int, limit: int) -> list[tuple[int, str]]:
        """Returns none."""
        del model, dimensions, limit
        self._check()
        return []

    def memory_pending_count(self, model: str, dimensions: int) -> int:
        """Returns 0."""
        del model, dimensions
        self._check()
        return 0

    def memory_put_vectors(self, model: str, dimensions: int, ids: list[int], data: bytes) -> int:
        """Keeps nothing."""
        del model, dimensions, ids, data
        self._check()
        return 0

    def memory_link(self, model: str, dimensions: int, engine: str) -> None:
        """Does nothing."""
        del model, dimensions, engine
        self._check()

    def memory_has_vectors(self, model: str, dimensions: int) -> bool:
        """Returns False."""
        del model, dimensions
        self._check()
        return False

    def memory_models(self) -> list[tuple[str, int]]:
        """Returns none."""
        self._check()
        return []

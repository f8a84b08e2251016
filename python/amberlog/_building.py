"""Making the vectors of a session, from the settings of an embedder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amberlog._asking import SETTINGS
from amberlog.embedding import NullEmbedder, create_embedder
from amberlog.memory import SessionMemory
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """By what the vectors of a session are made.

    Attributes:
        provider: As of `create_embedder`; `none` for keywords alone.
        model: The model; None for the usual one.
        dimensions: The size of the vectors; None for that of the model.
    """

    provider: str = "auto"
    model: str | None = None
    dimensions: int | None = None

    def resolved(self) -> Mapping[str, object]:
        """Returns them as a session's state holds them, with the provider that `auto` means."""
        usual = self.provider == "auto" and self.model is None
        return {
            "provider": "static" if usual else self.provider,
            "model": self.model,
            "dimensions": self.dimensions,
        }


@dataclass(frozen=True, slots=True)
class Built:
    """What was indexed of a session.

    Attributes:
        indexed: How many blocks were new, to the keywords or to the vectors.
        blocks: How many blocks there are.
        vectors: How many of them have a vector of the model.
        model_id: The model; `none` where there are keywords alone.
        dimensions: The size of its vectors.
        agents: Whose blocks they are.
    """

    indexed: int
    blocks: int
    vectors: int
    model_id: str
    dimensions: int
    agents: tuple[str, ...]


def build(
    path: str | os.PathLike[str],
    settings: EmbedderSettings,
    *,
    anew: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Indexes what a session's memory lacks, keywords first, and notes by which embedder.

    What is done stays when it ends before its time.

    Args:
        path: The session's file, which may be open elsewhere.
        settings: By what vectors are made.
        anew: Whether what is there is thrown away first.
        progress: Called with the blocks done and to do; what it raises ends the work.

    Raises:
        SessionNotFoundError: There is no such file.
        EmbedderFailedError: The embedder failed.
        ValueError: There is no such provider or setting.
    """
    # Opening a file to write would make one.
    SessionStore.open_readonly(path).close()
    resolved = settings.resolved()
    embedder = create_embedder(resolved)
    store = SessionStore(path, present_only=True)
    try:
        with SessionMemory(store, embedder) as memory:
            if anew:
                memory.rebuild()
            indexed = memory.index(progress=progress)
            stats = memory.get_stats()
        if not isinstance(embedder, NullEmbedder):
            store.state[SETTINGS] = dict(resolved)
        agents = tuple(store.namespaces())
    finally:
        # Nobody worked in the session: it stays running, paused or whatever it was.
        store.close(update_status=False)
    return Built(
        indexed,
        _count(stats, "fts_blocks"),
        _count(stats, "vec_blocks"),
        embedder.model_id,
        embedder.dimensions,
        agents,
    )


def _count(stats: Mapping[str, object], name: str) -> int:
    count = stats.get(name)
    return count if isinstance(count, int) else 0


__all__ = ["Built", "EmbedderSettings", "build"]

"""The routes over the memory of a session, and of all sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from amberlog._asking import SETTINGS, Question, ask, asked, moment_of
from amberlog._asking_all import ask_all
from amberlog._building import EmbedderSettings
from amberlog._named import named_session
from amberlog._versions import session_in_name
from amberlog.embedding import create_embedder
from amberlog.embedding.presets import MODEL2VEC_PRESETS, SENTENCE_TRANSFORMER_PRESETS
from amberlog.memory import SessionMemory
from amberlog.server.shapes import CONFLICT, MISSING, WRONG
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import Self

    from amberlog.memory import SearchResult
    from amberlog.recall import RecallHit
    from amberlog.server.building import Builds

MOST_HITS = 500
"""How many hits one answer holds at most."""

_PRESETS: Mapping[str, Mapping[str, str]] = {
    "model2vec": MODEL2VEC_PRESETS,
    "sentence-transformer": SENTENCE_TRANSFORMER_PRESETS,
}
# Those that are made at once, so that what is wrong with them is told at once.
_LIGHT = ("auto", "static", "hash", "none")


class Asked(BaseModel):
    """The query of a search; any other name is refused."""

    model_config = ConfigDict(extra="forbid")

    q: str
    mode: Literal["auto", "fts", "semantic", "hybrid"] = "auto"
    k: int = Field(10, ge=1, le=MOST_HITS)
    agent: str | None = None
    since: str | None = None
    until: str | None = None

    def question(self) -> Question:
        """Returns it as a question."""
        return Question(
            self.q,
            self.mode,
            self.k,
            self.agent,
            since=moment_of("since", self.since),
            until=moment_of("until", self.until),
        )


class Block(BaseModel):
    """What every search says of a block; `docs/recall.md` says what the fields mean."""

    content: str
    round: int
    block: int
    agent: str
    block_type: str
    score: float
    ts: float
    tool_name: str
    channel: str
    block_id: str
    event_id: int
    event_key: str
    turn: int | None
    snippet: str


class BlockFound(Block):
    """A block that a search of one session found."""

    keyword_rank: int | None
    vector_rank: int | None


class Found(BaseModel):
    """What the memory of a session says; `mode` is as it was asked."""

    session_name: str
    query: str
    mode: str
    k: int
    count: int
    results: list[BlockFound]
    warning: str | None = None


class BuildState(BaseModel):
    """How the last build of a session stands."""

    state: Literal["idle", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    indexed: int
    error: str | None


class MemoryStatus(BaseModel):
    """What is indexed of a session."""

    indexed: bool
    embedder: str | None
    model: str | None
    dimensions: int | None
    fts_blocks: int
    vec_blocks: int
    agents: list[str]
    build: BuildState


class BuildWanted(BaseModel):
    """By what the vectors of a session are to be made."""

    model_config = ConfigDict(extra="forbid")

    embedder: Literal[
        "auto", "static", "hash", "model2vec", "sentence-transformer", "api", "none"
    ] = "auto"
    model: str | None = None
    dimensions: int | None = Field(None, ge=1, le=65_536)
    force: bool = False

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        # A name may be a path, and nothing outside of the directory is opened for a request.
        if self.model is None or self.embedder == "api":
            return self
        presets = _PRESETS.get(self.embedder, {})
        if not self.model.startswith("@") or self.model[1:] not in presets:
            known = ", ".join(f"@{name}" for name in presets) or "none"
            raise ValueError(f"model: of {self.embedder} there are, over HTTP, {known}")
        return self


class BuildBegun(BaseModel):
    """A build that was begun; there is no socket to follow it by, only the status."""

    websocket: str | None
    request: BuildWanted
    status: str
    build: BuildState


class AskedAll(Asked):
    """The query of a search in all sessions."""

    session: str | None = None
    by_session: bool = False


class BlockOfAll(Block):
    """A block that a search in all sessions found."""

    session: str
    path: str


class FoundInAll(BaseModel):
    """What the sessions of a directory say; `mode` is as it was asked."""

    query: str
    mode: str
    k: int
    count: int
    results: list[BlockOfAll]
    warning: str | None = None


def recall_routes(home: Path) -> APIRouter:
    """Returns the route over the memory of all sessions of a directory."""
    routes = APIRouter(prefix="/api")

    @routes.get(
        "/search",
        response_model=FoundInAll,
        response_model_exclude_unset=True,
        responses={**WRONG, **CONFLICT},
    )
    def search(wanted: Annotated[AskedAll, Query()]) -> Mapping[str, object]:
        """Returns what the sessions say, best first; those that changed are read first."""
        answer = ask_all(
            home,
            wanted.question(),
            session=wanted.session,
            by_session=wanted.by_session,
            falls_back=True,
        )
        return _body(wanted, [_found_of_all(hit) for hit in answer.hits], answer.notice)

    return routes


def memory_routes(home: Path, builds: Builds) -> APIRouter:
    """Returns the routes over the memory of each session of a directory."""
    routes = APIRouter(prefix="/api/sessions/{name}/memory")

    @routes.get(
        "/search",
        response_model=Found,
        response_model_exclude_unset=True,
        responses={**MISSING, **WRONG, **CONFLICT},
    )
    def search(name: str, wanted: Annotated[Asked, Query()]) -> Mapping[str, object]:
        """Returns what a session remembers, best first; what is missing is indexed first.

        Where there is nothing to make vectors with, keywords answer, and `warning` says so.
        """
        path = named_session(home, name)
        question = wanted.question()
        with asked(path, question.mode) as store:
            answer = ask(store, question, falls_back=True)
        hits = [_found(hit) for hit in answer.hits]
        named = session_in_name(path.name)
        return {
            "session_name": named[0] if named else path.name,
            **_body(wanted, hits, answer.notice),
        }

    @routes.get("/status", response_model=MemoryStatus, responses={**MISSING, **WRONG, **CONFLICT})
    def status(name: str) -> Mapping[str, object]:
        """Returns what is indexed of a session, and how its last build stands."""
        path = named_session(home, name)
        return {**_status(path), "build": asdict(builds.report(path))}

    @routes.post("/build", response_model=BuildBegun, responses={**MISSING, **WRONG, **CONFLICT})
    def build(name: str, wanted: Annotated[BuildWanted, Body()]) -> Mapping[str, object]:
        """Begins to make the vectors that a session lacks; the status tells how it goes."""
        path = named_session(home, name)
        settings = EmbedderSettings(wanted.embedder, wanted.model, wanted.dimensions)
        if wanted.embedder in _LIGHT:
            create_embedder(settings.resolved())
        builds.start(path, settings, anew=wanted.force)
        return {
            "websocket": None,
            "request": wanted,
            "status": str(routes.url_path_for("status", name=name)),
            "build": asdict(builds.report(path)),
        }

    return routes


def _body(wanted: Asked, hits: list[dict[str, object]], notice: str | None) -> dict[str, object]:
    body: dict[str, object] = {
        "query": wanted.q,
        "mode": wanted.mode,
        "k": wanted.k,
        "count": len(hits),
        "results": hits,
    }
    return {**body, "warning": notice} if notice else body


def _found(hit: SearchResult) -> dict[str, object]:
    return {**_shown(hit), "keyword_rank": hit.keyword_rank, "vector_rank": hit.vector_rank}


def _found_of_all(hit: RecallHit) -> dict[str, object]:
    return {**_shown(hit), "session": hit.session, "path": hit.path}


def _shown(hit: SearchResult | RecallHit) -> dict[str, object]:
    return {
        "content": hit.content,
        "round": hit.round_num,
        "block": hit.block_num,
        "agent": hit.agent,
        "block_type": hit.block_type,
        "score": hit.score,
        "ts": hit.ts,
        "tool_name": hit.tool_name,
        "channel": hit.channel,
        "block_id": hit.block_id,
        "event_id": hit.event_id,
        "event_key": hit.event_key,
        "turn": hit.turn,
        "snippet": hit.snippet,
    }


def _status(path: Path) -> dict[str, object]:
    with SessionStore.open_readonly(path) as store, SessionMemory(store) as memory:
        blocks = memory.get_stats()["fts_blocks"]
        models = memory.models()
        saved = store.state.get(SETTINGS)
        agents = store.load_meta()["agents"]
    settings = saved if isinstance(saved, dict) else {}
    # Of several models the one that most blocks have vectors of.
    size, vectors = max(((size, count) for _, size, count in models), key=_count, default=(0, 0))
    return {
        "indexed": vectors > 0,
        "embedder": settings.get("provider"),
        "model": settings.get("model"),
        "dimensions": size,
        "fts_blocks": blocks,
        "vec_blocks": vectors,
        "agents": agents,
    }


def _count(model: tuple[int, int]) -> int:
    return model[1]


__all__ = ["MOST_HITS", "Asked", "AskedAll", "memory_routes", "recall_routes"]

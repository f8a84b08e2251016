"""The routes over one session directory."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

import amberlog
from amberlog.errors import (
    SessionBusyError,
    SessionClosedError,
    SessionDamagedError,
    SessionError,
    SessionGoneError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadOnlyError,
    SessionVersionError,
    SessionWriteError,
)
from amberlog.index import delete_session, get_session_index_default, refresh
from amberlog.server.building import Builds
from amberlog.server.memory import memory_routes, recall_routes
from amberlog.server.shapes import CONFLICT, FORBIDDEN, MISSING, UNAUTHORIZED, WRONG
from amberlog.types import Unreadable as Missed
from amberlog.watching import SessionIndexWatch, check_extra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from amberlog.index import SessionIndex

MOST_ROWS = 500
"""How many sessions one answer holds at most."""

_BEARER = HTTPBearer(auto_error=False)
# What is listed then is what was known before.
_UNLISTED = Missed(".", "the directory could not be listed")
_IN_THE_WAY = (
    SessionBusyError,
    SessionDamagedError,
    SessionGoneError,
    SessionLockedError,
    SessionVersionError,
)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class Listing(BaseModel):
    """The query of a listing; any other name is refused."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(20, ge=1, le=MOST_ROWS)
    offset: int = Field(0, ge=0, le=2**63 - 1)
    cursor: str | None = None
    search: str = ""
    sort: Literal["last_active", "created_at", "name", "status", "relevance"] = "last_active"
    order: Literal["desc", "asc"] = "desc"
    status: str | None = None
    config_type: str | None = None
    node_id: str | None = None
    refresh: bool = False
    full_rescan: bool = False


class Unreadable(BaseModel):
    """A file that cannot be listed."""

    path: str
    reason: str


class Page(BaseModel):
    """One page of sessions; `docs/index.md` lists the fields of a row."""

    sessions: list[dict[str, object]]
    total: int
    offset: int
    limit: int
    next_cursor: str | None
    unreadable: list[Unreadable]


class Deleted(BaseModel):
    """What was removed."""

    status: Literal["deleted"]
    name: str
    files: list[str]


def create_app(
    directory: str | os.PathLike[str], *, token: str | None = None, watch: bool = False
) -> FastAPI:
    """Returns the application over one session directory.

    Args:
        directory: The session directory; nothing outside of it is opened.
        token: The bearer token that every request must carry; None asks for none.
        watch: Whether the listing follows the directory while the application runs.

    Raises:
        MissingExtraError: The extra `amberlog[watch]` is not installed, and `watch` is wanted.
        ValueError: The token is empty.
    """
    if token is not None and not token:
        raise ValueError("token: an empty token protects nothing")
    if watch:
        check_extra()
    home = Path(os.fsdecode(directory)).expanduser().resolve()
    builds = Builds()
    guards = [] if token is None else [Depends(_guard(token))]
    app = FastAPI(
        title="amberlog",
        version=amberlog.__version__,
        dependencies=guards,
        responses=None if token is None else UNAUTHORIZED,
        # FastAPI's own pages ask for no token, and could not send one.
        openapi_url="/openapi.json" if token is None else None,
        lifespan=_lifespan(home, builds, watch=watch),
    )
    app.add_exception_handler(SessionError, _refused)
    app.add_exception_handler(ValueError, _refused)
    app.add_exception_handler(405, _wrong_method)
    if token is not None:
        app.get("/openapi.json", include_in_schema=False)(app.openapi)
    _add_collection(app, home)
    _add_session(app, home)
    app.include_router(memory_routes(home, builds))
    app.include_router(recall_routes(home))
    return app


def _lifespan(
    home: Path, builds: Builds, *, watch: bool
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        watching = None
        if watch:
            index = await asyncio.to_thread(get_session_index_default, home)
            watching = SessionIndexWatch(index)
        try:
            yield
        finally:
            await asyncio.to_thread(builds.close)
            if watching is not None:
                await asyncio.to_thread(watching.close)

    return lifespan


def _guard(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    def check(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
    ) -> None:
        offered = given.credentials if given else ""
        if not secrets.compare_digest(offered.encode(), token.encode()):
            raise HTTPException(
                401, "a bearer token is needed", headers={"WWW-Authenticate": "Bearer"}
            )

    return check


def _add_collection(app: FastAPI, home: Path) -> None:
    @app.get("/api/sessions", response_model=Page, responses=WRONG)
    def list_sessions(wanted: Annotated[Listing, Query()]) -> Mapping[str, object]:
        """Returns one page of the sessions, the one last active first."""
        index = get_session_index_default(home)
        missed = []
        if wanted.refresh or wanted.full_rescan:
            report = refresh(index, home, full=wanted.full_rescan)
            missed = [_UNLISTED] if report.aborted else []
        page = index.list(
            search=wanted.search,
            status=wanted.status,
            config_type=wanted.config_type,
            node_id=wanted.node_id,
            sort=wanted.sort,
            order=wanted.order,
            limit=wanted.limit,
            offset=wanted.offset,
            cursor=wanted.cursor,
        )
        return {
            "sessions": [_shown(row) for row in page.rows],
            "total": page.total,
            "offset": page.offset,
            "limit": page.limit,
            "next_cursor": page.next_cursor,
            "unreadable": [
                {"path": one.path, "reason": one.reason} for one in (*missed, *page.unreadable)
            ],
        }

    @app.get("/api/sessions/stats")
    def stats() -> dict[str, object]:
        """Returns counts over all sessions."""
        return get_session_index_default(home).stats()

    @app.get("/api/sessions/disk-usage")
    def disk_usage() -> dict[str, object]:
        """Returns what the sessions take on disk."""
        return get_session_index_default(home).disk_usage()


def _add_session(app: FastAPI, home: Path) -> None:
    @app.get("/api/sessions/{name}", responses=MISSING)
    def session(name: str) -> dict[str, object]:
        """Returns the row of one session by its exact name, or that of its file."""
        row = _row(get_session_index_default(home), name)
        if row is None:
            raise SessionNotFoundError(f"there is no session named `{name}`")
        return _shown(row)

    @app.delete(
        "/api/sessions/{name}",
        response_model=Deleted,
        responses={**FORBIDDEN, **MISSING, **CONFLICT},
    )
    def delete(name: str) -> Mapping[str, object]:
        """Deletes one session with its log, its artifacts, its lock file and its index rows."""
        removed = delete_session(home, name, index=get_session_index_default(home))
        return {"status": "deleted", "name": name, "files": [path.name for path in removed]}


def _row(index: SessionIndex, name: str) -> dict[str, object] | None:
    return index.get(name) or index.named(name)


def _shown(row: Mapping[str, object]) -> dict[str, object]:
    """Returns a row as the peer's listing shows it: for a local session with `pwd_exists`."""
    if row["node_id"]:
        return dict(row)
    pwd = cast("str", row["pwd"])
    # A path that the system cannot even ask about, such as one with a NUL, does not exist.
    return {**row, "pwd_exists": bool(pwd) and "\0" not in pwd and os.path.isdir(pwd)}  # noqa: PTH112


async def _refused(request: Request, error: Exception) -> JSONResponse:
    del request
    return JSONResponse({"detail": str(error)}, status_code=_status(error))


async def _wrong_method(request: Request, error: Exception) -> JSONResponse:
    """Names all methods of a path; Starlette names those of the first route that has it."""
    del error
    routes = [route for route in request.app.routes if isinstance(route, APIRoute)]
    path = next(route.path for route in routes if route.path_regex.match(request.url.path))
    methods = sorted({one for route in routes if route.path == path for one in route.methods or ()})
    return JSONResponse(
        {"detail": "Method Not Allowed"}, status_code=405, headers={"Allow": ", ".join(methods)}
    )


def _status(error: Exception) -> int:
    if isinstance(error, SessionNotFoundError):
        return 404
    if isinstance(error, _IN_THE_WAY):
        return 409
    if isinstance(error, SessionReadOnlyError):
        return 403
    if isinstance(error, SessionClosedError):
        return 503
    if isinstance(error, SessionWriteError):
        return 403 if error.errno in _FORBIDDEN else 500
    return 400 if isinstance(error, ValueError) else 500


__all__ = ["MOST_ROWS", "create_app"]

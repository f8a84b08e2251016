"""The verbs of a session store, awaited: each one runs on a thread of the event loop's pool."""

from __future__ import annotations

import asyncio
import functools
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from amberlog import resuming, session, tool
from amberlog._aio_chat import AsyncChatStore, AsyncHierarchicalChatStore
from amberlog._event_log import PAGE
from amberlog.recall import Recall
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from amberlog._lineage import Mutation
    from amberlog.embedding import Embedder
    from amberlog.lineage import BranchView
    from amberlog.tool import Moment, ToolOutput
    from amberlog.types import Durability, EventCallback

    AnyStore: TypeAlias = "str | os.PathLike[str] | SessionStore | AsyncSessionStore"

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Twin(Protocol[S_co]):
    """What has verbs to be awaited, above what has them to be called."""

    def beneath(self) -> S_co:
        """Returns what runs the verbs."""


class Awaited(Generic[S, P, T]):
    """A method that runs a verb of what lies beneath on a thread and returns what it returns."""

    def __init__(self, verb: Callable[Concatenate[S, P], T]) -> None:
        self._verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, twin: None, owner: type[Twin[S]]) -> Self: ...
    @overload
    def __get__(
        self, twin: Twin[S], owner: type[Twin[S]]
    ) -> Callable[P, Coroutine[None, None, T]]: ...
    def __get__(
        self, twin: Twin[S] | None, owner: type[Twin[S]]
    ) -> Self | Callable[P, Coroutine[None, None, T]]:
        """Returns the verb, bound to what lies beneath and awaitable."""
        if twin is None:
            return self
        beneath = twin.beneath()

        @functools.wraps(self._verb)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
            return await asyncio.to_thread(self._verb, beneath, *args, **kwargs)

        return awaited


class AsyncSessionStore:
    """A session store for coroutines: the verbs, arguments and results of `SessionStore`.

    What two tasks await at the same time runs at the same time; what one task awaits runs in the
    order it is awaited. `submit` and `run` of the store beneath keep the order over all tasks.

    Args:
        store: The store beneath. Closing one closes both.
    """

    def __init__(self, store: SessionStore) -> None:
        self.store = store

    @classmethod
    async def open_readonly(cls, path: str | os.PathLike[str]) -> Self:
        """Opens a session to read it, as `SessionStore.open_readonly` does."""
        return cls(await asyncio.to_thread(SessionStore.open_readonly, path))

    def beneath(self) -> SessionStore:
        """Returns the store beneath."""
        return self.store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncSessionStore({self.path!r})"

    @property
    def path(self) -> str:
        """The path of the session's file."""
        return self.store.path

    @property
    def readonly(self) -> bool:
        """Whether every write is refused."""
        return self.store.readonly

    @property
    def is_ready(self) -> bool:
        """Whether the session is open."""
        return self.store.is_ready

    async def session_id(self) -> str:
        """Returns the session's id: what its meta says, else the stem of its file's name."""
        return await asyncio.to_thread(lambda: self.store.session_id)

    async def artifacts_dir(self) -> Path:
        """Returns the directory of artifacts, created unless the session is only read."""
        return await asyncio.to_thread(lambda: self.store.artifacts_dir)

    def subscribe(self, callback: EventCallback) -> None:
        """Calls `callback(key, event)` after each append, on the thread that appends."""
        self.store.subscribe(callback)

    def unsubscribe(self, callback: EventCallback) -> None:
        """Stops calling `callback`."""
        self.store.unsubscribe(callback)

    def register_companion_closer(self, closer: Callable[[], object]) -> None:
        """Has `close` call `closer`, on the thread that closes."""
        self.store.register_companion_closer(closer)

    async def iter_events(
        self,
        agent: str,
        *,
        since: int | None = None,
        until: int | None = None,
        types: Collection[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[dict[str, object]]:
        """Yields an agent's events as `SessionStore.iter_events` does, a page for each hop."""
        events = self.store.iter_events(
            agent, since=since, until=until, types=types, limit=limit, reverse=reverse
        )
        while page := await asyncio.to_thread(lambda: list(islice(events, PAGE))):
            for event in page:
                yield event

    async def fork(
        self,
        target_path: str | os.PathLike[str],
        *,
        at_event_id: int,
        mutate: Mutation | None = None,
        name: str | None = None,
        pending_job_ids: Collection[str] | None = None,
    ) -> AsyncSessionStore:
        """Makes a new session of this one and returns it open, as `SessionStore.fork` does."""
        child = await asyncio.to_thread(
            self.store.fork,
            target_path,
            at_event_id=at_event_id,
            mutate=mutate,
            name=name,
            pending_job_ids=pending_job_ids,
        )
        return AsyncSessionStore(child)

    append_compaction_checkpoint = Awaited(SessionStore.append_compaction_checkpoint)

    agent_state = Awaited(SessionStore.agent_state)
    append_event = Awaited(SessionStore.append_event)
    append_events = Awaited(SessionStore.append_events)
    backup = Awaited(SessionStore.backup)
    branch_path = Awaited(SessionStore.branch_path)
    checkpoint = Awaited(SessionStore.checkpoint)
    close = Awaited(SessionStore.close)
    discover_agents_from_events = Awaited(SessionStore.discover_agents_from_events)
    turns = Awaited(SessionStore.turns)
    load_subagent_messages = Awaited(SessionStore.load_subagent_messages)
    attach_agent = Awaited(SessionStore.attach_agent)
    detach_agent = Awaited(SessionStore.detach_agent)
    discover_attached_agents = Awaited(SessionStore.discover_attached_agents)
    ensure_conversation_id = Awaited(SessionStore.ensure_conversation_id)
    find_subagent_run = Awaited(SessionStore.find_subagent_run)
    flush = Awaited(SessionStore.flush)
    get_all_events = Awaited(SessionStore.get_all_events)
    get_channel_messages = Awaited(SessionStore.get_channel_messages)
    get_event_by_id = Awaited(SessionStore.get_event_by_id)
    get_events = Awaited(SessionStore.get_events)
    get_resumable_events = Awaited(SessionStore.get_resumable_events)
    get_turn_rollup = Awaited(SessionStore.get_turn_rollup)
    get_working_history = Awaited(SessionStore.get_working_history)
    init_meta = Awaited(SessionStore.init_meta)
    list_subagent_runs = Awaited(SessionStore.list_subagent_runs)
    list_turn_rollups = Awaited(SessionStore.list_turn_rollups)
    load_branch_snapshot = Awaited(SessionStore.load_branch_snapshot)
    load_conversation = Awaited(SessionStore.load_conversation)
    load_job = Awaited(SessionStore.load_job)
    load_meta = Awaited(SessionStore.load_meta)
    load_scratchpad = Awaited(SessionStore.load_scratchpad)
    load_subagent_conversation = Awaited(SessionStore.load_subagent_conversation)
    load_subagent_meta = Awaited(SessionStore.load_subagent_meta)
    load_token_usage = Awaited(SessionStore.load_token_usage)
    load_triggers = Awaited(SessionStore.load_triggers)
    load_turn_count = Awaited(SessionStore.load_turn_count)
    mark_resumed = Awaited(SessionStore.mark_resumed)
    max_branch_id = Awaited(SessionStore.max_branch_id)
    max_event_id = Awaited(SessionStore.max_event_id)
    namespaces = Awaited(SessionStore.namespaces)
    next_subagent_run = Awaited(SessionStore.next_subagent_run)
    position = Awaited(SessionStore.position)
    record = Awaited(SessionStore.record)

    restore_conversation = Awaited(SessionStore.restore_conversation)
    save_branch_snapshot = Awaited(SessionStore.save_branch_snapshot)
    save_channel_message = Awaited(SessionStore.save_channel_message)
    save_conversation = Awaited(SessionStore.save_conversation)
    save_job = Awaited(SessionStore.save_job)
    save_state = Awaited(SessionStore.save_state)
    save_subagent = Awaited(SessionStore.save_subagent)
    save_turn_rollup = Awaited(SessionStore.save_turn_rollup)
    search = Awaited(SessionStore.search)
    set_conversation_open = Awaited(SessionStore.set_conversation_open)
    set_viewer_default_agent = Awaited(SessionStore.set_viewer_default_agent)
    snapshots = Awaited(SessionStore.snapshots)
    token_usage = Awaited(SessionStore.token_usage)
    token_usage_all_loops = Awaited(SessionStore.token_usage_all_loops)
    touch = Awaited(SessionStore.touch)
    update_status = Awaited(SessionStore.update_status)
    verify = Awaited(SessionStore.verify)
    write_artifact = Awaited(SessionStore.write_artifact)


class AsyncRecall:
    """A search over all sessions for coroutines: the verbs, arguments and results of `Recall`.

    Args:
        recall: The search beneath. Closing one closes both.
    """

    def __init__(self, recall: Recall) -> None:
        self.recall = recall

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncRecall({self.recall!r})"

    def beneath(self) -> Recall:
        """Returns the search beneath."""
        return self.recall

    close = Awaited(Recall.close)
    read_block = Awaited(Recall.read_block)
    refresh = Awaited(Recall.refresh)
    search = Awaited(Recall.search)
    stats = Awaited(Recall.stats)


async def open_session(
    path: str | os.PathLike[str],
    *,
    enabled: bool = True,
    durability: Durability = "process",
    writer_lock: bool = False,
    peer_fts: bool = True,
) -> AsyncSessionStore:
    """Opens a session to record to, or one that keeps nothing, as `amberlog.open_session` does."""
    store = await asyncio.to_thread(
        session.open_session,
        path,
        enabled=enabled,
        durability=durability,
        writer_lock=writer_lock,
        peer_fts=peer_fts,
    )
    return AsyncSessionStore(store)


async def resume(
    path_or_store: str | os.PathLike[str] | SessionStore | AsyncSessionStore,
    *,
    agent: str | None = None,
    view: BranchView | None = None,
    live_jobs: Collection[str] = (),
    readonly: bool = False,
) -> resuming.Resumed:
    """Comes back to a session, as `amberlog.resume` does.

    The store of what it returns is the plain one: `AsyncSessionStore(resumed.store)` awaits it.
    """
    given = path_or_store.store if isinstance(path_or_store, AsyncSessionStore) else path_or_store
    return await asyncio.to_thread(
        resuming.resume, given, agent=agent, view=view, live_jobs=live_jobs, readonly=readonly
    )


async def search_memory(
    store: AnyStore,
    *,
    query: str,
    mode: str = "auto",
    k: int = 5,
    agent: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    scope: str = "session",
    embedder: Embedder | None = None,
) -> str:
    """Returns what a session remembers of a query, as `amberlog.tool.search_memory` does."""
    return await asyncio.to_thread(
        tool.search_memory,
        _beneath(store),
        query=query,
        mode=mode,
        k=k,
        agent=agent,
        since=since,
        until=until,
        scope=scope,
        embedder=embedder,
    )


async def read_block(
    store: AnyStore,
    block_id: str,
    *,
    session: str | None = None,
    start: int = 0,
    length: int = tool.WHOLE,
) -> str:
    """Returns the text of a block, as `amberlog.tool.read_block` does."""
    return await asyncio.to_thread(
        tool.read_block, _beneath(store), block_id, session=session, start=start, length=length
    )


async def call_tool(
    store: AnyStore,
    name: str,
    arguments: Mapping[str, object],
    *,
    embedder: Embedder | None = None,
) -> ToolOutput:
    """Runs the tool that a model has called, as `amberlog.tool.call_tool` does."""
    return await asyncio.to_thread(
        tool.call_tool, _beneath(store), name, arguments, embedder=embedder
    )


def _beneath(store: AnyStore) -> str | os.PathLike[str] | SessionStore:
    return store.store if isinstance(store, AsyncSessionStore) else store


__all__ = [
    "AsyncChatStore",
    "AsyncHierarchicalChatStore",
    "AsyncRecall",
    "AsyncSessionStore",
    "call_tool",
    "open_session",
    "read_block",
    "resume",
    "search_memory",
]

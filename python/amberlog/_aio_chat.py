"""The verbs of the chat stores, awaited: each one runs on a thread of the event loop's pool."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from amberlog.chat import DefaultSessionStore, HierarchicalSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from typing_extensions import Self

    from amberlog.chat import EncryptedSessionStore

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class AwaitedVerb(Generic[S, P, T]):
    """A method that runs a verb of a chat store on a thread and returns what it returns."""

    def __init__(self, verb: Callable[Concatenate[S, P], T]) -> None:
        self._verb = verb
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, store: None, owner: type[AsyncChatStore]) -> Self: ...
    @overload
    def __get__(
        self, store: AsyncChatStore, owner: type[AsyncChatStore]
    ) -> Callable[P, Coroutine[None, None, T]]: ...
    def __get__(
        self, store: AsyncChatStore | None, owner: type[AsyncChatStore]
    ) -> Self | Callable[P, Coroutine[None, None, T]]:
        """Returns the verb, bound to the store beneath and awaitable."""
        if store is None:
            return self
        # The verb as that store has it, which may be of another class.
        bound = cast("Callable[P, T]", getattr(store.store, self._verb.__name__))

        @functools.wraps(self._verb)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
            return await asyncio.to_thread(bound, *args, **kwargs)

        return awaited


class AsyncChatStore:
    """A chat store for coroutines: the verbs, arguments and results of `DefaultSessionStore`.

    What two tasks await at the same time runs at the same time; writes of one session take turns.

    Args:
        store: The store beneath.
    """

    def __init__(self, store: DefaultSessionStore | EncryptedSessionStore) -> None:
        self.store = store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    async def update_session_metadata(self, session_id: str, **fields: object) -> bool:
        """Sets keys of a session's metadata, as the store does."""
        beneath = cast("DefaultSessionStore", self.store)
        return await asyncio.to_thread(beneath.update_session_metadata, session_id, **fields)

    add_assistant_message = AwaitedVerb(DefaultSessionStore.add_assistant_message)
    add_message = AwaitedVerb(DefaultSessionStore.add_message)
    add_user_message = AwaitedVerb(DefaultSessionStore.add_user_message)
    append_compaction_checkpoint = AwaitedVerb(DefaultSessionStore.append_compaction_checkpoint)
    clear_gateway_info = AwaitedVerb(DefaultSessionStore.clear_gateway_info)
    clear_runtime_state = AwaitedVerb(DefaultSessionStore.clear_runtime_state)
    clear_session = AwaitedVerb(DefaultSessionStore.clear_session)
    close_mirror = AwaitedVerb(DefaultSessionStore.close_mirror)
    delete_session = AwaitedVerb(DefaultSessionStore.delete_session)
    discard_partial_assistant_message = AwaitedVerb(
        DefaultSessionStore.discard_partial_assistant_message
    )
    export_all = AwaitedVerb(DefaultSessionStore.export_all)
    export_session = AwaitedVerb(DefaultSessionStore.export_session)
    flush_mirror = AwaitedVerb(DefaultSessionStore.flush_mirror)
    get_agent_chat_history = AwaitedVerb(DefaultSessionStore.get_agent_chat_history)
    get_by_gateway_session = AwaitedVerb(DefaultSessionStore.get_by_gateway_session)
    get_chat_history = AwaitedVerb(DefaultSessionStore.get_chat_history)
    get_runtime_state = AwaitedVerb(DefaultSessionStore.get_runtime_state)
    get_session = AwaitedVerb(DefaultSessionStore.get_session)
    get_session_model = AwaitedVerb(DefaultSessionStore.get_session_model)
    get_session_reasoning_effort = AwaitedVerb(DefaultSessionStore.get_session_reasoning_effort)
    get_sessions_by_agent = AwaitedVerb(DefaultSessionStore.get_sessions_by_agent)
    get_working_history = AwaitedVerb(DefaultSessionStore.get_working_history)
    import_sessions = AwaitedVerb(DefaultSessionStore.import_sessions)
    invalidate_cache = AwaitedVerb(DefaultSessionStore.invalidate_cache)
    list_sessions = AwaitedVerb(DefaultSessionStore.list_sessions)
    list_sessions_by_agent = AwaitedVerb(DefaultSessionStore.list_sessions_by_agent)
    list_sessions_by_gateway_agent = AwaitedVerb(DefaultSessionStore.list_sessions_by_gateway_agent)
    merge_session_metadata_map = AwaitedVerb(DefaultSessionStore.merge_session_metadata_map)
    recent = AwaitedVerb(DefaultSessionStore.recent)
    rename_session = AwaitedVerb(DefaultSessionStore.rename_session)
    search = AwaitedVerb(DefaultSessionStore.search)
    session_exists = AwaitedVerb(DefaultSessionStore.session_exists)
    set_agent_info = AwaitedVerb(DefaultSessionStore.set_agent_info)
    set_chat_history = AwaitedVerb(DefaultSessionStore.set_chat_history)
    set_gateway_info = AwaitedVerb(DefaultSessionStore.set_gateway_info)
    set_runtime_state = AwaitedVerb(DefaultSessionStore.set_runtime_state)
    stored_session = AwaitedVerb(DefaultSessionStore.stored_session)
    unreadable_sessions = AwaitedVerb(DefaultSessionStore.unreadable_sessions)
    upsert_partial_assistant_message = AwaitedVerb(
        DefaultSessionStore.upsert_partial_assistant_message
    )
    window = AwaitedVerb(DefaultSessionStore.window)


class AsyncHierarchicalChatStore(AsyncChatStore):
    """A chat store for coroutines that has the verbs of `HierarchicalSessionStore` too.

    Args:
        store: The store beneath: a `HierarchicalSessionStore`, or an encrypted one over it.
    """

    create_session = AwaitedVerb(HierarchicalSessionStore.create_session)
    create_snapshot = AwaitedVerb(HierarchicalSessionStore.create_snapshot)
    fork_session = AwaitedVerb(HierarchicalSessionStore.fork_session)
    get_children = AwaitedVerb(HierarchicalSessionStore.get_children)
    get_extended_session = AwaitedVerb(HierarchicalSessionStore.get_extended_session)
    get_parent = AwaitedVerb(HierarchicalSessionStore.get_parent)
    get_session_tree = AwaitedVerb(HierarchicalSessionStore.get_session_tree)
    get_snapshots = AwaitedVerb(HierarchicalSessionStore.get_snapshots)
    import_session = AwaitedVerb(HierarchicalSessionStore.import_session)
    is_shared = AwaitedVerb(HierarchicalSessionStore.is_shared)
    revert_to_message = AwaitedVerb(HierarchicalSessionStore.revert_to_message)
    revert_to_snapshot = AwaitedVerb(HierarchicalSessionStore.revert_to_snapshot)
    set_title = AwaitedVerb(HierarchicalSessionStore.set_title)
    share_session = AwaitedVerb(HierarchicalSessionStore.share_session)
    unshare_session = AwaitedVerb(HierarchicalSessionStore.unshare_session)


__all__ = ["AsyncChatStore", "AsyncHierarchicalChatStore"]

"""The awaited verbs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionClosedError, SessionNotFoundError, aio
from amberlog.chat import (
    DefaultSessionStore,
    EncryptedSessionStore,
    HierarchicalSessionStore,
    SqliteTranscriptStore,
    generate_session_key,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_awaited_does_what_the_verb_does(path: Path) -> None:
    async def session() -> tuple[object, ...]:
        async with await aio.open_session(path) as store:
            appended = await store.append_event("alice", "text", {"content": "hello"}, turn_index=1)
            await store.append_events("alice", [("text", {"n": n}) for n in range(600)])
            read = [event["event_id"] async for event in store.iter_events("alice")]
            newest = [event async for event in store.iter_events("alice", limit=1, reverse=True)]
            return appended, read, newest[0]["n"], await store.session_id()

    appended, read, newest, session_id = asyncio.run(session())

    assert appended == ("alice:e000000", 1)
    assert read == list(range(1, 602))
    assert newest == 599
    assert session_id == "session"


def test_a_verb_runs_off_the_event_loop(path: Path) -> None:
    threads: list[int] = []

    async def session() -> None:
        async with await aio.open_session(path) as store:
            store.subscribe(lambda *_: threads.append(threading.get_ident()))
            await store.append_event("alice", "text", {})

    asyncio.run(session())

    assert threads
    assert threading.get_ident() not in threads


def test_errors_arrive_where_they_are_awaited(path: Path) -> None:
    async def session() -> None:
        with pytest.raises(SessionNotFoundError):
            await aio.AsyncSessionStore.open_readonly(path)
        store = await aio.open_session(path)
        await store.close()
        with pytest.raises(SessionClosedError):
            await store.get_events("alice")

    asyncio.run(session())

    assert path.exists()


def test_a_disabled_session_can_be_awaited(path: Path) -> None:
    async def session() -> tuple[str, int]:
        async with await aio.open_session(path, enabled=False) as store:
            return await store.append_event("alice", "text", {})

    appended = asyncio.run(session())

    assert appended == ("alice:e000000", 1)
    assert not path.exists()


def test_a_verb_keeps_its_signature_and_its_docs(path: Path) -> None:
    store = asyncio.run(aio.open_session(path, enabled=False))

    assert inspect.iscoroutinefunction(store.save_job)
    assert (inspect.getdoc(store.save_job) or "").startswith("Stores a job's record")
    assert "job_id" in inspect.signature(store.save_job).parameters


def verbs(owner: type[object]) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_every_verb_of_a_chat_store_can_be_awaited() -> None:
    assert not verbs(DefaultSessionStore) - verbs(aio.AsyncChatStore)
    # `auto_title` is awaited on the store itself.
    hierarchical = verbs(HierarchicalSessionStore) - {"auto_title"}
    assert not hierarchical - verbs(aio.AsyncHierarchicalChatStore)


def test_a_chat_store_is_awaited(tmp_path: Path) -> None:
    async def chat() -> tuple[object, ...]:
        store = aio.AsyncChatStore(SqliteTranscriptStore(str(tmp_path)))
        await asyncio.gather(*(store.add_message("s", "user", f"tea {n}") for n in range(20)))
        hits = await store.search("tea")
        return len(await store.get_chat_history("s")), hits[0].session_id

    assert asyncio.run(chat()) == (20, "s")


def test_an_encrypted_store_with_forks_is_awaited(tmp_path: Path) -> None:
    async def chat() -> list[dict[str, object]]:
        beneath = HierarchicalSessionStore(str(tmp_path))
        encrypted = EncryptedSessionStore(beneath, generate_session_key())
        store = aio.AsyncHierarchicalChatStore(encrypted)
        await store.add_message("s", "user", "pelican")
        return await store.get_chat_history(await store.fork_session("s"))

    assert asyncio.run(chat()) == [{"role": "user", "content": "pelican"}]
    assert not any("pelican" in file.read_text() for file in tmp_path.glob("*.json"))

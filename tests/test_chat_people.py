"""Identity links, and the context of the task at hand."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import (
    FileIdentityResolver,
    IdentityResolverProtocol,
    InMemoryIdentityResolver,
    SessionContext,
    clear_session_context,
    get_session_context,
    set_session_context,
)
from amberlog.chat.context import Origin, ReachableTarget
from amberlog.errors import SessionDamagedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_link_to_somebody_else_is_refused_unless_it_is_to_be_replaced(
    kind: str, tmp_path: Path
) -> None:
    resolver: FileIdentityResolver | InMemoryIdentityResolver = (
        FileIdentityResolver(tmp_path / "identity.json")
        if kind == "file"
        else InMemoryIdentityResolver()
    )
    resolver.link("telegram", "anon", "alice")
    resolver.link("telegram", "anon", "alice")

    with pytest.raises(ValueError, match="alice"):
        resolver.link("telegram", "anon", "bob")

    assert resolver.resolve("telegram", "anon") == "alice"
    resolver.link("telegram", "anon", "bob", replace=True)
    assert resolver.resolve("telegram", "anon") == "bob"
    assert resolver.links_for("alice") == []
    resolver.unlink("telegram", "anon")
    assert resolver.resolve("telegram", "anon") == "telegram:anon"
    assert isinstance(resolver, IdentityResolverProtocol)


def test_links_in_a_circle_or_to_oneself_end_the_look_up(tmp_path: Path) -> None:
    resolver = FileIdentityResolver(tmp_path / "identity.json")
    resolver.link("p", "a", "p:b")
    resolver.link("p", "b", "p:a")
    resolver.link("p", "c", "p:c")

    assert [resolver.resolve("p", user) for user in "abc"] == ["p:b", "p:a", "p:c"]


def test_a_second_resolver_sees_and_keeps_the_links_of_the_first(tmp_path: Path) -> None:
    first, second = (FileIdentityResolver(tmp_path / "identity.json") for _ in range(2))
    first.link("p", "1", "alice")
    second.link("p", "2", "alice")

    seen = [link.platform_user_id for link in first.links_for("alice")]

    assert seen == ["1", "2"]
    assert (tmp_path / "identity.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"", b"\xff", b'{"links": []}', b"[]"])
def test_a_damaged_file_of_links_raises_and_stays(damage: bytes, tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    file.write_bytes(damage)
    resolver = FileIdentityResolver(file)

    with pytest.raises(SessionDamagedError, match=r"identity\.json"):
        resolver.resolve("p", "1")
    with pytest.raises(SessionDamagedError, match=r"identity\.json"):
        resolver.link("p", "1", "alice")

    assert file.read_bytes() == damage


def test_a_platform_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    resolver = FileIdentityResolver(tmp_path / "identity.json")

    with pytest.raises(ValueError, match="platform"):
        resolver.link("a::b", "1", "alice")

    resolver.link("a", "b::c", "alice")
    assert [link.platform_user_id for link in resolver.links_for("alice")] == ["b::c"]


def test_two_hundred_tasks_see_each_their_own_context() -> None:
    async def handle(number: int) -> bool:
        token = set_session_context(session_id=f"s{number}", user_id=f"u{number}")
        await asyncio.sleep(0)
        mine = get_session_context().session_id == f"s{number}"
        in_thread = await asyncio.to_thread(lambda: get_session_context().session_id)
        loop = asyncio.get_running_loop()
        pooled = await loop.run_in_executor(None, lambda: get_session_context().session_id)
        clear_session_context(token)
        after = get_session_context().session_id
        return mine and in_thread == f"s{number}" and pooled == "" and after == ""

    async def every() -> list[bool]:
        return await asyncio.gather(*(handle(number) for number in range(200)))

    assert asyncio.run(every()) == [True] * 200


def test_a_bare_thread_has_an_empty_context() -> None:
    token = set_session_context(session_id="outer")
    seen: list[str] = []

    thread = Thread(target=lambda: seen.append(get_session_context().session_id))
    thread.start()
    thread.join()

    clear_session_context(token)
    assert seen == [""]


def raise_key_error() -> None:
    raise KeyError


def test_clearing_brings_the_outer_context_back_even_after_an_error() -> None:
    outer = set_session_context(session_id="outer")
    inner = set_session_context(session_id="inner")

    def fails() -> None:
        try:
            raise_key_error()
        finally:
            clear_session_context(inner)

    with pytest.raises(KeyError):
        fails()

    assert get_session_context().session_id == "outer"
    clear_session_context(inner)
    assert get_session_context() == SessionContext()
    clear_session_context(outer)


def test_a_context_comes_back_from_its_dict() -> None:
    context = SessionContext(
        platform="p",
        session_id="s",
        origin=Origin("p", "group"),
        reachable_targets=[ReachableTarget("home", "p", "1", "home")],
    )

    assert SessionContext.from_dict(context.to_dict()) == context
    assert SessionContext.from_dict({}) == SessionContext()

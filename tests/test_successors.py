"""Sessions that were retired for another one, and the way to that one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionNotFoundError, SessionNotResumableError, SessionStore
from amberlog._successor import LONGEST_CHAIN, resolve_successor
from support.independent import encoded, write
from support.kohaku import contents

if TYPE_CHECKING:
    from pathlib import Path


def make(path: Path, conversation: str, **meta: object) -> Path:
    with SessionStore(path) as store:
        store.init_meta(path.name, "agent", "", "/w", ["alice"])
        store.meta["conversation_id"] = conversation
        for name, value in meta.items():
            store.meta[name] = value
    return path


def mark(target: str, conversation: str, **changes: object) -> dict[str, object]:
    return {
        "kind": "merge",
        "state": "ready",
        "targets": [{"path": target, "conversation_id": conversation}],
        "agents": ["alice"],
        **changes,
    }


def chain(directory: Path, length: int) -> tuple[Path, Path]:
    """Makes sessions that follow one another and returns the first and the last of them."""
    files = [directory / f"{number}.kohakutr" for number in range(length)]
    for number, file in enumerate(files):
        then = f"{number + 1}.kohakutr"
        follows = number + 1 < length
        meta = {"resume_successor": mark(then, str(number + 1))} if follows else {}
        make(file, str(number), **meta)
    return files[0], files[-1]


def test_a_session_that_was_not_retired_goes_on_itself(tmp_path: Path) -> None:
    file = make(tmp_path / "a.kohakutr", "a")

    assert resolve_successor(file) == file


def test_a_session_that_was_merged_leads_to_the_other_one(tmp_path: Path) -> None:
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=mark("b.kohakutr", "b"))
    other = make(tmp_path / "b.kohakutr", "b")

    assert resolve_successor(file) == other


def test_a_successor_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    other = make(tmp_path / "b.kohakutr", "b")
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=mark(str(other), "b"))

    assert resolve_successor(file) == other


def test_the_newest_version_of_a_successor_counts(tmp_path: Path) -> None:
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=mark("b.kohakutr", "b"))
    make(tmp_path / "b.kohakutr", "b")
    newer = make(tmp_path / "b.kohakutr.v2", "b")
    write(tmp_path / "b.kohakutr.v9", "meta", {"format_version": encoded(9)})

    assert resolve_successor(file) == newer


def test_a_chain_is_followed_as_far_as_it_may_be_long(tmp_path: Path) -> None:
    first, last = chain(tmp_path, LONGEST_CHAIN)

    assert resolve_successor(first) == last


def test_a_longer_chain_is_refused(tmp_path: Path) -> None:
    first, _ = chain(tmp_path, LONGEST_CHAIN + 1)

    with pytest.raises(SessionNotResumableError, match="more than 64"):
        resolve_successor(first)


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=mark("b.kohakutr", "b"))
    make(tmp_path / "b.kohakutr", "b", resume_successor=mark("a.kohakutr", "a"))

    with pytest.raises(SessionNotResumableError, match="lead back"):
        resolve_successor(file)


@pytest.mark.parametrize("way", ["up", "whole", "link"])
def test_a_successor_outside_of_the_directory_is_refused(tmp_path: Path, way: str) -> None:
    outside = make(tmp_path / "outside.kohakutr", "b")
    inside = tmp_path / "sessions"
    inside.mkdir()
    names = {"up": "../outside.kohakutr", "whole": str(outside), "link": "b.kohakutr"}
    if way == "link":
        (inside / "b.kohakutr").symlink_to(outside)
    file = make(inside / "a.kohakutr", "a", resume_successor=mark(names[way], "b"))

    with pytest.raises(SessionNotResumableError, match="outside"):
        resolve_successor(file)

    if way != "link":
        assert resolve_successor(file, session_dir=tmp_path) == outside


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ("gone", "not a map"),
        (mark("b.kohakutr", "b", state="pending"), "not ready"),
        (mark("b.kohakutr", "b", kind="split"), "split"),
        (mark("b.kohakutr", "b", targets=[]), "split"),
        (mark("b.kohakutr", "b", targets=[{}, {}]), "split"),
        (mark("b.kohakutr", "b", targets=["b.kohakutr"]), "no path"),
        (mark("", "b"), "no path"),
        (mark("b.kohakutr", ""), "no conversation id"),
        (mark("b.kohakutr", "b", agents="alice"), "not a list of names"),
        (mark("c.kohakutr", "b"), "missing"),
        (mark("b.kohakutr", "c"), "another conversation"),
        (mark("b.kohakutr", "b", agents=["alice", "bob"]), "lacks agents.*bob"),
    ],
)
def test_a_successor_that_cannot_be_had_is_an_error(tmp_path: Path, meta: object, why: str) -> None:
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=meta)
    make(tmp_path / "b.kohakutr", "b")

    with pytest.raises(SessionNotResumableError, match=why) as caught:
        resolve_successor(file)

    assert caught.value.path in {str(tmp_path / f"{name}.kohakutr") for name in "abc"}


def test_the_creatures_of_a_graph_are_its_agents(tmp_path: Path) -> None:
    wanted = mark("b.kohakutr", "b", agents=["bob"])
    file = make(tmp_path / "a.kohakutr", "a", resume_successor=wanted)
    manifest = {"creatures": [{"name": "bob"}, "no map"]}
    other = make(tmp_path / "b.kohakutr", "b", live_graph_manifest=manifest)

    assert resolve_successor(file) == other


def test_a_missing_session_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        resolve_successor(tmp_path / "a.kohakutr")


def test_following_changes_nothing(tmp_path: Path) -> None:
    first, _ = chain(tmp_path, 3)
    before = contents(tmp_path)

    resolve_successor(os.fspath(first))

    assert contents(tmp_path) == before

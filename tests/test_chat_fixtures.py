"""What the peer answers on its own directories, our chat store answers too."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import DefaultSessionStore, FileIdentityResolver
from amberlog.compat import praisonai
from amberlog.errors import SessionDamagedError
from support.chat import copy_of, groups, plain

if TYPE_CHECKING:
    from pathlib import Path

# The peer sets a damaged file aside and calls the session empty; ours raises and leaves it.
FILES_AFTER = [
    "badutf8.json.corrupt-<epoch_ms>",
    "broken.json.corrupt-<epoch_ms>",
    "empty.json.corrupt-<epoch_ms>",
    "good.json",
]
DAMAGED = {"broken", "badutf8", "empty"}


def calls(fixture: str) -> list[dict[str, object]]:
    wanted = ("DefaultSessionStore", "FileIdentityResolver")
    found = [
        group for group in groups() if group["fixture"] == fixture and group["class"] in wanted
    ]
    return cast("list[dict[str, object]]", found[0]["calls"])


def answer(owner: object, call: dict[str, object]) -> object:
    arguments = cast("list[object]", call["args"])
    keywords = cast("dict[str, object]", call["kwargs"])
    given = getattr(owner, str(call["call"]))(*arguments, **keywords)
    return settled(plain(given), call)


def settled(value: object, call: dict[str, object]) -> object:
    if call.get("unordered") and isinstance(value, list):
        return sorted(value, key=lambda item: json.dumps(item, sort_keys=True))
    return value


@pytest.mark.parametrize("kind", [DefaultSessionStore, praisonai.DefaultSessionStore])
def test_a_directory_of_the_peer_gives_every_answer_that_it_gave_there(
    kind: type[DefaultSessionStore], tmp_path: Path
) -> None:
    directory = copy_of("plain", tmp_path)
    before = {file.name: file.read_bytes() for file in directory.glob("*.json")}
    store = kind(str(directory))

    answers = [answer(store, call) for call in calls("plain")]

    assert len(answers) == 86
    assert answers == [settled(call["returns"], call) for call in calls("plain")]
    assert {file.name: file.read_bytes() for file in directory.glob("*.json")} == before


def test_damaged_files_of_the_peer_raise_where_they_are_asked_for_and_stay(tmp_path: Path) -> None:
    directory = copy_of("corrupt", tmp_path)
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    store = DefaultSessionStore(str(directory))

    for call in calls("corrupt"):
        asked = str(cast("list[str]", call["args"] or [""])[0])
        if call["call"] == "session_exists":
            assert answer(store, call) is True
        elif call["call"] == "export_all" or asked in DAMAGED:
            with pytest.raises(SessionDamagedError, match=r"\.json"):
                answer(store, call)
        else:
            assert answer(store, call) == settled(call["returns"], call)

    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before


def test_damaged_files_give_the_peers_answers_in_a_store_that_is_not_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRAISONAI_HOME", str(tmp_path / "home"))
    directory = copy_of("corrupt", tmp_path)
    before = sorted(file.read_bytes() for file in directory.glob("*.json"))
    store = DefaultSessionStore(str(directory), strict=False)

    for call in calls("corrupt"):
        if "raises" in call:
            assert call["raises"] == "OSError"
            with pytest.raises(OSError, match=r"\.json"):
                answer(store, call)
        else:
            assert answer(store, call) == settled(call["returns"], call)

    found = sorted(directory.glob("*.json*"))
    names = [re.sub(r"\d{13}$", "<epoch_ms>", file.name) for file in found]
    kept = [name for name in names if not name.endswith(".lock")]
    assert kept == FILES_AFTER
    assert sorted(file.read_bytes() for file in found if ".lock" not in file.name) == before


def test_the_links_of_the_peer_are_read(tmp_path: Path) -> None:
    resolver = FileIdentityResolver(copy_of("identity", tmp_path) / "identity.json")

    for call in calls("identity"):
        given = getattr(resolver, str(call["call"]))(*cast("list[str]", call["args"]))
        wanted = call["returns"]
        if isinstance(wanted, list):
            given = [{"__type__": "IdentityLink", **vars(link)} for link in given]
        assert given == wanted

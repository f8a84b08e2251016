"""The files of sessions: one for each id, that of the peer where it can be."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore

if TYPE_CHECKING:
    from pathlib import Path

FOLDED = ["a:b", "a/b", "a_b", "a\\b", "a b", "a.b", "a%3Ab"]
AWKWARD = [
    "Chat",
    "chat",
    "Caf\u00e9",
    "Cafe\u0301",
    "CON",
    "nul",
    "x.",
    "x ",
    "l" * 300,
    "m" * 250 + "one end",
    "m" * 250 + "another",
    "\U0001f600" * 255,
    "..",
    "../../victim",
    "/abs",
]


@pytest.mark.parametrize("ids", [FOLDED, FOLDED[::-1], AWKWARD])
def test_every_id_has_a_history_of_its_own(ids: list[str], tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path / "sessions"))

    for session_id in ids:
        store.add_user_message(session_id, f"said in {session_id}")

    again = DefaultSessionStore(str(tmp_path / "sessions"))
    for session_id in ids:
        said = [{"role": "user", "content": f"said in {session_id}"}]
        assert again.get_chat_history(session_id) == said
    assert sorted(str(row["session_id"]) for row in again.list_sessions()) == sorted(ids)
    assert [file.name for file in tmp_path.iterdir()] == ["sessions"]


def test_file_names_differ_where_neither_case_nor_composition_counts(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))

    for session_id in AWKWARD:
        store.add_user_message(session_id, "x")

    names = [file.name for file in tmp_path.glob("*.json")]
    folded = {unicodedata.normalize("NFC", name).casefold() for name in names}
    assert len(folded) == len(AWKWARD)
    assert all(len(file.name.encode()) <= 255 for file in tmp_path.iterdir())
    assert not {"con.json", "nul.json"} & folded


def test_deleting_one_of_two_ids_that_fold_together_leaves_the_other(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    for session_id in ("a/b", "a:b"):
        store.add_user_message(session_id, session_id)

    store.delete_session("a/b")

    assert not store.session_exists("a/b")
    assert store.get_chat_history("a/b") == []
    assert store.get_chat_history("a:b") == [{"role": "user", "content": "a:b"}]
    store.add_user_message("a/b", "anew")
    assert store.get_chat_history("a:b") == [{"role": "user", "content": "a:b"}]


def test_the_first_of_them_has_the_file_of_the_peer(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))

    store.add_user_message("team/alpha:main", "x")

    stored = json.loads((tmp_path / "team_alpha_main.json").read_text(encoding="utf-8"))
    assert stored["session_id"] == "team/alpha:main"


def test_letters_are_what_python_takes_for_letters(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))

    store.add_user_message("\u00bd\u0663\u93e1\u093e\u24b6!", "x")

    assert (tmp_path / "\u00bd\u0663\u93e1___.json").exists()


def test_an_empty_id_is_refused(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))

    with pytest.raises(ValueError, match="session_id"):
        store.add_user_message("", "x")

    assert not list(tmp_path.iterdir())

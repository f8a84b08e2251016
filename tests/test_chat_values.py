"""What a message may hold: what comes back equal, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore

if TYPE_CHECKING:
    from pathlib import Path


def refuse_constant(name: str) -> object:
    raise ValueError(name)


@pytest.fixture
def store(tmp_path: Path) -> DefaultSessionStore:
    """Returns an empty store."""
    return DefaultSessionStore(str(tmp_path))


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        10**40,
        1767322800.25,
        5e-324,
        1e22,
        -0.0,
        True,
        None,
        {"z": [1, {"a": None}], "\u00e9": "\0\x1b\uffff\u2028\U0001f600"},
        [],
        {},
        "abc\0hidden tail",
    ],
)
def test_a_value_comes_back_equal_in_value_and_type(
    value: object, store: DefaultSessionStore, tmp_path: Path
) -> None:
    store.add_message("s", "user", "x", {"value": value})

    found = DefaultSessionStore(str(tmp_path)).get_session("s").messages[0].metadata["value"]
    text = (tmp_path / "s.json").read_text(encoding="utf-8")
    stored = json.loads(text, parse_constant=refuse_constant)
    assert repr(found) == repr(value)
    assert repr(stored["messages"][0]["metadata"]["value"]) == repr(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (float("-inf"), ValueError),
        ("abc\ud83d", ValueError),
        (b"x", TypeError),
        ({1, 2}, TypeError),
        ((1, 2), TypeError),
        ({1: 2}, TypeError),
        ({None: 2}, TypeError),
        (object(), TypeError),
    ],
)
def test_what_would_not_come_back_equal_is_refused_by_its_place(
    value: object, error: type[Exception], store: DefaultSessionStore, tmp_path: Path
) -> None:
    store.add_message("s", "user", "before")
    before = (tmp_path / "s.json").read_bytes()

    with pytest.raises(error, match=r"^\$\.metadata\.args\[1\]"):
        store.add_message("s", "user", "x", {"args": [0, value]})

    assert (tmp_path / "s.json").read_bytes() == before
    assert [message["content"] for message in store.get_chat_history("s")] == ["before"]


def test_a_value_nested_too_deeply_is_refused_without_a_crash(store: DefaultSessionStore) -> None:
    value: list[object] = []
    for _ in range(2000):
        value = [value]

    with pytest.raises(ValueError, match="deep"):
        store.add_message("s", "user", "x", {"value": value})


def test_text_with_a_nul_is_kept_whole_and_found(store: DefaultSessionStore) -> None:
    store.add_user_message("s", "abc\0hidden tail")

    hits = store.search("hidden")

    assert [hit.session_id for hit in hits] == ["s"]
    assert hits[0].messages[0]["content"] == "abc\0hidden tail"


def test_a_document_in_the_dialect_of_python_is_read_and_kept(
    store: DefaultSessionStore, tmp_path: Path
) -> None:
    odd = '{"session_id": "s", "messages": [{"role": "user", "content": "a\\ud83d", "n": NaN}]}'
    (tmp_path / "s.json").write_text(odd, encoding="utf-8")

    store.add_user_message("s", "more")

    text = (tmp_path / "s.json").read_text(encoding="utf-8")
    first = json.loads(text)["messages"][0]
    assert first["content"] == "a\ud83d"
    assert first["n"] != first["n"]


@pytest.mark.parametrize("size", [10 << 20, 64 << 20])
def test_a_large_message_is_stored_whole(
    size: int, store: DefaultSessionStore, tmp_path: Path
) -> None:
    store.add_user_message("s", "x" * size)

    found = DefaultSessionStore(str(tmp_path)).get_chat_history("s")

    assert len(str(found[0]["content"])) == size

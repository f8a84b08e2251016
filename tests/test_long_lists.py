"""Lists of messages that grow for long, and are changed in places where nobody appends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = 5_000


def conversation(count: int) -> list[dict[str, object]]:
    """Returns messages of which each is another object with another text."""
    return [{"role": "user", "content": f"message {number}"} for number in range(count)]


@pytest.mark.parametrize("count", [3, 2_000, LONG])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_message_changed_in_place_is_read_back_as_it_is_now(
    store: SessionStore, count: int, place: int
) -> None:
    messages = conversation(count)
    store.save_conversation("alice", messages)

    messages[place]["content"] = "changed in place"
    store.save_conversation("alice", messages)

    assert store.load_conversation("alice") == messages


@pytest.mark.parametrize("verb", ["flush", "checkpoint", "close"])
def test_a_change_far_back_in_a_long_list_is_stored_by_the_next(path: Path, verb: str) -> None:
    messages = conversation(LONG)
    store = SessionStore(path)
    for number in range(3):
        messages.append({"role": "assistant", "content": f"answer {number}"})
        store.save_conversation("alice", messages)
        messages[LONG // 2 + number]["content"] = f"changed {number}"
    store.save_conversation("alice", messages)

    settle: Callable[[], None] = getattr(store, verb)
    settle()

    with SessionStore.open_readonly(path) as reader:
        assert reader.load_conversation("alice") == messages
    store.close()


def test_a_change_after_the_save_belongs_to_the_next_one(store: SessionStore) -> None:
    messages = conversation(3)
    store.save_conversation("alice", messages)

    messages[0]["content"] = "too late"

    assert store.load_conversation("alice") == conversation(3)


def test_messages_made_anew_each_time_are_stored_once(path: Path) -> None:
    with SessionStore(path) as store:
        for turn in range(1, 60):
            store.save_conversation("alice", [dict(m) for m in conversation(turn * 20)])
        turns = store.snapshots("alice")
    size = path.stat().st_size

    assert len(turns) == 59
    assert size < 6 * len(str(conversation(59 * 20)))

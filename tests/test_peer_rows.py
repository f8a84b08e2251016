"""The rows of a snapshot that other readers combine are of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kohakuvault import KVault

from amberlog import SessionStore
from torture.places import run

if TYPE_CHECKING:
    from pathlib import Path

# Lists above 16 KiB are not rewritten for the peer at each snapshot.
SAVING = """
import os, sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
messages = [{"role": "user", "content": "x" * 30_000}]
for turn in range(1, 6):
    messages.append({"role": "assistant", "content": f"answer {turn}"})
    for _ in range(3):
        _, last = store.append_event("alice", "text", {"content": "words"}, turn_index=turn)
    branch = {"turn_index": turn, "branch_id": 1, "parent_branch_path": []}
    store.save_branch_snapshot("alice", messages, branch=branch, watermark=last)
if "plain" in sys.argv:
    store.save_conversation("alice", messages + [{"role": "user", "content": "more"}])
if "close" in sys.argv:
    store.close()
else:
    os.kill(os.getpid(), 9)
"""


def turn_of(state: KVault) -> object:
    """Returns the turn that the branch of the snapshot names."""
    branch: object = state["alice:snapshot_branch"]
    return branch["turn_index"] if isinstance(branch, dict) else None


def peer_view(path: Path) -> tuple[int, object, object, object]:
    conversation, state = KVault(str(path), table="conversation"), KVault(str(path), table="state")
    for vault in (conversation, state):
        vault.enable_auto_pack()
    try:
        return (
            len(conversation["alice"]),
            state["alice:snapshot_event_id"],
            turn_of(state),
            state["counters:max_event_id"],
        )
    finally:
        conversation.close()
        state.close()


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("how", ["kill", "plain"])
def test_after_a_kill_the_watermark_is_that_of_the_newest_list(
    how: str, path: Path, *, readonly: bool
) -> None:
    run(SAVING, path, how)

    with SessionStore.open_readonly(path) if readonly else SessionStore(path) as store:
        messages = store.load_conversation("alice")
        stored = store.conversation["alice"]
        listed = dict(store.state.items(prefix="alice:"))
        watermark = store.state["alice:snapshot_event_id"]
        branch = store.state["alice:snapshot_branch"]

    assert stored == messages
    assert len(messages or ()) == (7 if how == "plain" else 6)
    assert watermark == listed[b"alice:snapshot_event_id"] == 15
    assert branch == listed[b"alice:snapshot_branch"]
    assert branch == {"turn_index": 5, "branch_id": 1, "parent_branch_path": []}


def test_the_close_after_a_kill_brings_the_peers_rows_level(path: Path) -> None:
    run(SAVING, path, "kill")

    SessionStore(path).close()

    assert peer_view(path) == (6, 15, 5, 15)


def test_a_plain_snapshot_keeps_the_watermark_of_the_tagged_one_before_it(path: Path) -> None:
    run(SAVING, path, "plain", "close")

    assert peer_view(path) == (7, 15, 5, 15)


def test_a_second_handle_sees_the_snapshot_that_the_first_has_not_refreshed(path: Path) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "x" * 30_000}]
    with SessionStore(path) as one, SessionStore(path) as other:
        for turn in range(1, 4):
            messages.append({"role": "assistant", "content": f"answer {turn}"})
            branch = {"turn_index": turn, "branch_id": 1, "parent_branch_path": []}
            one.save_branch_snapshot("alice", messages, branch=branch, watermark=turn)
            seen = (other.load_conversation("alice"), other.state["alice:snapshot_event_id"])

            assert seen == (messages, turn)

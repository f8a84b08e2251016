"""The peer's own store on our files, and ours on its: in turn and at once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore, HierarchicalSessionStore
from support.children import environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
peer = pytest.importorskip("praisonaiagents.session")

WRITING = """
import sys
if sys.argv[2] == "peer":
    from praisonaiagents.session import DefaultSessionStore
else:
    from amberlog.chat import DefaultSessionStore
store = DefaultSessionStore(sys.argv[1], retention="keep_all", lock_timeout=60)
for number in range(int(sys.argv[3])):
    assert store.add_message("s", "user", f"{sys.argv[2]} {number}")
"""


def test_both_write_in_turn_and_read_all(tmp_path: Path) -> None:
    ours = DefaultSessionStore(str(tmp_path), retention="keep_all")
    theirs = peer.DefaultSessionStore(str(tmp_path), retention="keep_all")

    for number in range(100):
        ours.add_message("s", "user", f"{2 * number}", {"n": number})
        theirs.add_message("s", "assistant", f"{2 * number + 1}", {"n": number})

    expected = [str(number) for number in range(200)]
    for store in (ours, theirs):
        assert [message["content"] for message in store.get_chat_history("s")] == expected
    assert ours.get_session("s").to_dict() == theirs.get_session("s").to_dict()


def test_both_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    count = 250
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITING, str(tmp_path), name, str(count)], env=environment()
        )
        for name in ("ours", "peer")
    ]

    codes = [writer.wait(timeout=120) for writer in writers]

    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    said = [message["content"] for message in stored["messages"]]
    assert codes == [0, 0]
    for name in ("ours", "peer"):
        own = [text for text in said if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(count)]


def test_the_peer_reads_our_checkpoints_windows_and_snapshots(tmp_path: Path) -> None:
    ours = HierarchicalSessionStore(str(tmp_path), active_window=6)
    theirs = peer.HierarchicalSessionStore(str(tmp_path), active_window=6)
    for number in range(15):
        ours.add_message("s", "user", f"turn {number}")
    ours.append_compaction_checkpoint("s", "fifteen turns")
    snapshot = ours.create_snapshot("s", "here")
    ours.add_message("s", "user", "after")
    forked = ours.fork_session("s", 2)

    assert theirs.get_working_history("s") == ours.get_working_history("s")
    assert theirs.get_session("s").to_dict() == ours.get_extended_session("s").to_dict()
    assert theirs.get_chat_history(forked) == ours.get_chat_history(forked)
    assert theirs.get_children("s") == [forked]
    assert theirs.revert_to_snapshot("s", snapshot)
    assert [message["content"] for message in ours.get_working_history("s")] == ["fifteen turns"]

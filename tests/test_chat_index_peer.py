"""One index that our processes and the peer's keep, in turn and at once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import SqliteSessionStore
from support.chat_index import asked, write
from support.children import environment, run_code

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
pytest.importorskip("praisonaiagents.session")

# Reads calls, one a line, and prints what each returns.
PEER = """
import json, sys
from praisonaiagents.session import SqliteSessionStore
store = SqliteSessionStore(sys.argv[1])
for line in sys.stdin:
    verb, *arguments = json.loads(line)
    answer = getattr(store, verb)(*arguments)
    if verb == "search":
        answer = [[hit.session_id, hit.score] for hit in answer]
    if verb == "get_by_gateway_session":
        answer = answer and answer.session_id
    print(json.dumps(answer), flush=True)
"""
TEXTS = "SELECT session_id, content FROM session_fts ORDER BY session_id"


class Peer:
    """A process of the peer that is asked call by call."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER, str(directory)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, *call: object) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        return cast("object", json.loads(self.process.stdout.readline()))

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


def test_a_peer_that_runs_finds_what_we_wrote_and_we_what_it_writes(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"s{number}", [f"shared word{number}"], gateway_session_id=f"gw{number}")
    ours = SqliteSessionStore(str(tmp_path))
    ours.settle_index()
    peer = Peer(tmp_path)

    for turn in range(4):
        assert len(cast("list[object]", peer.call("search", "shared"))) == 5
        ours.add_user_message("s1", f"ours{turn}")
        ours.set_gateway_info("s2", f"later{turn}")
        ours.settle_index()
        assert peer.call("search", f"ours{turn}") == [["s1", 3.0]]
        assert peer.call("get_by_gateway_session", f"later{turn}") == "s2"

        peer.call("add_message", "s3", "user", f"theirs{turn}")
        peer.call("set_gateway_info", "s4", f"moved{turn}")
        assert [hit.session_id for hit in ours.search(f"theirs{turn}")] == ["s3"]
        routed = ours.get_by_gateway_session(f"moved{turn}")
        assert routed is not None
        assert routed.session_id == "s4"
    ours.delete_session("s0")
    ours.settle_index()

    assert peer.call("search", "word0") == []
    peer.end()
    assert asked(ours.db_path, TEXTS) == [
        ["s1", "shared word1\nours0\nours1\nours2\nours3"],
        ["s2", "shared word2"],
        ["s3", "shared word3\ntheirs0\ntheirs1\ntheirs2\ntheirs3"],
        ["s4", "shared word4"],
    ]


def test_a_peer_that_starts_finds_what_was_written_a_moment_ago(tmp_path: Path) -> None:
    write(tmp_path, "a", ["hello"], gateway_session_id="gw", agent_id="agent")
    ours = SqliteSessionStore(str(tmp_path))
    ours.settle_index()

    ours.add_user_message("a", "zebra")

    peer = Peer(tmp_path)
    assert peer.call("search", "zebra") == [["a", 3.0]]
    assert peer.call("list_sessions_by_gateway_agent", "agent") == ["a"]
    peer.end()


def test_an_index_that_the_peer_made_is_taken_over(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"s{number}", [f"shared word{number}"])
    peer = Peer(tmp_path)
    peer.call("search", "shared")
    peer.end()

    ours = SqliteSessionStore(str(tmp_path))
    ours.settle_index()

    assert [hit.session_id for hit in ours.search("word1")] == ["s1"]
    assert asked(ours.db_path, TEXTS) == [[f"s{n}", f"shared word{n}"] for n in range(3)]
    assert asked(ours.db_path, "PRAGMA integrity_check") == [["ok"]]


def test_both_write_at_once_and_every_word_is_found(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "if sys.argv[2] == 'peer': from praisonaiagents.session import SqliteSessionStore\n"
        "else: from amberlog.chat import SqliteSessionStore\n"
        "store = SqliteSessionStore(sys.argv[1], lock_timeout=60)\n"
        "for n in range(40):\n"
        "    assert store.add_message(f's{n % 4}', 'user', f'{sys.argv[2]}{n} said')\n"
        "    store.search('said')\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], env=environment())
        for name in ("ours", "peer")
    ]

    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]

    ours = SqliteSessionStore(str(tmp_path))
    for name in ("ours", "peer"):
        for number in range(40):
            hits = [hit.session_id for hit in ours.search(f"{name}{number} said")]
            assert hits[0] == f"s{number % 4}"
    ours.settle_index()
    told = run_code(
        "import json, sys; from praisonaiagents.session import SqliteSessionStore\n"
        "store = SqliteSessionStore(sys.argv[1])\n"
        "print(json.dumps([len(store.search(w)) for w in ('ours39', 'peer39')]))",
        tmp_path,
    )
    assert json.loads(told.splitlines()[-1]) == [1, 1]
    assert len(asked(ours.db_path, TEXTS)) == 4

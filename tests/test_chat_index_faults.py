"""Where the index cannot be used, or was left half-way: the files answer, and nothing is lost."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import subprocess
import sys
from pathlib import Path

import pytest

from amberlog.chat import SqliteSessionStore
from support.chat_index import asked, write
from support.children import environment

INDEXING = """
import sys
from amberlog.chat import SqliteSessionStore
store = SqliteSessionStore(sys.argv[1])
print("ready", flush=True)
for number in range(100000):
    store.add_message(f"s{number % 40}", "user", f"said {number} " + "words " * 40)
    if number % 7 == 0:
        store.search("said", limit=100)
    if number % 11 == 0:
        store.settle_index()
    print(number, flush=True)
"""

LAST_WORDS = """
import os, signal, sys
from amberlog.chat import SqliteSessionStore
store = SqliteSessionStore(sys.argv[1])
store.add_message("a", "user", "the last zebra")
os.kill(os.getpid(), signal.SIGKILL)
"""


def answers(store: SqliteSessionStore) -> list[object]:
    routed = store.get_by_gateway_session("gw")
    return [
        [hit.session_id for hit in store.search("ello")],
        [row["session_id"] for row in store.list_sessions()],
        routed and routed.session_id,
        store.list_sessions_by_gateway_agent("agent"),
    ]


RIGHT = [["a"], ["a"], "a", ["a"]]


def fill(directory: Path) -> None:
    fields = {"gateway_session_id": "gw", "agent_id": "agent"}
    write(directory, "a", ["hello there"], **fields)


@pytest.mark.parametrize("keeping", ["fts5", "like", "off"])
def test_every_answer_is_right_with_full_text_without_it_and_without_an_index(
    keeping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMBERLOG_CHAT_INDEX", keeping)
    fill(tmp_path)
    store = SqliteSessionStore(str(tmp_path))

    assert answers(store) == RIGHT
    store.settle_index()

    assert store.index_fault() is None
    assert (tmp_path / "sessions_index.db").is_file() == (keeping != "off")
    if keeping != "off":
        rows = asked(store.db_path, "SELECT session_id, content FROM session_fts")
        shape = asked(store.db_path, "SELECT sql FROM sqlite_master WHERE name = 'session_fts'")
        assert rows == [["a", "hello there"]]
        assert ("USING fts5" in str(shape)) == (keeping == "fts5")


def test_a_text_table_that_cannot_be_written_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    SqliteSessionStore(str(tmp_path)).settle_index()
    monkeypatch.setenv("AMBERLOG_CHAT_INDEX", "like")
    write(tmp_path, "a", ["hello zebra"])
    store = SqliteSessionStore(str(tmp_path))

    assert [hit.session_id for hit in store.search("zebra")] == ["a"]
    store.settle_index()

    assert asked(store.db_path, "SELECT * FROM session_meta") == []


def test_a_switch_of_no_meaning_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMBERLOG_CHAT_INDEX", "maybe")

    with pytest.raises(ValueError, match="AMBERLOG_CHAT_INDEX must be one of"):
        SqliteSessionStore(str(tmp_path))


def test_a_path_that_cannot_be_opened_leaves_every_answer_right(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    store = SqliteSessionStore(str(tmp_path), str(tmp_path / "file" / "index.db"))

    store.add_user_message("a", "more")

    assert answers(store) == RIGHT
    assert "file" in str(store.index_fault())


def test_a_file_that_is_no_index_is_put_aside(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "sessions_index.db").write_bytes(b"precious, and no database " * 300)
    store = SqliteSessionStore(str(tmp_path))

    assert answers(store) == RIGHT

    [aside] = tmp_path.glob("sessions_index.db.corrupt-*")
    assert aside.read_bytes().startswith(b"precious")
    assert store.index_fault() is None


def test_an_index_whose_tables_or_file_are_taken_away_is_made_anew(tmp_path: Path) -> None:
    fill(tmp_path)
    store = SqliteSessionStore(str(tmp_path))
    assert answers(store) == RIGHT

    asked(store.db_path, "DROP TABLE amber_session")
    assert answers(store) == RIGHT
    Path(store.db_path).unlink()

    assert answers(store) == RIGHT
    store.add_user_message("a", "more")
    assert [hit.session_id for hit in store.search("more")] == ["a"]


def test_a_kill_amid_indexing_loses_no_session_and_leaves_no_lie(tmp_path: Path) -> None:
    generator = random.Random(3)
    for turn in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", INDEXING, str(tmp_path)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        # The moment of the kill is some moment behind so many writes.
        for _ in range(generator.randrange(2, 60)):
            writer.stdout.readline()
        writer.kill()
        writer.wait()
        writer.stdout.close()

        index = tmp_path / "sessions_index.db"
        stored = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in tmp_path.glob("*.json")
        }
        text = {
            name: "\n".join(message["content"] for message in one["messages"])
            for name, one in stored.items()
        }
        told = asked(
            index,
            "SELECT session_id, content FROM session_meta JOIN session_fts USING (session_id)",
        )
        assert all(text[str(name)] == content for name, content in told), turn
        assert asked(index, "PRAGMA integrity_check") == [["ok"]]
        store = SqliteSessionStore(str(tmp_path))
        found = {hit.session_id: hit.score for hit in store.search("said", limit=100)}
        factor = {name: 0.25 if len(one["messages"]) >= 4 else 1 for name, one in stored.items()}
        assert {name: score / factor[name] for name, score in found.items()} == {
            name: 3.0 * len(one["messages"]) for name, one in stored.items()
        }
        del store


def test_a_writer_that_dies_after_its_write_leaves_the_peer_to_read_the_file(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a", ["hello"])
    write(tmp_path, "b", ["hello"])
    SqliteSessionStore(str(tmp_path)).settle_index()

    writer = subprocess.run(
        [sys.executable, "-c", LAST_WORDS, str(tmp_path)], env=environment(), check=False
    )

    assert writer.returncode == -9
    index = tmp_path / "sessions_index.db"
    assert asked(index, "SELECT session_id FROM session_meta") == [["b"]]
    store = SqliteSessionStore(str(tmp_path))
    assert [hit.session_id for hit in store.search("zebra")] == ["a"]


def test_processes_that_index_at_once_agree(tmp_path: Path) -> None:
    script = (
        "import sys; from amberlog.chat import SqliteSessionStore\n"
        "store = SqliteSessionStore(sys.argv[1])\n"
        "for n in range(25):\n"
        "    store.add_user_message(f'{sys.argv[2]}-{n}', f'said by {sys.argv[2]}')\n"
        "    found = [hit.session_id for hit in store.search('said', limit=200)]\n"
        "    assert f'{sys.argv[2]}-{n}' in found\n"
        "assert store.index_fault() is None, store.index_fault()\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], env=environment())
        for name in ("p", "q", "r")
    ]

    assert [writer.wait(timeout=300) for writer in writers] == [0, 0, 0]

    store = SqliteSessionStore(str(tmp_path))
    expected = {f"{name}-{n}" for name, n in itertools.product("pqr", range(25))}
    assert {hit.session_id for hit in store.search("said", limit=200)} == expected
    assert {row["session_id"] for row in store.list_sessions(None)} == expected


def test_a_forked_child_has_an_index_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path)
    store = SqliteSessionStore(str(tmp_path))
    assert answers(store) == RIGHT
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        store.add_user_message("b", "hello from the child")
        sender.send(sorted(hit.session_id for hit in store.search("ello")))

    process = context.Process(target=child)
    process.start()
    said = receiver.recv()
    process.join(60)

    assert said == ["a", "b"]
    assert sorted(hit.session_id for hit in store.search("ello")) == ["a", "b"]
    assert store.index_fault() is None

"""The transcript store: sessions as rows of one database, shared with other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import DefaultSessionStore, SqliteTranscriptStore
from amberlog.errors import (
    SessionBusyError,
    SessionDamagedError,
    SessionGoneError,
    SessionReadOnlyError,
)
from support.chat import copy_of
from support.children import environment, run_code

if TYPE_CHECKING:
    from pathlib import Path

WRITING = """
import sys
from amberlog.chat import SqliteTranscriptStore
store = SqliteTranscriptStore(sys.argv[1], retention="keep_all")
for number in range(int(sys.argv[3])):
    store.add_message("s", "user", f"{sys.argv[2]} {number}")
"""

APPENDING = """
import sys
from amberlog.chat import SqliteTranscriptStore
store = SqliteTranscriptStore(sys.argv[1], retention="keep_all")
for number in range(100000):
    store.add_message("s", "user", str(number))
    print(number, flush=True)
"""


# In a process of its own: closing a file drops the locks that this process has on it.
QUERYING = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/sessions.db")
print(json.dumps(connection.execute(sys.argv[2], sys.argv[3:]).fetchall()))
connection.commit()
"""

HOLDING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/sessions.db", isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


def query(directory: Path, statement: str, *arguments: str) -> list[list[object]]:
    """Returns what plain SQLite says of the database."""
    rows = json.loads(run_code(QUERYING, directory, statement, *arguments))
    return cast("list[list[object]]", rows)


def stored(directory: Path, session_id: str) -> dict[str, object]:
    """Returns a row's document, read without the package."""
    rows = query(directory, "SELECT data FROM sessions WHERE session_id = ?", session_id)
    return cast("dict[str, object]", json.loads(str(rows[0][0])))


def texts(session: dict[str, object]) -> list[object]:
    return [one["content"] for one in cast("list[dict[str, object]]", session["messages"])]


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_session_is_a_row_in_the_form_of_the_peer(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    store.add_message("a/b", "user", "Grüße,\n  zwei", {"k": [1, None]})
    store.set_gateway_info("a/b", "gw", "bot")

    (row,) = query(tmp_path, "SELECT * FROM sessions")
    columns = [column[1] for column in query(tmp_path, "PRAGMA table_info(sessions)")]
    document = json.loads(str(row[1]))
    assert columns == [
        "session_id",
        "data",
        "agent_name",
        "gateway_session_id",
        "agent_id",
        "updated_at",
    ]
    assert row[1] == json.dumps(document, ensure_ascii=False)
    assert document["messages"][0]["content"] == "Grüße,\n  zwei"
    assert row[0] == "a/b"
    assert row[3:] == ["gw", "bot", document["updated_at"]]
    assert not list(tmp_path.glob("*.json*"))


def test_the_json_sessions_beside_a_new_database_become_its_own(tmp_path: Path) -> None:
    directory = copy_of("plain", tmp_path)
    before = {file.name: file.read_bytes() for file in directory.glob("*.json")}
    plain = {row["session_id"] for row in DefaultSessionStore(str(directory)).list_sessions(None)}

    store = SqliteTranscriptStore(str(directory))

    assert {row["session_id"] for row in store.list_sessions(None)} == plain
    assert {file.name: file.read_bytes() for file in directory.glob("*.json")} == before
    assert store.get_working_history("ckpt-1")[0]["role"] == "system"


def test_a_database_with_sessions_takes_nothing_over(tmp_path: Path) -> None:
    SqliteTranscriptStore(str(tmp_path)).add_message("one", "user", "hi")
    DefaultSessionStore(str(tmp_path)).add_message("two", "user", "hi")

    store = SqliteTranscriptStore(str(tmp_path))

    assert not store.session_exists("two")
    assert store.session_exists("one")


def test_a_file_that_is_no_session_is_named_when_it_cannot_be_taken_over(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("[]")
    DefaultSessionStore(str(tmp_path)).add_message("good", "user", "hi")

    store = SqliteTranscriptStore(str(tmp_path))

    assert [row["session_id"] for row in store.list_sessions()] == ["good"]
    assert [path for path, _ in store.unreadable_sessions()] == [str(tmp_path / "broken.json")]
    assert (tmp_path / "broken.json").read_text() == "[]"


def test_ids_that_fold_to_one_file_name_are_rows_of_their_own(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    for session_id in ("a/b", "a:b", "a_b", "..", "x" * 300):
        store.add_message(session_id, "user", session_id)

    assert all(
        store.get_chat_history(one) == [{"role": "user", "content": one}]
        for one in ("a/b", "a:b", "a_b", "..", "x" * 300)
    )


def test_lists_and_routes_are_in_order_of_the_last_write(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    for session_id in ("one", "two", "three"):
        store.set_gateway_info(session_id, f"gw-{session_id}", "bot")
    store.add_message("one", "user", "again")

    assert [row["session_id"] for row in store.list_sessions()] == ["one", "three", "two"]
    assert [row["session_id"] for row in store.list_sessions(2)] == ["one", "three"]
    assert store.list_sessions_by_gateway_agent("bot") == ["one", "three", "two"]
    found = store.get_by_gateway_session("gw-two")
    assert found is not None
    assert found.session_id == "two"
    assert store.get_by_gateway_session("gw-none") is None


def test_a_list_has_titles_and_may_be_of_all(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    for number in range(60):
        store.rename_session(f"s{number}", f"title {number}")

    rows = store.list_sessions(None)
    assert len(rows) == 60
    assert rows[0]["title"] == "title 59"
    assert len(store.list_sessions()) == 50


def test_an_outside_id_given_twice_leads_to_the_last_session(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    store.set_gateway_info("one", "gw")
    store.set_gateway_info("two", "gw")
    found = store.get_by_gateway_session("gw")
    store.clear_gateway_info("two")

    assert found is not None
    assert found.session_id == "two"
    assert store.get_by_gateway_session("gw") is None


def test_a_search_finds_archived_messages_within_words(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path), retention="compact", active_window=2)
    for number in range(6):
        store.add_message("s", "user", f"the migration {number}")
    store.add_message("other", "user", "東京都の天気")

    assert [hit.session_id for hit in store.search("igrat")] == ["s"]
    assert store.search("migration 0")[0].messages[0]["archived"] is True
    assert [hit.session_id for hit in store.search("東京")] == ["other"]
    assert store.search("  ") == []


def test_keys_that_nobody_knows_stay_at_every_level(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))
    session: dict[str, object] = {
        "session_id": "s",
        "messages": [{"role": "user", "content": "hi", "mine": 1}],
        "x": {"deep": [None]},
    }
    store.import_sessions({"version": 1, "sessions": [session]})

    store.add_message("s", "user", "more")

    document = stored(tmp_path, "s")
    assert document["x"] == {"deep": [None]}
    assert cast("list[dict[str, object]]", document["messages"])[0]["mine"] == 1


def test_what_another_connection_wrote_is_seen_at_once(tmp_path: Path) -> None:
    ours, other = SqliteTranscriptStore(str(tmp_path)), SqliteTranscriptStore(str(tmp_path))
    ours.add_message("s", "user", "one")

    other.add_message("s", "user", "two")
    seen = ours.get_chat_history("s")
    ours.add_message("s", "user", "three")

    assert [one["content"] for one in seen] == ["one", "two"]
    assert texts(stored(tmp_path, "s")) == ["one", "two", "three"]


def test_eight_processes_lose_no_message(tmp_path: Path) -> None:
    count = 40
    SqliteTranscriptStore(str(tmp_path))

    writers = [start(WRITING, tmp_path, str(writer), str(count)) for writer in range(8)]
    codes = []
    for writer in writers:
        with writer:
            codes.append(writer.wait(timeout=120))

    found = texts(stored(tmp_path, "s"))
    assert codes == [0] * 8
    assert sorted(map(str, found)) == sorted(f"{w} {n}" for w in range(8) for n in range(count))


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    acknowledged = -1
    with start(APPENDING, tmp_path) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= 50:
                writer.kill()
                break

    found = texts(stored(tmp_path, "s"))
    assert found[: acknowledged + 1] == [str(number) for number in range(acknowledged + 1)]
    assert SqliteTranscriptStore(str(tmp_path)).verify() == []


def test_a_store_goes_on_in_a_forked_child(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))
    store.add_message("s", "user", "parent")

    child = os.fork()
    if child == 0:
        os._exit(0 if store.add_message("s", "user", "child") else 1)
    _, status = os.waitpid(child, 0)
    store.add_message("s", "user", "parent again")

    assert status == 0
    assert texts(stored(tmp_path, "s")) == ["parent", "child", "parent again"]


def test_a_write_waits_no_longer_than_it_was_told(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path), lock_timeout=0.05)
    store.add_message("s", "user", "one")

    with start(HOLDING, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SessionBusyError):
            store.add_message("s", "user", "two")
        other.communicate()
    store.add_message("s", "user", "three")

    assert texts(stored(tmp_path, "s")) == ["one", "three"]


def test_a_row_that_holds_no_session_raises_and_stays(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))
    store.add_message("good", "user", "hi")
    query(tmp_path, "INSERT INTO sessions (session_id, data) VALUES ('bad', '{mess')")

    with pytest.raises(SessionDamagedError, match=r"sessions\[bad\]"):
        store.get_chat_history("bad")
    with pytest.raises(SessionDamagedError):
        store.add_message("bad", "user", "hi")

    assert [row["session_id"] for row in store.list_sessions()] == ["good"]
    assert len(store.unreadable_sessions()) == 1
    assert query(tmp_path, "SELECT data FROM sessions WHERE session_id = 'bad'") == [["{mess"]]


def test_a_file_that_is_no_database_raises_and_stays(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").write_bytes(b"no database" * 100)

    with pytest.raises(SessionDamagedError):
        SqliteTranscriptStore(str(tmp_path))

    assert (tmp_path / "sessions.db").read_bytes() == b"no database" * 100


def test_a_database_that_was_deleted_takes_no_message(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))
    store.add_message("s", "user", "one")
    (tmp_path / "sessions.db").unlink()

    with pytest.raises(SessionGoneError):
        store.add_message("s", "user", "two")


def test_a_value_that_would_not_come_back_equal_is_refused(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path))

    with pytest.raises(TypeError, match=r"\$\.metadata\.x"):
        store.add_message("s", "user", "hi", {"x": (1,)})

    assert not store.session_exists("s")


def test_a_store_in_memory_leaves_no_file(tmp_path: Path) -> None:
    store = SqliteTranscriptStore(str(tmp_path), ":memory:")

    store.add_message("s", "user", "hi there")

    assert store.search("there")[0].session_id == "s"
    assert store.list_sessions()[0]["message_count"] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_database_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    SqliteTranscriptStore(str(tmp_path)).add_message("s", "user", "hi")
    (tmp_path / "sessions.db").chmod(0o400)

    store = SqliteTranscriptStore(str(tmp_path))

    assert store.get_chat_history("s") == [{"role": "user", "content": "hi"}]
    with pytest.raises(SessionReadOnlyError):
        store.add_message("s", "user", "two")


THEIRS = """
import sys
from praisonaiagents.session.sqlite_transcript_store import SqliteTranscriptStore
store = SqliteTranscriptStore(session_dir=sys.argv[1])
for line in sys.stdin:
    store.add_message("s", "user", line.strip())
    print(len(store.get_chat_history("s")), flush=True)
"""


@pytest.mark.peers
@pytest.mark.filterwarnings("default")
def test_the_peer_and_this_store_write_one_session_in_turns(tmp_path: Path) -> None:
    pytest.importorskip("praisonaiagents")
    ours = SqliteTranscriptStore(str(tmp_path))
    counted = []

    with start(THEIRS, tmp_path) as theirs:
        assert theirs.stdin is not None
        assert theirs.stdout is not None
        for number in range(10):
            ours.add_message("s", "user", f"ours {number}")
            theirs.stdin.write(f"theirs {number}\n")
            theirs.stdin.flush()
            counted.append(int(theirs.stdout.readline()))
        theirs.communicate()

    wanted = [f"{who} {number}" for number in range(10) for who in ("ours", "theirs")]
    assert [one["content"] for one in ours.get_chat_history("s")] == wanted
    assert counted == list(range(2, 21, 2))

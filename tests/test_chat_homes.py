"""Chat sessions carried between JSON files, one database, and bundles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from amberlog import SessionStore
from amberlog.chat import DefaultSessionStore, SqliteTranscriptStore
from amberlog.chat_homes import ChatHome, migrate_sessions, open_home
from amberlog.cli import main
from support.chat import copy_of

if TYPE_CHECKING:
    from pathlib import Path

PLACES = {"json": "json", "transcript": "sessions.db", "bundle": "bundles"}
PAIRS = [(a, b) for a in PLACES for b in PLACES if a != b]
Document = dict[str, object]


def documents(home: ChatHome) -> dict[str, Document | None]:
    return {session_id: home.read(session_id) for session_id in home.ids()}


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and not file.name.endswith((".lock", "-wal", "-shm"))
    }


def filled(kind: str, place: Path) -> Path:
    """Returns a home of the kind with the peer's sessions."""
    json_home = copy_of("plain", place)
    if kind == "json":
        return json_home
    path = place / f"source-{PLACES[kind]}"
    migrate_sessions(open_home("json", json_home), open_home(kind, path))
    return path


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_session_arrives_whole(tmp_path: Path, source: str, target: str) -> None:
    source_home = open_home(source, filled(source, tmp_path))
    path = tmp_path / PLACES[target]

    report = migrate_sessions(source_home, open_home(target, path))

    arrived = documents(open_home(target, path))
    wanted = documents(source_home)
    assert (report.read, len(report.written), report.failed) == (len(wanted), len(wanted), {})
    assert list(arrived) == list(wanted)
    for session_id, document in wanted.items():
        assert document is not None
        found = arrived[session_id]
        assert found is not None
        # A document that is written anew has every key; what was there is equal.
        assert {key: found[key] for key in document} == document


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_done_again_it_changes_nothing(tmp_path: Path, source: str, target: str) -> None:
    place = filled(source, tmp_path)
    path = tmp_path / PLACES[target]
    migrate_sessions(open_home(source, place), open_home(target, path))
    before = documents(open_home(target, path))

    report = migrate_sessions(open_home(source, place), open_home(target, path))

    assert (report.written, report.replaced, report.differing) == ([], [], [])
    assert report.unchanged == report.read
    assert documents(open_home(target, path)) == before


def test_the_source_is_kept_as_it_is(tmp_path: Path) -> None:
    place = copy_of("plain", tmp_path)
    before = {name: text for name, text in files(place).items() if name.endswith(".json")}

    for kind, name in PLACES.items():
        migrate_sessions(open_home("json", place), open_home(kind, tmp_path / f"to-{name}"))

    assert {name: text for name, text in files(place).items() if name.endswith(".json")} == before


def test_a_session_that_differs_is_named_and_left(tmp_path: Path) -> None:
    source, target = DefaultSessionStore(str(tmp_path / "a")), tmp_path / "b.db"
    source.add_message("s", "user", "one")
    migrate_sessions(open_home("json", tmp_path / "a"), open_home("transcript", target))
    source.add_message("s", "user", "two")

    left = migrate_sessions(open_home("json", tmp_path / "a"), open_home("transcript", target))
    count = len(SqliteTranscriptStore(None, str(target)).get_chat_history("s"))
    replaced = migrate_sessions(
        open_home("json", tmp_path / "a"), open_home("transcript", target), overwrite=True
    )

    assert (left.differing, count) == (["s"], 1)
    assert replaced.replaced == ["s"]
    assert len(SqliteTranscriptStore(None, str(target)).get_chat_history("s")) == 2


@pytest.mark.parametrize("target", PLACES)
def test_a_dry_run_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    source = filled("bundle" if target == "json" else "json", tmp_path)
    before = files(tmp_path)

    code = main(
        [
            "chat",
            "migrate",
            str(source),
            str(tmp_path / f"new-{PLACES[target]}"),
            "--to",
            target,
            "--dry-run",
            "--json",
        ]
    )

    report = json.loads(capsys.readouterr().out)
    assert (code, report["dry_run"], len(report["written"])) == (0, True, report["read"])
    assert files(tmp_path) == before


def test_a_bundle_has_the_conversation_for_its_own_readers(tmp_path: Path) -> None:
    chats = DefaultSessionStore(str(tmp_path / "chats"))
    call: Document = {"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    chats.add_message("a/b", "user", "Is it raining?")
    chats.append_compaction_checkpoint("a/b", "The user asks about rain.")
    chats.add_message("a/b", "user", "In Oslo?")
    chats.add_message("a/b", "assistant", "", tool_calls=[call])
    chats.add_message("a/b", "tool", "rain", tool_call_id="c1")
    chats.add_message("a/b", "assistant", "It rains in Oslo.")

    migrate_sessions(
        open_home("json", tmp_path / "chats"), open_home("bundle", tmp_path / "bundles")
    )

    (path,) = (tmp_path / "bundles").iterdir()
    with SessionStore.open_readonly(path) as store:
        history = store.get_working_history("assistant")
        found = store.search("raining")
        events = [event["type"] for event in store.get_events("assistant")]
        assert store.session_id == "a/b"
        assert store.verify().ok
    assert history == chats.get_working_history("a/b")
    assert found
    assert [kind for kind in events if "compact" not in str(kind)] == [
        "user_message",
        "user_message",
        "tool_call",
        "tool_result",
        "text_chunk",
    ]


def test_a_bundle_that_a_runtime_recorded_becomes_a_chat_session(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    with SessionStore(tmp_path / "bundles" / "run.kohakutr.v2") as store:
        store.init_meta("run-7", "agent", "", "", ["alice"])
        store.append_event("alice", "user_message", {"content": "hello"}, turn_index=1)
        store.append_event("alice", "text_chunk", {"content": "Hi."}, turn_index=1)

    report = migrate_sessions(
        open_home("bundle", tmp_path / "bundles"), open_home("json", tmp_path / "chats")
    )
    again = migrate_sessions(
        open_home("bundle", tmp_path / "bundles"), open_home("json", tmp_path / "chats")
    )

    chats = DefaultSessionStore(str(tmp_path / "chats"))
    assert (report.written, again.unchanged) == (["run-7"], 1)
    assert chats.get_chat_history("run-7") == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Hi."},
    ]
    assert chats.get_session("run-7").agent_name == "alice"


def test_what_a_runtime_added_to_a_migrated_session_goes_back_too(tmp_path: Path) -> None:
    chats = DefaultSessionStore(str(tmp_path / "chats"))
    chats.add_message("s", "user", "hello", {"mine": 1})
    chats.update_session_metadata("s", model="m")
    bundles = tmp_path / "bundles"
    migrate_sessions(open_home("json", tmp_path / "chats"), open_home("bundle", bundles))
    with SessionStore(bundles / "s.kohakutr.v2") as store:
        store.append_event("assistant", "user_message", {"content": "and now?"}, turn_index=2)

    back = tmp_path / "back"
    migrate_sessions(open_home("bundle", bundles), open_home("json", back))

    session = DefaultSessionStore(str(back)).get_session("s")
    assert [one.content for one in session.messages] == ["hello", "and now?"]
    assert session.metadata["model"] == "m"


def test_what_cannot_be_carried_is_named_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DefaultSessionStore(str(tmp_path / "a"))
    store.add_message("good", "user", "hi")
    (tmp_path / "a" / "bad.json").write_text("[]")

    code = main(["chat", "migrate", str(tmp_path / "a"), str(tmp_path / "b.db")])

    out, err = capsys.readouterr()
    assert code == 1
    assert "1 written" in out
    assert err.count("\n") == 1
    assert "bad.json" in err
    assert SqliteTranscriptStore(None, str(tmp_path / "b.db")).session_exists("good")


def test_ids_that_fold_to_one_name_have_bundles_of_their_own(tmp_path: Path) -> None:
    chats = SqliteTranscriptStore(str(tmp_path / "chats"))
    ids = ["a/b", "a:b", "a_b", "..", "x" * 300]
    for session_id in ids:
        chats.add_message(session_id, "user", session_id)

    home = open_home("transcript", tmp_path / "chats" / "sessions.db")
    migrate_sessions(home, open_home("bundle", tmp_path / "bundles"))

    found = documents(open_home("bundle", tmp_path / "bundles"))
    assert sorted(found) == sorted(ids)
    assert all(
        cast("list[Document]", cast("Document", document)["messages"])[0]["content"] == session_id
        for session_id, document in found.items()
    )


def test_a_home_is_not_carried_into_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DefaultSessionStore(str(tmp_path)).add_message("s", "user", "hi")

    code = main(["chat", "migrate", str(tmp_path), str(tmp_path)])

    assert code == 2
    assert "there already" in capsys.readouterr().err

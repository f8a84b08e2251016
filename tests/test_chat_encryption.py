"""The encrypted store: no path of it writes what can be read without the key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest
from cryptography.fernet import Fernet

from amberlog.chat import (
    DefaultSessionStore,
    EncryptedSessionStore,
    HierarchicalSessionStore,
    SessionEncryptionError,
    SessionMessage,
    SqliteSessionStore,
    SqliteTranscriptStore,
    generate_session_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORD = "pelican"
PREFIX = "praisonai:enc:v1:"


def encrypted(directory: Path, key: str) -> HierarchicalSessionStore:
    """Returns an encrypted store, whose verbs are those of the hierarchical one."""
    store = EncryptedSessionStore(HierarchicalSessionStore(str(directory)), key)
    return cast("HierarchicalSessionStore", store)


def on_disk(directory: Path) -> str:
    return "".join(
        file.read_bytes().decode("utf-8", "replace") for file in sorted(directory.iterdir())
    )


def message(text: str) -> dict[str, object]:
    return {"role": "user", "content": text, "metadata": {"note": text}, "unknown": [text]}


WRITES: dict[str, Callable[[HierarchicalSessionStore], object]] = {
    "add_message": lambda s: s.add_message(
        "s", "user", WORD, {"k": WORD}, [{"id": "c", "function": {"arguments": WORD}}]
    ),
    "add_user_message": lambda s: s.add_user_message("s", WORD, {"k": WORD}),
    "add_assistant_message": lambda s: s.add_assistant_message("s", WORD),
    "partial": lambda s: s.upsert_partial_assistant_message("s", WORD),
    "finalized": lambda s: s.upsert_partial_assistant_message("s", WORD, finalize=True),
    "set_chat_history": lambda s: s.set_chat_history("s", [message(WORD)]),
    "checkpoint": lambda s: s.append_compaction_checkpoint("s", WORD, metadata={"k": WORD}),
    "metadata": lambda s: s.update_session_metadata("s", model=WORD, deep={"k": [WORD]}),
    "merge": lambda s: s.merge_session_metadata_map("s", "m", {WORD: 1}, defaults={"d": WORD}),
    "rename_session": lambda s: s.rename_session("s", WORD),
    "runtime_state": lambda s: s.set_runtime_state("s", "r", "t", {"k": WORD}),
    "import_sessions": lambda s: s.import_sessions(
        {
            "version": 1,
            "sessions": [
                {
                    "session_id": "s",
                    "messages": [message(WORD)],
                    "archived_messages": [message(WORD)],
                    "last_compaction": {"summary": WORD, "message_index": 1},
                    "runtime_state": {"r": {"t": {"k": WORD}}},
                    "metadata": {"title": WORD},
                    "title": WORD,
                    "odd": {"k": WORD},
                }
            ],
        },
        overwrite=True,
    ),
    "create_session": lambda s: s.create_session("new", WORD, metadata={"k": WORD}),
    "set_title": lambda s: s.set_title("s", WORD),
    "fork_session": lambda s: (s.set_title("s", WORD), s.fork_session("s", title=f"my {WORD}")),
    "fork_of": lambda s: (s.set_title("s", WORD), s.fork_session("s")),
    "snapshot": lambda s: (
        s.add_message("s", "user", WORD),
        s.create_snapshot("s", WORD, {"k": WORD}),
    ),
    "import_session": lambda s: s.import_session(
        {
            "session_id": "x",
            "messages": [message(WORD)],
            "title": WORD,
            "snapshots": [
                {"id": "1", "label": WORD, "transcript": {"messages": [message(WORD)]}},
            ],
        },
        "new",
    ),
}


@pytest.mark.parametrize("verb", WRITES)
def test_no_verb_writes_what_can_be_read_without_the_key(tmp_path: Path, verb: str) -> None:
    key = generate_session_key()
    store = encrypted(tmp_path, key)
    store.add_message("s", "user", "first")

    WRITES[verb](store)

    again = encrypted(tmp_path, key)
    sessions = [again.export_session(str(row["session_id"])) for row in again.list_sessions(None)]
    assert WORD in json.dumps(sessions)
    assert WORD not in on_disk(tmp_path)
    assert PREFIX in on_disk(tmp_path)


def test_rows_of_a_database_are_encrypted_too(tmp_path: Path) -> None:
    key = generate_session_key()
    store = EncryptedSessionStore(SqliteTranscriptStore(str(tmp_path)), key)

    store.add_message("s", "user", WORD, {"k": WORD})
    store.append_compaction_checkpoint("s", WORD)

    assert WORD not in on_disk(tmp_path)
    assert store.get_working_history("s") == [{"role": "system", "content": WORD}]


def test_what_was_written_comes_back_equal(tmp_path: Path) -> None:
    store = encrypted(tmp_path, generate_session_key())
    calls: list[dict[str, object]] = [{"id": "c", "function": {"arguments": '{"city": "Oslo"}'}}]

    store.add_message("s", "assistant", "", {"deep": [1, 2.5, None, {"é": True}]}, calls)
    store.add_message("s", "tool", "rain", tool_call_id="c")
    store.merge_session_metadata_map("s", "m", {"a": 1}, defaults={"a": 0, "b": 2})
    store.merge_session_metadata_map("s", "m", {"b": 3})
    store.set_runtime_state("s", "r", "t", {"k": 1})

    session = store.get_session("s")
    assert session.messages[0].tool_calls == calls
    assert session.messages[0].metadata == {"deep": [1, 2.5, None, {"é": True}]}
    assert session.messages[1].tool_call_id == "c"
    assert session.metadata == {"m": {"a": 1, "b": 3}}
    assert store.get_runtime_state("s", "r", "t") == {"k": 1}
    assert [turn["content"] for turn in store.window("s")] == ["", "rain"]


def test_another_program_opens_it_with_the_key_alone(tmp_path: Path) -> None:
    key = generate_session_key()
    store = encrypted(tmp_path, key)

    store.add_message("s", "user", WORD, {"k": WORD})

    stored = json.loads((tmp_path / "s.json").read_text())["messages"][0]
    fernet = Fernet(key)
    content, metadata = stored["content"], stored["metadata"]["__enc__"]
    assert fernet.decrypt(content.removeprefix(PREFIX).encode()).decode() == WORD
    assert json.loads(fernet.decrypt(metadata.removeprefix(PREFIX).encode())) == {"k": WORD}
    assert (stored["role"], list(stored["metadata"])) == ("user", ["__enc__"])


def test_sessions_in_the_clear_are_read_and_gone_on_with(tmp_path: Path) -> None:
    DefaultSessionStore(str(tmp_path)).add_message("s", "user", "old")

    store = encrypted(tmp_path, generate_session_key())
    store.add_message("s", "user", WORD)

    assert [one["content"] for one in store.get_chat_history("s")] == ["old", WORD]
    assert WORD not in on_disk(tmp_path)


WRONG: dict[str, Callable[[HierarchicalSessionStore], object]] = {
    "add_message": lambda s: s.add_message("s", "user", "x"),
    "partial": lambda s: s.upsert_partial_assistant_message("s", "x"),
    "clear_session": lambda s: s.clear_session("s"),
    "set_chat_history": lambda s: s.set_chat_history("s", []),
    "checkpoint": lambda s: s.append_compaction_checkpoint("s", "x"),
    "merge": lambda s: s.merge_session_metadata_map("s", "m", {"a": 1}),
    "rename": lambda s: s.rename_session("s", "x"),
    "unlink": lambda s: s.clear_gateway_info("s"),
    "fork": lambda s: s.fork_session("s"),
    "get_chat_history": lambda s: s.get_chat_history("s"),
    "get_working_history": lambda s: s.get_working_history("s"),
    "get_session": lambda s: s.get_session("s"),
    "window": lambda s: s.window("s"),
    "export_all": lambda s: s.export_all(),
}


@pytest.mark.parametrize("verb", WRONG)
def test_a_wrong_key_is_an_error_and_overwrites_nothing(tmp_path: Path, verb: str) -> None:
    encrypted(tmp_path, generate_session_key()).add_message("s", "user", WORD)
    before = (tmp_path / "s.json").read_bytes()
    store = encrypted(tmp_path, generate_session_key())

    with pytest.raises(SessionEncryptionError, match="key does not match"):
        WRONG[verb](store)

    assert (tmp_path / "s.json").read_bytes() == before


def test_an_import_with_a_wrong_key_replaces_nothing(tmp_path: Path) -> None:
    encrypted(tmp_path, generate_session_key()).add_message("s", "user", WORD)
    before = (tmp_path / "s.json").read_bytes()
    store = encrypted(tmp_path, generate_session_key())

    payload: dict[str, object] = {"version": 1, "sessions": [{"session_id": "s", "messages": []}]}
    report = store.import_sessions(payload, overwrite=True)

    assert (report.imported, report.skipped_count) == (0, 1)
    assert (tmp_path / "s.json").read_bytes() == before


@pytest.mark.parametrize("key", ["", "no key", "é" * 44])
def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(SessionEncryptionError):
        encrypted(tmp_path, key)


def test_a_store_that_is_not_ours_is_refused() -> None:
    with pytest.raises(TypeError, match="store"):
        EncryptedSessionStore(cast("DefaultSessionStore", object()), generate_session_key())


def test_a_search_says_that_it_cannot_be(tmp_path: Path) -> None:
    store = encrypted(tmp_path, generate_session_key())
    store.add_message("s", "user", WORD)

    with pytest.raises(SessionEncryptionError, match="searched"):
        store.search(WORD)


def test_the_window_is_kept_and_its_summary_stays_short(tmp_path: Path) -> None:
    key = generate_session_key()
    inner = HierarchicalSessionStore(str(tmp_path), retention="compact", active_window=4)
    store = cast("HierarchicalSessionStore", EncryptedSessionStore(inner, key))

    for number in range(30):
        store.add_message("s", "user", f"{WORD} {number}")
    store.merge_session_metadata_map("s", "m", {"a": 1})
    for number in range(30, 40):
        store.add_message("s", "user", f"{WORD} {number}")

    session = store.get_session("s")
    assert len(session.messages) == 5
    assert [one.content for one in session.archived_messages] == [f"{WORD} {n}" for n in range(36)]
    assert session.messages[0].metadata["compacted_count"] == 36
    assert len(str(session.messages[0].content)) < 200
    assert WORD not in on_disk(tmp_path)


def test_a_summary_of_the_users_own_words_is_encrypted(tmp_path: Path) -> None:
    store = encrypted(tmp_path, generate_session_key())
    summary = SessionMessage(
        "system", f"[Session Summary]\n{WORD}", metadata={"compaction": True, "compacted_count": 3}
    )

    store.set_chat_history("s", [summary.to_dict()])

    assert WORD not in on_disk(tmp_path)
    assert store.get_session("s").messages[0].content == f"[Session Summary]\n{WORD}"


@pytest.mark.parametrize("value", [float("nan"), (1,), {1: "x"}, b"x", {1}])
def test_a_value_that_would_not_come_back_equal_is_refused(tmp_path: Path, value: object) -> None:
    store = encrypted(tmp_path, generate_session_key())

    with pytest.raises((TypeError, ValueError)):
        store.add_message("s", "user", "hi", {"x": value})

    assert not store.session_exists("s")


@pytest.mark.parametrize("kind", [DefaultSessionStore, SqliteSessionStore, SqliteTranscriptStore])
def test_an_outside_id_leads_to_an_encrypted_session(
    tmp_path: Path, kind: type[DefaultSessionStore]
) -> None:
    key = generate_session_key()
    store = cast("DefaultSessionStore", EncryptedSessionStore(kind(str(tmp_path)), key))

    store.set_gateway_info("s", "gw", "bot")
    store.add_message("s", "user", WORD)
    store.rename_session("s", WORD)

    found = store.get_by_gateway_session("gw")
    assert found is not None
    assert [one.content for one in found.messages] == [WORD]
    assert store.list_sessions()[0]["title"] == WORD
    assert store.list_sessions_by_gateway_agent("bot") == ["s"]
    assert WORD not in on_disk(tmp_path)

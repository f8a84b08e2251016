"""Hard inputs, in every chat store and through the shell: names, values, words, histories."""

from __future__ import annotations

import json
import random
import unicodedata
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.chat import HierarchicalSessionStore
from support.chat_kinds import IN_FILES, KINDS, STORES, Shell, documents, said
from support.children import run_code
from torture.form import LONG

if TYPE_CHECKING:
    from pathlib import Path

# In a process of its own: closing a file drops the locks that this process has on it.
SPOILING = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/sessions.db")
for name, data in json.loads(sys.argv[2]).items():
    connection.execute("INSERT INTO sessions (session_id, data) VALUES (?, ?)", (name, data))
connection.commit()
"""

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
]
WORDS = [
    ("明天下午三点开项目评审会议", "评审"),
    ("明天下午三点开项目评审会议", "项目评审"),
    ("重跑gen-itgc后清零", "itgc"),
    ("ship it 🚀 now", "🚀"),
    ("naïve café", "cafe"),
    ("we went to the park today", "park."),
    ("please don't use it", "don't use"),
    ("call foo::bar", "foo::bar"),
    ("I like C++", "C++"),
    ("you AND me", "AND"),
    ("it is NEAR(by)", "NEAR("),
    ('say a"b', 'a"b'),
]
BLANK = ["", "  \n", '"', "*", "((", "%_"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Returns the name of a chat store."""
    return str(request.param)


@pytest.fixture
def shell(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Returns the shell over the store."""
    return Shell(kind, tmp_path, capsys)


@pytest.mark.parametrize("ids", [FOLDED, FOLDED[::-1], AWKWARD], ids=["folded", "back", "awkward"])
def test_every_id_has_a_history_of_its_own(
    ids: list[str], kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))

    for session_id in ids:
        store.add_user_message(session_id, f"said in {session_id}")

    again = STORES[kind](str(tmp_path))
    listed = [str(row["session_id"]) for row in again.list_sessions(None)]
    found = documents(kind, tmp_path)
    assert sorted(listed) == sorted(shell.listed()) == sorted(found) == sorted(ids)
    for session_id in ids:
        assert said(found[session_id]) == [f"said in {session_id}"]
        shown = shell.json("show", session_id)
        assert (shown["session_id"], said(shown)) == (session_id, [f"said in {session_id}"])
        history = again.get_chat_history(session_id)
        assert history == [{"role": "user", "content": f"said in {session_id}"}]


@pytest.mark.parametrize("kind", IN_FILES)
def test_file_names_are_apart_and_legal_wherever_the_directory_is_carried(
    kind: str, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))

    for session_id in AWKWARD:
        store.add_user_message(session_id, "x")

    names = [file.name for file in tmp_path.glob("*.json")]
    folded = {unicodedata.normalize("NFC", name).casefold() for name in names}
    assert len(folded) == len(AWKWARD)
    assert all(len(file.name.encode()) <= 255 for file in tmp_path.iterdir())
    assert not any(set(name) & set('<>:"/\\|?*') for name in names)
    assert not {"con.json", "nul.json"} & folded


@pytest.mark.parametrize("kind", IN_FILES)
def test_three_bad_files_hide_none_of_a_hundred_sessions(
    kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path), durability="process")
    for number in range(100):
        store.add_user_message(f"s{number}", f"zebra {number}")
    damage = {
        "noise": random.Random(6).randbytes(500),
        "cut": (tmp_path / "s1.json").read_bytes()[:100],
        "other": b"SQLite format 3\0" + bytes(500),
    }
    for stem, content in damage.items():
        (tmp_path / f"{stem}.json").write_bytes(content)

    unreadable = store.unreadable_sessions()

    bad = sorted(str(tmp_path / f"{stem}.json") for stem in damage)
    assert sorted(path for path, reason in unreadable if reason) == bad
    assert len(store.list_sessions(None)) == 100
    assert len(store.search("zebra", limit=1000)) == 100
    listed = shell.json("list", limit=1000)
    named = cast("list[dict[str, str]]", listed["unreadable"])
    assert len(cast("list[object]", listed["sessions"])) == 100
    assert sorted(one["path"] for one in named if one["reason"]) == bad
    assert {stem: (tmp_path / f"{stem}.json").read_bytes() for stem in damage} == damage


@pytest.mark.parametrize("kind", ["rows"])
def test_bad_json_files_stop_no_new_database_and_are_named(kind: str, tmp_path: Path) -> None:
    first = STORES["json"](str(tmp_path), durability="process")
    for number in range(100):
        first.add_user_message(f"s{number}", f"zebra {number}")
    bad = [tmp_path / "noise.json", tmp_path / "other.json"]
    for file in bad:
        file.write_bytes(b"SQLite format 3\0" + bytes(500))

    store = STORES[kind](str(tmp_path))

    assert len(store.list_sessions(None)) == 100
    assert len(documents(kind, tmp_path)) == 100
    assert sorted(path for path, reason in store.unreadable_sessions() if reason) == [
        str(file) for file in bad
    ]


def test_no_message_is_lost_of_250_with_default_settings(
    kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    for number in range(250):
        store.add_user_message("s", f"m{number}")

    session = STORES[kind](str(tmp_path)).get_session("s")

    every = [f"m{number}" for number in range(250)]
    document = documents(kind, tmp_path)["s"]
    kept = [message.content for message in [*session.archived_messages, *session.messages]]
    assert [text for text in kept if text in every] == every
    for answer in (document, shell.json("show", "s")):
        both = said(answer, "archived_messages") + said(answer)
        assert [text for text in both if text in every] == every
    newest = STORES[kind](str(tmp_path)).get_chat_history("s", 10)
    assert [message["content"] for message in newest] == every[-10:]


def test_a_message_that_a_checkpoint_leaves_out_is_found_once(
    kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path), active_window=5)
    store.add_user_message("s", "the zebrafish42 swims")
    for number in range(10):
        store.add_user_message("s", f"turn {number}")
    store.append_compaction_checkpoint("s", "talk about fish")

    first = store.search("zebrafish42")
    for file in tmp_path.glob("sessions_index.db*"):
        file.unlink()
    again = STORES[kind](str(tmp_path)).search("zebrafish42")

    for hits in (first, again):
        assert [hit.session_id for hit in hits] == ["s"]
        texts = [str(message["content"]) for message in hits[0].messages]
        assert [text for text in texts if "zebrafish42" in text] == ["the zebrafish42 swims"]
    assert shell.found("zebrafish42") == ["s"]


@pytest.mark.parametrize(("text", "query"), WORDS)
def test_a_session_that_holds_the_words_is_found(
    text: str, query: str, kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", text)
    store.add_user_message("other", "zzz 12345")

    hits = store.search(query)

    assert [hit.session_id for hit in hits] == ["s"]
    assert shell.found(query) == ["s"]


@pytest.mark.parametrize("query", BLANK)
def test_a_query_without_words_finds_nothing(
    query: str, kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", "words")

    hits = store.search(query)

    assert hits == []
    assert shell.found(query) == []


def test_no_query_is_an_error(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", "words and others")
    letters = "ab \"'*()+-:^%_\\/.,;[]{}~?!\0\n\x1b评🚀é\u0301\ud83d\uffff"
    chosen = random.Random(19)

    for _ in range(10_000 if LONG else 500):
        query = "".join(chosen.choices(letters, k=chosen.randrange(12)))
        assert isinstance(store.search(query), list), repr(query)

    assert [hit.session_id for hit in store.search("others")] == ["s"]


@pytest.mark.parametrize(
    "text", ["abc\0hidden tail", "abc\x1b[31m hidden \x07", "\uffff hidden", "\u202ehidden"]
)
def test_odd_characters_are_stored_whole_found_and_never_shown_raw(
    text: str, kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", text)
    store.add_user_message("s", "and more")

    hits = STORES[kind](str(tmp_path)).search("hidden")

    assert said(documents(kind, tmp_path)["s"]) == [text, "and more"]
    assert [hit.session_id for hit in hits] == ["s"]
    assert said(shell.json("show", "s")) == [text, "and more"]
    for command, argument in (("show", "s"), ("search", "hidden")):
        code, out, err = shell.plain(command, argument)
        assert (code, err) == (0, "")
        assert "hidden" in out
        assert not any(ord(char) < 32 and char != "\n" for char in out)
        assert "\u202e" not in out


def test_half_a_character_is_refused_and_harms_nothing(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", "before")

    with pytest.raises(ValueError, match=r"\$\.content"):
        store.add_user_message("s", "abc\ud83d")
    for verb in (store.get_chat_history, store.session_exists, store.delete_session):
        with pytest.raises(ValueError, match=r"^session_id: .*surrogate"):
            verb("abc\ud83d")
    with pytest.raises(ValueError, match=r"^session_id: .*surrogate"):
        store.add_user_message("abc\ud83d", "x")

    store.add_user_message("s", "after")
    found = documents(kind, tmp_path)
    assert list(found) == ["s"]
    assert said(found["s"]) == ["before", "after"]


KEPT = [
    2**64,
    -(2**63) - 1,
    10**40,
    1767322800.25,
    5e-324,
    -0.0,
    True,
    None,
    "0001-01-01T00:00:00+00:00",
    {"z": [1, {"a": None}], "\u00e9": "\0\x1b\uffff\u2028\U0001f600"},
]
REFUSED: list[tuple[object, type[Exception]]] = [
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (float("-inf"), ValueError),
    (b"x", TypeError),
    ({1, 2}, TypeError),
    ((1, 2), TypeError),
    ({1: 2}, TypeError),
    ({None: 2}, TypeError),
]


@pytest.mark.parametrize("value", KEPT)
def test_a_value_comes_back_equal_in_value_and_type(
    value: object, kind: str, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_message("s", "user", "x", {"value": value})
    store.update_session_metadata("s", other=[value])

    session = STORES[kind](str(tmp_path)).get_session("s")

    stored = documents(kind, tmp_path)["s"]
    messages = cast("list[dict[str, dict[str, object]]]", stored["messages"])
    assert repr(session.messages[0].metadata["value"]) == repr(value)
    assert repr(session.metadata["other"]) == repr([value])
    assert repr(messages[0]["metadata"]["value"]) == repr(value)


@pytest.mark.parametrize(("value", "error"), REFUSED)
def test_what_would_not_come_back_equal_is_refused_by_its_place(
    value: object, error: type[Exception], kind: str, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_message("s", "user", "before")
    before = documents(kind, tmp_path)

    with pytest.raises(error, match=r"^\$\.metadata\.args\[1\]"):
        store.add_message("s", "user", "x", {"args": [0, value]})
    with pytest.raises(error, match=r"\$"):
        store.update_session_metadata("s", args=[0, value])
    with pytest.raises(error, match=r"\$"):
        store.set_chat_history("s", [{"role": "user", "content": "x", "metadata": {"a": value}}])

    assert documents(kind, tmp_path) == before


def test_a_value_nested_2000_deep_is_refused_without_a_crash(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](str(tmp_path))
    store.add_user_message("s", "before")
    value: list[object] = []
    for _ in range(2000):
        value = [value]

    with pytest.raises(ValueError, match="deep"):
        store.add_message("s", "user", "x", {"value": value})

    assert said(documents(kind, tmp_path)["s"]) == ["before"]


@pytest.mark.parametrize("megabytes", [10, *([64, 300] if LONG else [])])
def test_a_large_message_is_stored_whole_or_refused_by_its_limit(
    megabytes: int, kind: str, shell: Shell, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path))
    large = "x" * (megabytes << 20)
    store.add_user_message("s", "before")

    try:
        store.add_user_message("s", large)
    except ValueError as refused:
        assert any(char.isdigit() for char in str(refused))  # noqa: PT017  # either is right
        assert said(documents(kind, tmp_path)["s"]) == ["before"]
        return

    again = STORES[kind](str(tmp_path))
    assert again.get_chat_history("s")[1]["content"] == large
    assert [row["message_count"] for row in again.list_sessions()] == [2]
    assert shell.listed() == ["s"]
    assert len(shell.plain("list")[1]) < 10_000
    assert [hit.session_id for hit in again.search("before")] == ["s"]


def test_doing_nothing_fifty_times_leaves_the_session_as_it_is(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](str(tmp_path))
    for number in range(100):
        store.add_user_message("s", f"m{number} " + "x" * 100)
    store.append_compaction_checkpoint("s", "summary 00")
    before, size = documents(kind, tmp_path)["s"], len(json.dumps(documents(kind, tmp_path)["s"]))

    for number in range(50):
        again = STORES[kind](str(tmp_path))
        assert again.get_working_history("s")[0]["content"] == f"summary {max(number - 1, 0):02}"
        again.append_compaction_checkpoint("s", f"summary {number:02}")

    after = documents(kind, tmp_path)["s"]
    assert after["messages"] == before["messages"]
    assert len(json.dumps(after)) < size * 1.05


def test_three_bad_rows_hide_none_of_a_hundred_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = STORES["rows"](str(tmp_path), durability="process")
    for number in range(100):
        store.add_user_message(f"s{number}", f"zebra {number}")
    damage = {"noise": "\x01\x02 no json", "cut": '{"session_id": "cut", "mess', "other": "[]"}
    run_code(SPOILING, tmp_path, json.dumps(damage))
    store = STORES["rows"](str(tmp_path))

    unreadable = store.unreadable_sessions()

    assert len([path for path, reason in unreadable if path and reason]) == 3
    assert len(store.list_sessions(None)) == 100
    assert len(store.search("zebra", limit=1000)) == 100
    shell = Shell("rows", tmp_path, capsys)
    assert len(shell.listed()) == 100
    named = cast("list[dict[str, str]]", shell.json("list")["unreadable"])
    assert all(any(stem in one["path"] for one in named) for stem in damage)


def test_a_fork_of_a_trimmed_session_is_deep_equal_and_its_own(tmp_path: Path) -> None:
    store = HierarchicalSessionStore(str(tmp_path), retention="truncate", active_window=30)
    for number in range(50):
        store.add_user_message("s", f"turn {number}")
    document = documents("family", tmp_path)["s"]
    for message in cast("list[dict[str, object]]", document["messages"]):
        message["unknown"] = {"nested": [[message["content"]], {"deep": [1, None]}]}
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    store.append_compaction_checkpoint("s", "thirty turns")
    snapshot = store.create_snapshot("s", label="before")
    forked = store.fork_session("s", 11)
    again = store.fork_session(forked)

    parent = store.get_session("s")
    cast("list[object]", parent.messages[0].metadata.setdefault("mine", [])).append("in memory")
    store.set_chat_history("s", [{"role": "user", "content": "other"}])
    store.add_user_message(again, "only here")
    changed = documents("family", tmp_path)
    store.revert_to_snapshot("s", snapshot)

    whole = cast("list[object]", document["messages"])
    assert len(whole) == 30
    assert said(changed["s"]) == ["other"]
    assert changed[forked]["messages"] == whole[:12]
    assert cast("list[object]", changed[again]["messages"])[:12] == whole[:12]
    assert said(changed[again])[12:] == ["only here"]
    found = documents("family", tmp_path)
    assert found["s"]["messages"] == whole
    assert found[forked] == changed[forked]
    for point in (30, 10**6, -1):
        with pytest.raises(ValueError, match="no message"):
            store.fork_session("s", point)
    assert documents("family", tmp_path) == found

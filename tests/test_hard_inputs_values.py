"""Values that are hard to keep: each comes back equal, or is refused before anything is written."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from torture.places import shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SURROGATE = "abc\ud83d"
HIDDEN = "abc\0hidden tail"
TEXTS = [
    HIDDEN,
    "\x1b[31mred\x1b]0;title\x07",
    "\uffff",
    "\ufeffbom",
    "é e\u0301",
    "\U0010ffff",
    "",
]


def deep(levels: int) -> object:
    value: object = "bottom"
    for level in range(levels):
        value = {"x": value} if level % 2 else [value]
    return value


KEPT: dict[str, object] = {
    "the largest integer": 2**63 - 1,
    "the largest unsigned integer": 2**64 - 1,
    "the smallest integer": -(2**63),
    "nothing": None,
    "a boolean": True,
    "a float that is whole": 1.0,
    "minus zero": -0.0,
    "the smallest float": 5e-324,
    "a long text": "x" * 100_000,
    "an empty key": {"": 1},
    "an odd key": {"a.b[0]": {"$": 1}},
    "nested": deep(60),
}
REFUSED: dict[str, object] = {
    "a surrogate": SURROGATE,
    "a surrogate in a key": {SURROGATE: 1},
    "2**64": 2**64,
    "-2**63-1": -(2**63) - 1,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "bytes": b"raw",
    "a set": {1},
    "a frozen set": frozenset({1}),
    "a tuple": (1, 2),
    "an integer key": {1: "x"},
    "a None key": {None: "x"},
    "a date of year 1": dt.date(1, 1, 1),
    "a date of year 9999": dt.datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001  # without a zone
    "a date with a zone": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
    "an object": object(),
    "a deep nesting": deep(2_000),
    "a deeper nesting": deep(100_000),
}
PLACES: dict[str, Callable[[SessionStore, object], object]] = {
    "event": lambda store, value: store.append_event("alice", "text", {"args": {"x": [0, value]}}),
    "events": lambda store, value: store.append_events(
        "alice", [("text", {"n": 1}), ("text", {"args": {"x": [0, value]}})]
    ),
    "snapshot": lambda store, value: store.save_branch_snapshot(
        "alice", [{"role": "user", "args": {"x": [0, value]}}], branch=None, watermark=1
    ),
    "conversation": lambda store, value: store.save_conversation(
        "alice", [{"role": "user", "args": {"x": [0, value]}}]
    ),
    "state": lambda store, value: store.save_state("alice", scratchpad={"args": {"x": [0, value]}}),
    "table": lambda store, value: store.state.__setitem__(
        "alice:slot", {"args": {"x": [0, value]}}
    ),
    "message": lambda store, value: store.save_channel_message("c", {"args": {"x": [0, value]}}),
    "job": lambda store, value: store.save_job("job", {"args": {"x": [0, value]}}),
    "run": lambda store, value: store.save_subagent("alice", "x", 0, {"args": {"x": [0, value]}}),
    "rollup": lambda store, value: store.save_turn_rollup("alice", 1, {"args": {"x": [0, value]}}),
    "meta": lambda store, value: store.meta.__setitem__("note", {"args": {"x": [0, value]}}),
}
READS: dict[str, Callable[[SessionStore], object]] = {
    "event": lambda store: store.get_events("alice")[-1],
    "events": lambda store: store.get_events("alice")[-1],
    "snapshot": lambda store: (store.load_conversation("alice") or [{}])[0],
    "conversation": lambda store: (store.load_conversation("alice") or [{}])[0],
    "state": lambda store: store.load_scratchpad("alice"),
    "table": lambda store: store.state["alice:slot"],
    "message": lambda store: store.get_channel_messages("c")[0],
    "job": lambda store: store.load_job("job"),
    "run": lambda store: store.load_subagent_meta("alice", "x", 0),
    "rollup": lambda store: store.get_turn_rollup("alice", 1),
    "meta": lambda store: store.meta["note"],
}


def same(one: object, other: object) -> bool:
    """Returns whether both are equal in value, type and sign."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def contents(store: SessionStore) -> dict[str, list[object]]:
    tables = ("meta", "state", "events", "channels", "subagents", "jobs", "conversation")
    return {name: list(getattr(store, name).records()) for name in (*tables, "turn_rollup")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", KEPT)
def test_what_is_accepted_comes_back_equal_in_value_and_type(
    what: str, place: str, path: Path
) -> None:
    value = KEPT[what]
    with SessionStore(path) as store:
        PLACES[place](store, value)
        at_once = READS[place](store)

    with SessionStore.open_readonly(path) as store:
        later = READS[place](store)
        problems = store.verify().problems

    for read in (at_once, later):
        assert isinstance(read, dict)
        assert same(read["args"], {"x": [0, value]})
    assert not problems


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_come_back_is_refused_before_anything_is_written(
    what: str, place: str, path: Path
) -> None:
    with SessionStore(path) as store:
        before = contents(store)

        with pytest.raises((TypeError, ValueError)) as refused:
            PLACES[place](store, REFUSED[what])
        after = contents(store)
        _, event_id = store.append_event("alice", "text", {"n": 1})

    assert "args.x[1]" in str(refused.value)
    assert after == before
    assert event_id == 1


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_of_odd_characters_is_stored_whole(text: str, path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event(text or "alice", "text", {"content": text, text: text})
        store.save_conversation("alice", [{"role": "user", "content": text}])
        store.save_channel_message(text or "c", {"content": text})
        store.state[f"alice:{text}"] = text

    with SessionStore.open_readonly(path) as store:
        event = store.get_events(text or "alice")[0]
        conversation = store.load_conversation("alice")
        message = store.get_channel_messages(text or "c")[0]
        slot = store.state[f"alice:{text}"]
        problems = store.verify().problems

    assert event["content"] == event[text] == message["content"] == slot == text
    assert conversation == [{"role": "user", "content": text}]
    assert not problems


def test_the_words_after_a_nul_are_found_and_shown(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_message", {"content": HIDDEN})
        store.append_event("alice", "user_message", {"content": "\x1b[31mred"})
        hits = store.search("hidden")

    shown = [
        shell(*arguments).stdout
        for arguments in (
            ("show", path),
            ("events", path),
            ("search", path, "hidden"),
            ("events", path, "--json"),
        )
    ]

    assert [hit["meta"]["event_key"] for hit in hits] == ["alice:e000000"]
    assert all(b"hidden tail" in out for out in shown)
    assert not any(set(out) & {0, 0x1B, 0x07} for out in shown)


def test_json_of_the_shell_is_strict_whatever_is_stored(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "text", {"content": "\uffff \0 \x1b 🚀", "value": 2**64 - 1})
        store.state["raw"] = b"\xff\x00"
        store.meta["raw"] = b"\xff\x00"

    for verb in ("show", "events", "verify"):
        done = shell(verb, path, "--json")

        assert done.returncode == 0
        for line in done.stdout.splitlines():
            json.loads(line, parse_constant=pytest.fail)


def test_a_list_that_holds_itself_is_refused(store: SessionStore) -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises((TypeError, ValueError)):
        store.append_event("alice", "text", {"loop": loop})

    assert store.max_event_id() == 0


def test_top_level_bytes_come_back_and_are_checked(path: Path) -> None:
    with SessionStore(path) as store:
        store.state["raw"] = b"\x00\xffraw"

    with SessionStore.open_readonly(path) as store:
        raw = store.state["raw"]
        report = store.verify()

    assert raw == b"\x00\xffraw"
    assert report.ok


@pytest.mark.parametrize("query", [SURROGATE, "\udce6\udc98", "\0", "\uffff"])
def test_a_query_of_odd_characters_never_raises(query: str, store: SessionStore) -> None:
    store.append_event("alice", "user_message", {"content": "abc words"})

    hits = store.search(query)

    assert len(hits) <= 1

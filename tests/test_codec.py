"""Values on their way into a bundle and back, judged by independent readers."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import OrderedDict, defaultdict
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amberlog import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).parent / "fixtures" / "kohaku"
HEADER = bytes.fromhex("894b010400000000564b")
DEEPEST = 512


class Level(IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
storable = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(texts, inner, max_size=20),
    max_leaves=60,
)
foreign = st.one_of(
    st.integers(),
    st.floats(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Lu"]), max_size=3),
    st.binary(max_size=12),
    st.datetimes(timezones=st.none() | st.just(timezone.utc)),
    st.frozensets(st.integers(), max_size=2),
    st.complex_numbers(),
)
anything = st.recursive(
    scalars | foreign,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=6), inner, max_size=6),
        st.dictionaries(st.integers() | st.none() | st.booleans(), inner, max_size=2),
    ),
    max_leaves=12,
)


def are_same(one: object, other: object) -> bool:
    """Tells whether two values agree in value, type, order of keys and sign of zero."""
    return type(one) is type(other) and repr(one) == repr(other)


def independent(stored: bytes) -> object:
    """Reads a sealed value as a stranger would: behind the header, whatever follows the object."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(stored[len(HEADER) :])
    return unpacker.unpack()


def outcome(call: Callable[[], object]) -> object:
    """Returns what a call returns, or the exception that refuses it."""
    try:
        return call()
    except (TypeError, ValueError) as refusal:
        return refusal


def nested(depth: int) -> object:
    value: object = 0
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def on_a_small_stack(call: Callable[[], object]) -> object:
    """Runs a call in a thread with 256 KiB of stack."""
    results: list[object] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return results[0]


def fixture_rows() -> Iterator[tuple[str, str, str, object]]:
    """Yields table, key, stored bytes in hexadecimal and what the peer reads from them."""
    for path in sorted(FIXTURES.glob("*.expected.json")):
        whole = json.loads(path.read_text(encoding="utf-8"))
        parts = [whole, *(part for part in whole.values() if isinstance(part, dict))]
        for part in (part for part in parts if "raw_hex_first_rows" in part):
            events = {key: row for rows in part["events"].values() for key, row in rows.items()}
            tables = {**part["tables"], "events": events}
            for table, rows in part["raw_hex_first_rows"].items():
                for key, raw in rows.items():
                    yield table, key, raw, tables[table][key]


@given(storable)
def test_a_storable_value_comes_back_equal_in_value_type_and_order(value: object) -> None:
    stored = _core.seal("events", b"alice:e000001", value)

    opened = _core.open("events", b"alice:e000001", stored)

    assert are_same(opened, value)


@given(storable)
def test_an_independent_reader_reads_what_was_written(value: object) -> None:
    stored = _core.seal("state", "alice:scratchpad", value)

    read = independent(stored)

    assert stored.startswith(HEADER)
    assert are_same(read, value)
    assert json.loads(json.dumps(read, allow_nan=False)) == value


@given(storable)
def test_the_bytes_are_those_of_any_other_writer(value: object) -> None:
    ours, theirs = _core.pack(value), msgpack.packb(value)

    assert ours == theirs
    assert are_same(_core.unpack(theirs), value)


@given(anything)
def test_anything_comes_back_equal_or_is_refused_with_its_place(value: object) -> None:
    packed = outcome(lambda: _core.pack(value))

    if isinstance(packed, Exception):
        assert str(packed).startswith("$")
    else:
        assert isinstance(packed, bytes)
        assert are_same(_core.unpack(packed), value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (2**64, ValueError),
        (-(2**63) - 1, ValueError),
        (10**400, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-math.inf, ValueError),
        ("abc\ud83d", ValueError),
        (b"bytes", TypeError),
        (bytearray(b"bytes"), TypeError),
        (memoryview(b"bytes"), TypeError),
        ({1, 2}, TypeError),
        (frozenset(), TypeError),
        ((1, 2), TypeError),
        (datetime(1, 1, 1), TypeError),  # noqa: DTZ001  # the case is a time without a zone
        (datetime(1, 1, 1, tzinfo=timezone.utc), TypeError),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), TypeError),  # noqa: DTZ001  # the same
        (datetime(9999, 12, 31, tzinfo=timezone.utc), TypeError),
        (date(9999, 12, 31), TypeError),
        (Decimal("1.5"), TypeError),
        (1j, TypeError),
        (Level.LOW, TypeError),
        (Name("name"), TypeError),
        (OrderedDict(a=1), TypeError),
        (defaultdict(list), TypeError),
        (object(), TypeError),
        (int, TypeError),
        (..., TypeError),
    ],
    ids=repr,
)
def test_what_would_not_come_back_equal_is_refused_at_its_place(
    value: object, error: type[Exception]
) -> None:
    event = {"type": "tool_call", "args": {"x": [0, 1, 2, value], "y": 2}}

    with pytest.raises(error, match=r"^\$\.args\.x\[3\]: ") as refusal:
        _core.pack(event)

    assert refusal.type is error


@pytest.mark.parametrize("key", [1, None, True, 1.5, b"k", ("k",), Name("k")], ids=repr)
def test_a_key_that_is_no_exact_str_is_refused_at_its_dict(key: object) -> None:
    event = {"args": [{key: "value"}]}

    with pytest.raises(TypeError, match=r"^\$\.args\[0\]: a key is a "):
        _core.pack(event)


def test_a_key_with_a_lone_surrogate_is_refused() -> None:
    event = {"args": {"\ud83d": 1}}

    with pytest.raises(ValueError, match=r"^\$\.args: text with a lone surrogate"):
        _core.pack(event)


@pytest.mark.parametrize(
    ("key", "step"),
    [
        ("größe", r"\.größe"),
        ("a b", r'\["a b"\]'),
        ("", r'\[""\]'),
        ("1st", r'\["1st"\]'),
        ('q"\x1b', r'\["q\\"\\u\{1b\}"\]'),
        ("k" * 100, r'\["k{64}"…\]'),
    ],
)
def test_a_place_shows_any_key_on_one_readable_line(key: str, step: str) -> None:
    event = {key: b"bytes"}

    with pytest.raises(TypeError, match=rf"^\${step}: "):
        _core.pack(event)


@pytest.mark.parametrize(
    "value",
    [
        "abc\0hidden tail",
        "\x1b[31mred",
        "\uffff",
        "\ufffd",
        "e\u0301 \u200d👩\u200d👩",
        2**64 - 1,
        -(2**63),
        2**53 + 1,
        5e-324,
        -0.0,
        1.0,
        True,
        {"": {}, "\0": []},
        {"b": 1, "a": 2},
        list(range(70_000)),
        {str(number): number for number in range(70_000)},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_edge_that_can_be_stored_comes_back_whole(value: object) -> None:
    stored = _core.seal("meta", "edge", value)

    opened = _core.open("meta", "edge", stored)

    assert are_same(opened, value)
    assert are_same(independent(stored), value)


def test_nesting_to_the_limit_works_on_a_small_stack() -> None:
    value = nested(DEEPEST)

    opened = on_a_small_stack(lambda: _core.open("meta", "k", _core.seal("meta", "k", value)))

    assert _core.pack(opened) == _core.pack(value)


@pytest.mark.parametrize("depth", [DEEPEST + 1, 2_000, 100_000])
def test_deeper_nesting_is_refused_before_the_stack_ends(depth: int) -> None:
    value = nested(depth)

    def refusal() -> str:
        with pytest.raises(ValueError, match="nested deeper than 512 containers") as caught:
            _core.pack(value)
        return str(caught.value)

    assert str(on_a_small_stack(refusal)).startswith("$")


def test_a_list_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(ValueError, match="nested deeper than 512 containers"):
        _core.pack(value)


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_foreign_value_nested_too_deep_is_an_error(depth: int) -> None:
    body = b"\x91" * depth + b"\xc0"

    with pytest.raises(ValueError, match="nested too deep"):
        _core.unpack(body)
    with pytest.raises(ValueError, match="nested too deep"):
        _core.open("meta", "k", HEADER + body)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_at_the_top_are_stored_as_they_are(kind: Callable[[bytes], object]) -> None:
    value = b'\x00\xff["a legacy conversation"]'

    stored = _core.seal("conversation", "alice", kind(value))

    assert stored == value
    assert _core.open("conversation", "alice", stored) == value


def test_a_view_of_every_other_byte_is_stored_as_it_shows() -> None:
    view = memoryview(b"a_b_c_")[::2]

    stored = _core.seal("meta", "k", view)

    assert stored == b"abc"


@pytest.mark.parametrize("value", [b"\x89K", b"\x89K\x01 and more than ten", HEADER])
def test_bytes_that_would_be_read_as_a_header_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"^\$: bytes that begin with 89 4B"):
        _core.seal("meta", "k", value)


def test_pairs_are_packed_without_those_named_and_from_any_dict() -> None:
    class Event(dict[str, object]):
        pass

    event = Event(type="text", event_id=7, content=["hi"], ts=1.5)

    body, count = _core.pack_pairs(event, ["event_id", "ts", "none"])

    assert count == 2
    assert msgpack.unpackb(b"\x82" + body) == {"type": "text", "content": ["hi"]}


def test_pairs_count_as_one_container_of_depth() -> None:
    fits, too_deep = {"k": nested(DEEPEST - 1)}, {"k": nested(DEEPEST)}

    _, count = _core.pack_pairs(fits, [])

    assert count == 1
    with pytest.raises(ValueError, match=r"^\$\.k"):
        _core.pack_pairs(too_deep, [])


@given(storable, st.data())
def test_a_changed_byte_is_an_error(value: object, data: st.DataObject) -> None:
    stored = bytearray(_core.seal("events", "alice:e000001", value))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ValueError):  # noqa: PT011  # any fault will do
        _core.open("events", "alice:e000001", bytes(stored))


def test_a_value_moved_to_another_key_is_an_error() -> None:
    stored = _core.seal("events", "alice:e000001", {"type": "text"})

    with pytest.raises(ValueError, match="checksum mismatch"):
        _core.open("events", "alice:e000002", stored)
    with pytest.raises(ValueError, match="checksum mismatch"):
        _core.open("state", "alice:e000001", stored)


@given(st.binary(max_size=80))
def test_any_bytes_are_opened_or_are_an_error(body: bytes) -> None:
    bare = outcome(lambda: _core.open("meta", "k", body))
    framed = outcome(lambda: _core.open("meta", "k", HEADER + body))

    assert bare == body or isinstance(bare, ValueError)
    assert isinstance(framed, ValueError) or are_same(framed, independent(HEADER + body))


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("894b010600000000564b736964", "sid"),
        ("894b010200000000564b0200000000000000", 2),
        ("894b010200000000564b0100000000000000", 1),
        ("894b010400000000564b91a5616c696365", ["alice"]),
        ("894b010400000000564b80", {}),
        ("894b010200000000564b000000000000f83f", 1.5),
        ("894b010100000000564b80044e2e", None),
        ("894b010100000000564b80054e2e", None),
        (
            (
                "894b010400000000564b86a16101a162cb4004000000000000a163c0a166cf0000010000000000"
                "a167ffa168a6e697a5e69cac"
            ),
            {"a": 1, "b": 2.5, "c": None, "f": 2**40, "g": -1, "h": "日本"},
        ),
        (
            "894b010400000000564b9182a7636f6e74656e74a26869a4726f6c65a475736572",
            [{"content": "hi", "role": "user"}],
        ),
        ("894b010300000000564b7b2262223a5b312c312e305d7d", {"b": [1, 1.0]}),
        ("894b010500000000564ba2616201616182f5f6", {"b": 1, "a": [True, None]}),
        ("894b010000000000564b726177", b"raw"),
        ("726177206279746573", b"raw bytes"),
        ("", b""),
    ],
)
def test_a_worked_example_of_the_peer_reads_as_stated(stored: str, value: object) -> None:
    opened = _core.open("meta", "x", bytes.fromhex(stored))

    assert are_same(opened, value)


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        ("894b010100000000564b80045d2e", "a pickled value, which is never loaded"),
        ("894b010200000000564b010102000000070707", "a NumPy array"),
        ("894b010400000000564bc40100", "a binary value"),
        ("894b010400000000564bd6ff00000000", "an extension type"),
        ("894b010400000000564b810101", "a map key that is not a string"),
        ("894b010400000000564ba1ff", "a string that is not UTF-8"),
        ("894b010400000000564b9201", "a container longer than the bytes that follow"),
        ("894b010400000000564b0100", "bytes behind the object that are no checksum"),
        ("894b010400000000564b", "an object that is cut off"),
        ("894b010600000000564bff", "text that is not UTF-8"),
        ("894b010900000000564b", "the unknown encoding 0x09"),
        ("894b020400000000564bc0", "a header that no known version writes"),
        ("894b0104", "a header that is cut off"),
    ],
)
def test_what_cannot_be_read_says_what_it_is(stored: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        _core.open("meta", "x", bytes.fromhex(stored))


def test_a_peers_not_a_number_is_read_as_it_stands() -> None:
    stored = HEADER + msgpack.packb([math.nan, math.inf])

    opened = _core.open("meta", "x", stored)

    assert str(opened) == "[nan, inf]"


@pytest.mark.parametrize(("table", "key", "stored", "value"), list(fixture_rows()))
def test_a_row_of_a_real_session_reads_as_the_peer_reads_it(
    table: str, key: str, stored: str, value: object
) -> None:
    opened = _core.open(table, key, bytes.fromhex(stored))

    assert opened == value


def test_a_dict_that_another_thread_changes_is_packed_or_refused() -> None:
    shared: dict[str, object] = {str(number): number for number in range(100)}
    done = threading.Event()

    def change() -> None:
        turn = 0
        while not done.is_set():
            shared[f"new {turn}"] = turn
            shared.pop(f"new {turn - 3}", None)
            turn += 1

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        outcomes = [outcome(lambda: _core.pack([shared])) for _ in range(2_000)]
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)

    for packed in outcomes:
        if isinstance(packed, Exception):
            assert "changed by another thread" in str(packed)
        else:
            assert isinstance(packed, bytes)
            assert isinstance(_core.unpack(packed), list)

"""Values, where the peer's change on the way or run code on the way in."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionDamagedError, SessionStore
from support import independent
from support.sample import SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PICKLED = bytes.fromhex("894b010100000000564b")


class Trap:
    """What runs code when it is unpickled: it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return open, (str(self.path),)


def test_scalars_come_back_as_they_went_in(path: Path) -> None:
    with SessionStore(path) as store:
        for name, value in SCALARS.items():
            store.state[name] = value
    with SessionStore(path) as store:
        read = {name: store.state[name] for name in SCALARS}

    assert {name: repr(value) for name, value in read.items()} == {
        name: repr(value) for name, value in SCALARS.items()
    }
    state = independent.rows(path, "state")
    assert {name: repr(state[name]) for name in SCALARS} == {
        name: repr(value) for name, value in SCALARS.items()
    }


def test_minus_zero_and_the_edges_of_floats_keep_their_bits(store: SessionStore) -> None:
    floats = [-0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e15, 2.0**53 + 2]

    for number in floats:
        store.state["x"] = number

        read = store.state["x"]

        assert isinstance(read, float)
        assert read.hex() == number.hex()


def test_the_meta_of_an_open_conversation_is_a_bool(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "/c", "/w", ["alice"])
        meta = store.load_meta()

    assert meta["conversation_open"] is True
    assert meta["format_version"] == 2


def test_keys_keep_the_order_in_which_they_went_in(store: SessionStore) -> None:
    value = {"zeta": 1, "alpha": {"y": 1, "b": 2}, "mid": 3}

    store.state["x"] = value
    store.append_event("alice", "text", {"z": 1, "a": 2})

    assert json.dumps(store.state["x"]) == json.dumps(value)
    assert list(store.get_events("alice")[0])[:2] == ["z", "a"]


@pytest.mark.parametrize("name", ["meta", "state", "channels", "jobs", "conversation"])
def test_a_pickled_value_is_refused_and_never_run(name: str, path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    hostile = PICKLED + pickle.dumps(Trap(mark))
    independent.write(path, name, {"evil:m000000": hostile})

    with SessionStore(path) as store:
        table = {
            "meta": store.meta,
            "state": store.state,
            "channels": store.channels,
            "jobs": store.jobs,
            "conversation": store.conversation,
        }[name]
        with pytest.raises(SessionDamagedError, match="pickle") as raised:
            table["evil:m000000"]
        report = store.verify()

    assert raised.value.path == str(path)
    assert name in str(raised.value.at)
    assert "evil:m000000" in str(raised.value.at)
    assert [(problem.table, problem.key) for problem in report.problems] == [(name, "evil:m000000")]


def test_a_pickled_event_is_refused_where_it_stands_and_the_others_are_read(path: Path) -> None:
    good = independent.encoded({"type": "text", "event_id": 1, "ts": 1.0, "content": "good"})
    evil = PICKLED + pickle.dumps({"type": "text", "event_id": 2})
    last = independent.encoded({"type": "text", "event_id": 3, "ts": 3.0, "content": "last"})
    rows = {"alice:e000000": good, "alice:e000001": evil, "alice:e000002": last}
    independent.write(path, "events", rows)

    with SessionStore(path) as store:
        with pytest.raises(SessionDamagedError, match="pickle") as raised:
            store.get_events("alice")
        single = store.events["alice:e000000"], store.events["alice:e000002"]
        appended = store.append_event("alice", "text", {"content": "goes on"})
        report = store.verify()

    assert "alice:e000001" in str(raised.value.at)
    assert [event["content"] for event in single if isinstance(event, dict)] == ["good", "last"]
    assert appended == ("alice:e000003", 4)
    assert [problem.key for problem in report.problems] == ["alice:e000001"]


def test_the_peers_pickled_none_is_read_as_none(path: Path) -> None:
    rows = {
        f"none{protocol}": PICKLED + pickle.dumps(None, protocol=protocol) for protocol in (4, 5)
    }
    independent.write(path, "meta", rows)

    with SessionStore(path) as store:
        read = [store.meta["none4"], store.meta["none5"]]

    assert read == [None, None]

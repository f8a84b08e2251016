"""The mirror of a chat store: told of every complete message, and never in the way."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore, SessionMirrorProtocol, SqliteTranscriptStore
from amberlog.chat.mirror import MirrorWriter
from amberlog.errors import SessionWriteError

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, object]


class Mirror:
    """Keeps records in memory; waits at a gate before each batch, where it is given one."""

    def __init__(self, gate: threading.Event | None = None, failures: int = 0) -> None:
        self.records: list[Record] = []
        self.gate = gate
        self.failures = failures

    def append(self, session_id: str, records: list[Record]) -> None:
        if self.gate is not None:
            assert self.gate.wait(60)
        if self.failures:
            self.failures -= 1
            raise RuntimeError(f"{session_id} cannot be mirrored")
        self.records += records

    def load(self, session_id: str) -> list[Record]:
        return [record for record in self.records if record["session_id"] == session_id]

    def list_sessions(self, *, user_id: str | None = None) -> list[Record]:
        del user_id
        return [{"session_id": record["session_id"]} for record in self.records]


@pytest.mark.parametrize("kind", [DefaultSessionStore, SqliteTranscriptStore])
def test_a_mirror_gets_every_complete_message(
    tmp_path: Path, kind: type[DefaultSessionStore]
) -> None:
    mirror = Mirror()
    store = kind(str(tmp_path), mirror=mirror)

    store.add_message("s", "user", "one", {"k": 1})
    store.upsert_partial_assistant_message("s", "tw")
    store.upsert_partial_assistant_message("s", "two", finalize=True)
    store.set_chat_history("t", [{"role": "user", "content": "three"}])

    assert store.flush_mirror(60)
    assert isinstance(mirror, SessionMirrorProtocol)
    assert [record["content"] for record in mirror.load("s")] == ["one", "two"]
    assert [record["content"] for record in mirror.load("t")] == ["three"]
    first = mirror.records[0]
    assert first["id"] == f"s:{first['timestamp']}"
    store.close_mirror()


def test_nobody_waits_for_a_mirror(tmp_path: Path) -> None:
    gate = threading.Event()
    mirror = Mirror(gate)
    store = DefaultSessionStore(str(tmp_path), mirror=mirror)

    store.add_message("s", "user", "one")
    is_sent = store.flush_mirror(0)
    gate.set()

    assert not is_sent
    assert store.flush_mirror(60)
    assert len(mirror.records) == 1
    store.close_mirror()


def test_a_mirror_that_fails_is_tried_again(tmp_path: Path) -> None:
    mirror = Mirror(failures=2)
    store = DefaultSessionStore(str(tmp_path), mirror=mirror)

    store.add_message("s", "user", "one")

    assert store.flush_mirror(60)
    assert [record["content"] for record in mirror.records] == ["one"]
    store.close_mirror()


def test_what_a_mirror_never_takes_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    writer = MirrorWriter(Mirror(failures=3))

    writer.enqueue("s", [{"content": "one"}])
    writer.close()

    assert writer.lost == 1
    assert "the mirror lacks 1 records of session 's'" in caplog.text


def test_a_queue_that_is_full_takes_no_more() -> None:
    gate = threading.Event()
    mirror = Mirror(gate)
    writer = MirrorWriter(mirror, max_queue=2)

    for number in range(10):
        writer.enqueue("s", [{"number": number}])
    gate.set()
    writer.close()

    assert writer.lost + len(mirror.records) == 10
    assert writer.lost >= 7


def test_what_comes_after_the_end_is_stored_and_not_mirrored(tmp_path: Path) -> None:
    mirror = Mirror()
    store = DefaultSessionStore(str(tmp_path), mirror=mirror)
    store.add_message("s", "user", "before")
    store.close_mirror()

    store.add_message("s", "user", "after")

    assert store.flush_mirror(0)
    assert [record["content"] for record in mirror.records] == ["before"]
    assert len(store.get_chat_history("s")) == 2


def test_a_store_that_cannot_be_made_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = threading.active_count()

    with pytest.raises(SessionWriteError):
        DefaultSessionStore(str(tmp_path / "file" / "sessions"), mirror=Mirror())

    assert threading.active_count() == before


def test_a_forked_child_has_a_thread_of_its_own(tmp_path: Path) -> None:
    mirror = Mirror()
    store = DefaultSessionStore(str(tmp_path), mirror=mirror)

    child = os.fork()
    if child == 0:
        store.add_message("s", "user", "child")
        is_sent = store.flush_mirror(60) and len(mirror.records) == 1
        os._exit(0 if is_sent else 1)
    _, status = os.waitpid(child, 0)

    assert status == 0
    store.close_mirror()

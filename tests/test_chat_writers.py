"""Several writers of one session: processes, threads, forks, and writers that are killed."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore, FileIdentityResolver
from amberlog.errors import SessionBusyError
from support.children import environment

if TYPE_CHECKING:
    from pathlib import Path

WRITING = """
import sys
from amberlog.chat import DefaultSessionStore
directory, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = DefaultSessionStore(directory, retention="keep_all")
for number in range(count):
    store.add_message("s", "user", f"{writer} {number}")
"""

REWRITING = """
import sys
from amberlog.chat import DefaultSessionStore
store = DefaultSessionStore(sys.argv[1], retention="keep_all")
long = [{"role": "user", "content": f"long {n} " + "x" * 200} for n in range(500)]
short = [{"role": "user", "content": f"short {n}"} for n in range(5)]
store.set_chat_history("s", long)
print("ready", flush=True)
while True:
    store.set_chat_history("s", short)
    store.set_chat_history("s", long)
"""

APPENDING = """
import sys
from amberlog.chat import DefaultSessionStore
store = DefaultSessionStore(sys.argv[1], retention="keep_all")
for number in range(100000):
    store.add_message("s", "user", str(number))
    print(number, flush=True)
"""

LINKING = """
import sys
from amberlog.chat import FileIdentityResolver

resolver = FileIdentityResolver(sys.argv[1])
for number in range(25):
    resolver.link("p" + sys.argv[2], str(number), "alice")
"""


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> int:
    with process:
        return process.wait(timeout=120)


def contents(directory: Path) -> list[str]:
    stored = json.loads((directory / "s.json").read_text(encoding="utf-8"))
    return [str(message["content"]) for message in stored["messages"]]


def test_eight_processes_lose_no_message_and_each_keeps_its_order(tmp_path: Path) -> None:
    writers = [start(WRITING, tmp_path, str(writer), "150") for writer in range(8)]

    codes = [ended(writer) for writer in writers]

    said = contents(tmp_path)
    assert codes == [0] * 8
    assert len(said) == 1200
    for writer in range(8):
        own = [text for text in said if text.startswith(f"{writer} ")]
        assert own == [f"{writer} {number}" for number in range(150)]


@pytest.mark.parametrize("rounds", [30, pytest.param(200, marks=pytest.mark.torture)])
def test_a_killed_rewrite_leaves_the_old_document_or_the_new_one(
    rounds: int, tmp_path: Path
) -> None:
    old = [f"long {number} " + "x" * 200 for number in range(500)]
    new = [f"short {number}" for number in range(5)]
    for seed in range(rounds):
        writer = start(REWRITING, tmp_path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        # The moment of the kill is any moment of a rewrite, the same ones in each run.
        threading.Event().wait(random.Random(seed).uniform(0.0, 0.02))
        writer.kill()
        ended(writer)
        assert contents(tmp_path) in (old, new)
        assert len(DefaultSessionStore(str(tmp_path)).list_sessions()) == 1

    DefaultSessionStore(str(tmp_path)).add_user_message("s", "x")

    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.json", "s.json.lock"]


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    writer = start(APPENDING, tmp_path)
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(50)]

    writer.kill()
    acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
    ended(writer)

    said = contents(tmp_path)
    assert said[: len(acknowledged)] == [str(number) for number in acknowledged]
    assert len(said) <= len(acknowledged) + 1


def test_a_lock_that_is_never_let_go_is_a_busy_error_with_the_path(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    store = DefaultSessionStore(str(tmp_path), lock_timeout=0.2)
    store.add_user_message("s", "before")
    with (tmp_path / "s.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(SessionBusyError) as caught:
            store.add_user_message("s", "while")

        assert caught.value.path == str(tmp_path / "s.json")
        assert store.get_chat_history("s") == [{"role": "user", "content": "before"}]

    store.add_user_message("s", "after")
    assert contents(tmp_path) == ["before", "after"]


def test_checkpoints_beside_a_writer_and_a_reader_fail_none_of_them(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), retention="keep_all")
    done = threading.Event()
    seen: list[list[object]] = []

    def compact() -> None:
        while not done.is_set():
            count = len(store.get_session("s").messages)
            store.append_compaction_checkpoint("s", f"summary {count}")
            done.wait(0.005)

    def read() -> None:
        while not done.is_set():
            history = store.get_working_history("s", 10_000)
            seen.append([message["content"] for message in history])

    threads = [threading.Thread(target=compact), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for number in range(300):
        store.add_user_message("s", f"{number}")
    done.set()
    for thread in threads:
        thread.join(timeout=60)

    assert [message.content for message in store.get_session("s").messages] == [
        str(number) for number in range(300)
    ]
    assert seen
    for texts in seen:
        numbers = [int(str(text)) for text in texts if not str(text).startswith("summary")]
        assert all(later - earlier == 1 for earlier, later in itertools.pairwise(numbers))


def test_a_foreign_write_is_seen_by_the_next_read(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    store.add_user_message("s", "ours")
    for number in range(20):
        stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
        stored["messages"].append({"role": "user", "content": f"{number:04}"})
        other = tmp_path / "other.tmp"
        other.write_text(json.dumps(stored), encoding="utf-8")
        other.replace(tmp_path / "s.json")

        assert store.get_chat_history("s", 1) == [{"role": "user", "content": f"{number:04}"}]

    store.add_user_message("s", "more")
    assert contents(tmp_path) == ["ours", *(f"{number:04}" for number in range(20)), "more"]


def _append_and_exit(store: DefaultSessionStore, number: int) -> None:
    store.add_user_message("s", f"child {number}")
    os._exit(0)


def test_a_child_that_was_forked_amid_writes_writes_too(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path), retention="keep_all")
    done = threading.Event()
    count = 0

    def write() -> None:
        nonlocal count
        while not done.is_set():
            store.add_user_message("s", f"parent {count}")
            count += 1

    thread = threading.Thread(target=write)
    thread.start()
    context = multiprocessing.get_context("fork")
    for number in range(30):
        child = context.Process(target=_append_and_exit, args=(store, number))
        child.start()
        child.join(timeout=10)
        assert child.exitcode == 0
    done.set()
    thread.join(timeout=30)

    said = contents(tmp_path)
    assert [text for text in said if text.startswith("parent")] == [
        f"parent {number}" for number in range(count)
    ]
    assert [text for text in said if text.startswith("child")] == [
        f"child {number}" for number in range(30)
    ]


def _list_and_exit(store: DefaultSessionStore, expected: int) -> None:
    os._exit(0 if len(store.list_sessions()) == expected else 1)


def test_a_child_that_was_forked_amid_lists_lists_too(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    for number in range(200):
        store.add_user_message(f"s{number}", "x")
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            store.list_sessions(None)
            store.invalidate_cache()
            (tmp_path / "touched").touch()
            (tmp_path / "touched").unlink()

    thread = threading.Thread(target=look)
    thread.start()
    context = multiprocessing.get_context("fork")
    codes = []
    for _ in range(20):
        child = context.Process(target=_list_and_exit, args=(store, 50))
        child.start()
        child.join(timeout=10)
        codes.append(child.exitcode)
    done.set()
    thread.join(timeout=30)

    assert codes == [0] * 20


def test_eight_processes_lose_no_identity_link(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    writers = [start(LINKING, file, str(writer)) for writer in range(8)]

    codes = [ended(writer) for writer in writers]

    links = FileIdentityResolver(file).links_for("alice")
    assert codes == [0] * 8
    assert len(links) == 200

"""Hard inputs, in every chat store: full disks, kills, many writers, places one may not write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, cast

import pytest

from amberlog.errors import SessionDamagedError
from support.chat_kinds import IN_FILES, KINDS, MAKING, STORES, documents, said
from support.children import environment
from torture.form import sized
from torture.places import NOBODY, listing, mounted, open_to_all, run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILLING = f"""{MAKING}
import resource
from pathlib import Path
from amberlog.errors import SessionWriteError
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
limit, ballast = int(sys.argv[3]), sys.argv[4]
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
kept, errors = [], []
for number in range(80):
    try:
        store.add_user_message("s", f"{{number}} " + "x" * 15000)
        kept.append(number)
    except SessionWriteError as error:
        errors.append([error.path, bool(error.reason)])
read = len(store.get_chat_history("s"))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
if ballast:
    Path(ballast).unlink()
store.add_user_message("s", "99 again")
kept.append(99)
print(json.dumps({{"kept": kept, "errors": errors, "read": read}}))
"""

REWRITING = f"""{MAKING}
long = [{{"role": "user", "content": f"long {{n}} " + "x" * 200}} for n in range(500)]
short = [{{"role": "user", "content": f"short {{n}}"}} for n in range(5)]
store.set_chat_history("s", long)
while True:
    print("long", flush=True)
    store.set_chat_history("s", short)
    print("short", flush=True)
    store.set_chat_history("s", long)
"""

TURNING = f"""{MAKING}
writer, turns = sys.argv[3], int(sys.argv[4])
for turn in range(turns):
    mark = {{"writer": writer, "turn": turn}}
    call = f"{{writer}}-{{turn}}"
    store.add_message("s", "user", "ask", mark)
    store.add_message("s", "assistant", "", mark, tool_calls=[{{"id": call, "function": {{}}}}])
    store.add_message("s", "tool", "answer", mark, tool_call_id=call)
    store.add_message("s", "assistant", "done", mark)
"""

APPENDING = f"""{MAKING}
print("ready", flush=True)
for number in range(int(sys.argv[4])):
    store.add_message("s", "user", f"zebra {{sys.argv[3]}} {{number}}")
"""

READING = f"""{MAKING}
count = 0
while count < int(sys.argv[3]):
    texts = [message["content"] for message in store.get_chat_history("s")]
    assert len(texts) >= count, (len(texts), count)
    count = len(texts)
    rows, hits = store.list_sessions(), store.search("zebra")
    assert not count or (len(rows), len(hits)) == (1, 1), (count, rows, hits)
"""

HOLDING = """
import fcntl, sqlite3, sys
kind, directory = sys.argv[1:]
if kind == "rows":
    held = sqlite3.connect(directory + "/sessions.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
else:
    held = open(directory + "/s.json.lock", "w")
    fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""

AS_SOMEBODY = """
import contextlib, io, json, os, sys, tempfile
from pathlib import Path
import amberlog.cli
from amberlog.errors import SessionError
from support.chat_kinds import STORES, options
kind, directory, user = sys.argv[1], sys.argv[2], int(sys.argv[3])

def commanded(place):
    for command in (["list"], ["show", "s"], ["search", "zebra"]):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = amberlog.cli.main(["chat", *command, *options(kind, Path(place))])
        yield [code, "zebra" in out.getvalue() or command == ["list"] and "s" in out.getvalue()]

if user:
    # What is imported late lies where only root may read.
    with tempfile.TemporaryDirectory() as other:
        STORES[kind](other).add_user_message("s", "zebra")
        list(commanded(other))
    os.setgid(user)
    os.setuid(user)
store = STORES[kind](directory)
answer = {
    "rows": len(store.list_sessions()),
    "hits": len(store.search("zebra")),
    "history": store.get_working_history("s"),
    "write": None,
    "codes": list(commanded(directory)),
}
try:
    store.add_user_message("s", "x")
except SessionError as error:
    answer["write"] = type(error).__name__
sys.stdout.write("\\n" + json.dumps(answer))
"""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Returns the name of a chat store."""
    return str(request.param)


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(*processes: subprocess.Popen[str]) -> list[int]:
    """Returns the codes of processes; where one does not end, none is left."""
    try:
        for process in processes:
            process.communicate(timeout=300)
    finally:
        for process in processes:
            process.kill()
    return [process.wait() for process in processes]


def check_filled(done: subprocess.CompletedProcess[str], kind: str, place: Path) -> None:
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    file = place / ("sessions.db" if kind == "rows" else "s.json")
    numbers = [int(text.split()[0]) for text in said(documents(kind, place)["s"])]
    assert numbers == report["kept"]
    assert report["read"] == len(report["kept"]) - 1
    assert report["errors"]
    assert {tuple(error) for error in report["errors"]} == {(str(file), True)}
    again = STORES[kind](str(place), retention="keep_all")
    assert again.add_user_message("s", "100 more")
    assert len(said(documents(kind, place)["s"])) == len(numbers) + 1


def test_a_file_that_may_not_grow_loses_nothing_and_says_what_failed(
    kind: str, tmp_path: Path
) -> None:
    done = run(FILLING, kind, tmp_path, 200_000, "")

    check_filled(done, kind, tmp_path)


def test_a_full_file_system_loses_nothing_and_says_what_failed(kind: str) -> None:
    with mounted("tmpfs", "-o", "size=1m", "tmpfs") as place:
        if place is None:
            pytest.skip("one may not mount a file system here")
        (place / "ballast").write_bytes(bytes(300_000))

        done = run(FILLING, kind, place, 0, place / "ballast")

        check_filled(done, kind, place)


def test_a_killed_rewrite_leaves_the_old_document_or_the_new_one(kind: str, tmp_path: Path) -> None:
    old = [f"long {number} " + "x" * 200 for number in range(500)]
    new = [f"short {number}" for number in range(5)]

    for rewrites in range(1, sized(short=20, long=200) + 1):
        with start(REWRITING, kind, tmp_path) as writer:
            assert writer.stdout is not None
            for _ in range(rewrites % 20 + 1):
                writer.stdout.readline()
            writer.kill()
        assert said(documents(kind, tmp_path)["s"]) in (old, new)
        listed = STORES[kind](str(tmp_path)).list_sessions(None)
        assert [row["session_id"] for row in listed] == ["s"]

    STORES[kind](str(tmp_path)).add_user_message("s", "x")
    left = {file.name for file in tmp_path.iterdir() if not file.name.startswith("sessions")}
    assert left == (set() if kind == "rows" else {"s.json", "s.json.lock"})


@pytest.mark.parametrize("kind", IN_FILES)
@pytest.mark.parametrize(
    ("damage", "at"),
    [(b"", "offset 0"), (b'{"session_id": "s", "messages": []} and more', "offset 36")],
    ids=["empty", "followed"],
)
def test_a_damaged_session_raises_and_its_bytes_stay(
    damage: bytes, at: str, kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(damage)
    store = STORES[kind](str(tmp_path))

    for call in (
        lambda: store.get_chat_history("s"),
        lambda: store.get_working_history("s"),
        lambda: store.add_user_message("s", "x"),
        lambda: store.append_compaction_checkpoint("s", "all of it"),
        lambda: store.set_chat_history("s", []),
        lambda: store.clear_session("s"),
    ):
        with pytest.raises(SessionDamagedError) as caught:
            call()
        assert (caught.value.path, caught.value.at) == (str(file), at)

    assert file.read_bytes() == damage
    assert store.list_sessions() == []
    assert [path for path, _ in store.unreadable_sessions()] == [str(file)]


def test_checkpoints_beside_a_writer_and_a_reader_fail_none_of_them(
    kind: str, tmp_path: Path
) -> None:
    store = STORES[kind](str(tmp_path), retention="keep_all", durability="process")
    total, done = sized(short=150, long=500), threading.Event()
    seen: list[list[str]] = []
    failed: list[BaseException] = []

    def until_done(step: str) -> None:
        try:
            while not done.is_set():
                if step == "compact":
                    count = len(store.get_session("s").messages)
                    store.append_compaction_checkpoint("s", f"summary {count}")
                    done.wait(0.005)
                else:
                    history = store.get_working_history("s", 10_000)
                    seen.append([str(message["content"]) for message in history])
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=until_done, args=[step]) for step in ("compact", "read")]
    for thread in threads:
        thread.start()
    for number in range(total):
        store.add_user_message("s", f"{number}")
    done.set()
    for thread in threads:
        thread.join(timeout=60)

    assert failed == []
    assert said(documents(kind, tmp_path)["s"]) == [str(number) for number in range(total)]
    for texts in seen:
        numbers = [int(text) for text in texts if not text.startswith("summary")]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        assert all(text.startswith("summary") == (at == 0) for at, text in enumerate(texts)) or (
            numbers == list(range(len(texts)))
        )


def test_two_processes_lose_no_turn_and_every_message_tells_its_own(
    kind: str, tmp_path: Path
) -> None:
    turns = sized(short=25, long=500)

    writers = [start(TURNING, kind, tmp_path, name, turns) for name in "ab"]
    codes = ended(*writers)

    assert codes == [0, 0]
    stored = cast("list[dict[str, object]]", documents(kind, tmp_path)["s"]["messages"])
    assert len(stored) == 2 * 4 * turns
    for name in "ab":
        own = [one for one in stored if marked(one)["writer"] == name]
        assert [marked(one)["turn"] for one in own] == [n // 4 for n in range(4 * turns)]
        assert [one["role"] for one in own] == ["user", "assistant", "tool", "assistant"] * turns
        calls = [one["tool_call_id"] for one in own if one["role"] == "tool"]
        assert calls == [f"{name}-{turn}" for turn in range(turns)]


def marked(message: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", message["metadata"])


def test_eight_writers_and_four_readers_get_no_lock_error(kind: str, tmp_path: Path) -> None:
    each = sized(short=12, long=300)

    readers = [start(READING, kind, tmp_path, 8 * each) for _ in range(4)]
    writers = [start(APPENDING, kind, tmp_path, writer, each) for writer in range(8)]
    codes = ended(*writers, *readers)

    assert codes == [0] * 12
    found = said(documents(kind, tmp_path)["s"])
    assert len(found) == 8 * each
    for writer in range(8):
        own = [text for text in found if text.startswith(f"zebra {writer} ")]
        assert own == [f"zebra {writer} {number}" for number in range(each)]


def test_a_lock_of_a_killed_process_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](str(tmp_path), retention="keep_all")
    store.add_user_message("s", "before")
    with start(HOLDING, kind, tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waiters = [start(APPENDING, kind, tmp_path, name, 10) for name in "ab"]
        for waiter in waiters:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "ready\n"
        holder.kill()

    codes = ended(*waiters)

    assert codes == [0, 0]
    found = said(documents(kind, tmp_path)["s"])
    assert found[0] == "before"
    assert sorted(found[1:]) == sorted(f"zebra {name} {n}" for name in "ab" for n in range(10))


def filled(kind: str, place: Path) -> None:
    code = f"{MAKING}\nstore.add_user_message('s', 'zebra')\nstore.list_sessions()\n"
    done = run(code, kind, place)
    assert done.returncode == 0, done.stderr[-2000:]
    for file in place.iterdir():
        file.chmod(0o644)
    (place / "s.json.lock").unlink(missing_ok=True)


def check_read(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "rows": 1,
        "hits": 1,
        "history": [{"role": "user", "content": "zebra"}],
        "write": "SessionReadOnlyError",
        "codes": [[0, True]] * 3,
    }
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_directory_that_one_may_not_write_is_read_and_left_alone(kind: str) -> None:
    with open_to_all() as top:
        place = top / "sessions"
        place.mkdir()
        filled(kind, place)
        place.chmod(0o555)
        before = listing(place)

        done = run(AS_SOMEBODY, kind, place, NOBODY)

        after = listing(place)
    check_read(done)
    assert after == before


def test_a_read_only_mount_is_read_and_left_alone(kind: str, tmp_path: Path) -> None:
    filled(kind, tmp_path)
    before = listing(tmp_path)
    with mounted("bind", str(tmp_path)) as place:
        if place is None:
            pytest.skip("one may not mount a directory here")
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)  # noqa: S607

        done = run(AS_SOMEBODY, kind, place, 0)

    check_read(done)
    assert listing(tmp_path) == before

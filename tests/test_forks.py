"""A process that forks while a session is open, and what its children may do with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from torture.form import sized

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = sized(short=100, long=500)
HANGS_AFTER_S = 10

FORKING = """
import gc, json, multiprocessing, os, sys, threading, warnings
from amberlog import SessionClosedError, SessionStore
warnings.simplefilter("ignore")  # that forking beside a thread is unwise is what is tested
path, rounds, hangs_after = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
context = multiprocessing.get_context("fork")
store = SessionStore(path)
stop = threading.Event()
appended = []

def write():
    n = 0
    while not stop.is_set():
        appended.append(store.append_event("parent", "text", {"n": n})[1])
        if n % 20 == 0:
            store.save_conversation("parent", [{"role": "user", "content": str(n)}])
            store.search("words", 3)
        if n % 100 == 0:
            store.flush()
        n += 1

def child(number):
    global store
    try:
        store.append_event("inherited", "text", {"n": number})
        inherited = True
    except SessionClosedError:
        inherited = False
    try:
        store.get_events("parent")
        store.load_meta()
    except SessionClosedError:
        pass
    if number % 4 == 1:
        store.close()
    if number % 4 == 2:
        store = None
        gc.collect()
    with SessionStore(path) as own:
        own.append_event("child", "text", {"n": number, "inherited": inherited})
        own.append_events("child", [("text", {"n": number, "part": 1})])
        events = own.get_events("child")
        assert [e["n"] for e in events[-2:]] == [number, number], events[-2:]
        own.save_state(f"child{number}", turn_count=number)
        own.flush()
        assert own.search("nothing", 2) == []
        own.close(update_status=False)

thread = threading.Thread(target=write)
thread.start()
bad = []
for number in range(rounds):
    process = context.Process(target=child, args=(number,))
    process.start()
    process.join(hangs_after)
    if process.exitcode != 0:
        bad.append([number, process.exitcode])
        process.kill()
        process.join()
        if len(bad) > 3:
            break
stop.set()
thread.join(hangs_after)
hangs = thread.is_alive()
found = [event["event_id"] for event in store.get_events("parent")]
print(json.dumps({"bad": bad, "hangs": hangs, "lost": len(set(appended) - set(found)),
                  "strange": len(set(found) - set(appended))}), flush=True)
store.close()
os._exit(0 if not hangs else 1)
"""

NESTED = """
import os, sys
from amberlog import SessionClosedError, SessionStore
path = sys.argv[1]
store = SessionStore(path)
store.append_event("parent", "text", {"n": 0})
pid = os.fork()
if pid == 0:
    own = SessionStore(path)
    own.append_event("child", "text", {"n": 0})
    grandchild = os.fork()
    if grandchild == 0:
        for inherited in (store, own):
            try:
                inherited.append_event("nobody", "text", {})
            except SessionClosedError:
                continue
            os._exit(3)
        with SessionStore(path) as third:
            third.append_event("grandchild", "text", {"n": 0})
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
    own.append_event("child", "text", {"n": 1})
    own.close()
    os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
store.append_event("parent", "text", {"n": 1})
store.close()
sys.exit(code)
"""

UNFLUSHED = """
import os, sys
from amberlog import SessionClosedError, SessionStore
store = SessionStore(sys.argv[1], durability="batch", writer_lock=True)
store.append_event("parent", "text", {"n": 0})
pid = os.fork()
if pid == 0:
    try:
        store.append_event("parent", "text", {"n": 99})
    except SessionClosedError:
        pass
    else:
        os._exit(3)
    try:
        store.flush()
    except SessionClosedError:
        pass
    store.close()
    del store
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
store.append_event("parent", "text", {"n": 1})
store.close()
sys.exit(code)
"""


def run(script: str, *arguments: object, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.torture
def test_a_fork_beside_a_writing_thread_costs_nobody_anything(path: Path) -> None:
    patience = ROUNDS * 2 + 60

    done = run(FORKING, path, ROUNDS, HANGS_AFTER_S, timeout_s=patience)

    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    with SessionStore(path) as store:
        children = store.get_events("child")
        states = [store.load_turn_count(f"child{number}") for number in range(ROUNDS)]
        ids = [event["event_id"] for _, event in store.get_all_events()]
        problems = store.verify().problems
    assert (report["bad"], report["hangs"]) == ([], False)
    assert (report["lost"], report["strange"]) == (0, 0)
    assert [event["n"] for event in children] == [n for n in range(ROUNDS) for _ in range(2)]
    assert states == list(range(ROUNDS))
    assert len(set(map(str, ids))) == len(ids)
    assert not problems


def test_a_grandchild_may_open_the_session_too(path: Path) -> None:
    done = run(NESTED, path, timeout_s=60)

    with SessionStore(path) as store:
        logs = {name: [e["n"] for e in store.get_events(name)] for name in store.namespaces()}
        problems = store.verify().problems
    assert done.returncode == 0, done.stderr
    assert logs == {"parent": [0, 1], "child": [0, 1], "grandchild": [0]}
    assert not problems


def test_a_child_never_writes_what_its_parent_holds_back(path: Path) -> None:
    done = run(UNFLUSHED, path, timeout_s=60)

    with SessionStore(path) as store:
        events = store.get_events("parent")
        problems = store.verify().problems
    assert done.returncode == 0, done.stderr
    assert [event["n"] for event in events] == [0, 1]
    assert not problems


def test_a_child_does_not_keep_the_writer_lock_of_its_parent(path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "from amberlog import SessionStore\n"
        "store = SessionStore(sys.argv[1], writer_lock=True)\n"
        "reading, writing = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.close(writing)\n"
        "    os.read(reading, 1)\n"  # until the parent has tried
        "    os._exit(0)\n"
        "store.close()\n"
        "SessionStore(sys.argv[1], writer_lock=True).close()\n"
        "os.close(writing)\n"
        "os.waitpid(pid, 0)\n"
    )

    done = run(script, path, timeout_s=60)

    assert done.returncode == 0, done.stderr

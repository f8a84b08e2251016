"""A disk that is full, a session that is closed, a directory that may only be read."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from amberlog import Attachment, SessionClosedError, SessionStore
from amberlog.types import Unit
from torture.places import NOBODY, listing, mounted, open_to_all, run

if TYPE_CHECKING:
    from pathlib import Path

FILLING = """
import json, os, resource, sys
from amberlog import SessionError, SessionStore, SessionWriteError
path, limit, ballast = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = SessionStore(path)
if limit:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
kept, bad, refused = [], [], 0

def attempt(verb, call):
    global refused
    try:
        return call()
    except SessionWriteError as error:
        refused += 1
        if not (error.path and error.path.startswith(path) and error.reason and str(error)):
            bad.append([verb, repr(error)])
    except Exception as error:
        bad.append([verb, repr(error)])
    return None

big = "word " * 400
n = 0
while refused < 20 and n < 5000:
    event = {"n": n, "content": "word", "bulk": big}
    if attempt("append_event", lambda: store.append_event("alice", "text", event)):
        kept.append(n)
    n += 1
messages = [{"role": "user", "content": big * 100}]
calls = {
    "append_events": lambda: store.append_events("alice", [("text", {"n": -1, "bulk": big})] * 50),
    "save_conversation": lambda: store.save_conversation("alice", messages),
    "save_branch_snapshot": lambda: store.save_branch_snapshot(
        "alice", messages, branch=None, watermark=1),
    "save_state": lambda: store.save_state("alice", scratchpad={"content": big * 100}),
    "save_channel_message": lambda: store.save_channel_message("c", {"content": big * 100}),
    "save_job": lambda: store.save_job("j", {"content": big * 100}),
    "save_subagent": lambda: store.save_subagent("alice", "x", 0, {"content": big * 100}),
    "save_turn_rollup": lambda: store.save_turn_rollup("alice", 1, {"content": big * 100}),
    "meta": lambda: store.meta.__setitem__("content", big * 100) or True,
}
before = refused
for verb, call in calls.items():
    attempt(verb, call)
each_refused = refused - before
for verb in ("flush", "checkpoint"):
    attempt(verb, getattr(store, verb))
readable = [event["n"] for event in store.get_events("alice")] == kept
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
else:
    os.unlink(ballast)
again = store.append_event("alice", "text", {"n": n, "content": "word", "bulk": big})
kept.append(n)
found = len(store.search("word", 5))
store.close()
print(json.dumps({"kept": kept, "bad": bad, "refused": refused, "each": each_refused,
                  "verbs": len(calls), "readable": readable, "found": found}))
"""

SEARCHING_FULL = """
import json, resource, sys
from amberlog import SessionStore
store = SessionStore(sys.argv[1])
for number in range(60):
    store.append_event("alice", "text", {"content": f"zebra{number} " + "word " * 400})
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
found = [hit["meta"]["event_key"] for hit in store.search("zebra7 zebra41")]
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
later = [hit["meta"]["event_key"] for hit in store.search("zebra7 zebra41")]
store.close()
print(json.dumps({"found": sorted(found), "later": sorted(later)}))
"""

CLOSING_FULL = """
import json, resource, sys
from amberlog import SessionError, SessionStore
store = SessionStore(sys.argv[1])
event = {"content": "word " * 400}
kept = [store.append_event("alice", "text", event)[1] for _ in range(60)]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
try:
    store.close()
    raised = None
except SessionError as error:
    raised = [type(error).__name__, error.path]
print(json.dumps({"kept": kept, "raised": raised}))
"""

AS_NOBODY = """
import json, os, sys
import amberlog, amberlog.cli
from amberlog import SessionError, SessionStore
path, write_to, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
amberlog.cli.main(["show", path, "--json"])  # what is imported late is imported now
if uid:
    os.setgid(uid)
    os.setuid(uid)
answer = {}
with SessionStore.open_readonly(path) as store:
    answer["events"] = [e["event_id"] for e in store.get_events("alice")]
    answer["conversation"] = store.load_conversation("alice")
    answer["resumable"] = len(store.get_resumable_events("alice"))
    answer["hits"] = len(store.search("zebrafish42", 5))
    answer["meta"] = store.load_meta()["status"]
    answer["ok"] = store.verify().ok
    try:
        store.append_event("alice", "text", {})
    except SessionError as error:
        answer["write"] = type(error).__name__
try:
    with SessionStore(write_to) as store:
        store.append_event("alice", "text", {})
        answer["open"] = "it was written"
except SessionError as error:
    answer["open"] = type(error).__name__
answer["codes"] = [amberlog.cli.main([verb, path, *rest, "--json"]) for verb, *rest in
    (("show",), ("events",), ("search", "zebrafish42"), ("verify",))]
sys.stdout.write("\\n" + json.dumps(answer))
"""


@pytest.mark.parametrize("limit", [200_000, 60_000])
def test_a_file_that_may_not_grow_loses_nothing_and_says_what_failed(
    limit: int, path: Path
) -> None:
    done = run(FILLING, path, limit, "")

    check_filled(done, path)


def test_a_full_file_system_loses_nothing_and_says_what_failed() -> None:
    with mounted("tmpfs", "-o", "size=1m", "tmpfs") as place:
        if place is None:
            pytest.skip("one may not mount a file system here")
        ballast = place / "ballast"
        ballast.write_bytes(bytes(300_000))
        path = place / "session.kohakutr"

        done = run(FILLING, path, 0, ballast)

        check_filled(done, path)


def check_filled(done: subprocess.CompletedProcess[str], path: Path) -> None:
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    with SessionStore.open_readonly(path) as store:
        stored = [event["n"] for event in store.get_events("alice")]
        problems = store.verify().problems
    assert report["bad"] == []
    assert report["refused"] >= 20
    assert report["each"] == report["verbs"]
    assert report["readable"]
    assert report["found"] == 5
    assert stored == report["kept"]
    assert not problems


def test_a_search_on_a_full_disk_finds_what_the_index_has_no_room_for(path: Path) -> None:
    done = run(SEARCHING_FULL, path)

    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["found"] == ["alice:e000007", "alice:e000041"]
    assert report["later"] == report["found"]


def test_closing_on_a_full_disk_loses_nothing(path: Path) -> None:
    done = run(CLOSING_FULL, path)

    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    with SessionStore(path) as store:
        stored = [event["event_id"] for event in store.get_events("alice")]
        problems = store.verify().problems
    assert stored == report["kept"]
    assert report["raised"] is None or report["raised"] == ["SessionWriteError", str(path)]
    assert not problems


ARGUMENTS: dict[str, object] = {
    "agent": "alice",
    "event_type": "text",
    "data": {},
    "events": [("text", {})],
    "messages": [],
    "branch": None,
    "watermark": 0,
    "branch_view": {1: 1},
    "turn_index": 1,
    "event_id": 1,
    "channel": "c",
    "parent": "alice",
    "name": "explorer",
    "run": 0,
    "meta": {},
    "job_id": "job",
    "status": "paused",
    "is_open": True,
    "namespace": "alice",
    "query": "word",
    "path": "/nonexistent/copy.kohakutr",
    "target_path": "/nonexistent/child.kohakutr",
    "at_event_id": 1,
    "filename": "name",
    "summary": "all of it",
    "unit": Unit(),
    "session_id": "id",
    "config_type": "agent",
    "config_path": "",
    "pwd": "",
    "agents": [],
    "callback": print,
    "closer": print,
    "fn": print,
    "host": "alice",
    "role": "critic",
    "agent_name": "carl",
    "attachment": Attachment("alice", "critic", 0, "carl"),
}
HARMLESS = {"close", "open_readonly", "unsubscribe", "path", "readonly", "is_ready", "run"}
VERBS = sorted(
    name
    for name, value in inspect.getmembers(SessionStore)
    if not name.startswith("_") and name not in HARMLESS and inspect.isfunction(value)
)
TABLES = (
    "meta",
    "state",
    "events",
    "channels",
    "subagents",
    "jobs",
    "conversation",
    "turn_rollup",
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_public_verb_of_a_closed_store_raises(verb: str, path: Path) -> None:
    store = SessionStore(path)
    store.close()
    method = getattr(store, verb)
    needed = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if (parameter.default is parameter.empty or parameter.name == "agent")
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    by_name = {p.name: ARGUMENTS[p.name] for p in needed if p.kind is not p.POSITIONAL_ONLY}
    by_place = [ARGUMENTS[p.name] for p in needed if p.kind is p.POSITIONAL_ONLY]

    with pytest.raises(SessionClosedError) as raised:
        method(*by_place, **by_name)

    assert raised.value.path == str(path)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_of_a_closed_store_raises(table: str, path: Path) -> None:
    store = SessionStore(path)
    store.close()
    rows = getattr(store, table)

    for read in (lambda: rows["key"], lambda: list(rows), lambda: len(rows), lambda: "key" in rows):
        with pytest.raises(SessionClosedError):
            read()
    if table != "events":
        with pytest.raises(SessionClosedError):
            rows["key"] = 1
        with pytest.raises(SessionClosedError):
            del rows["key"]


def test_a_store_closed_for_reading_raises_too(path: Path) -> None:
    SessionStore(path).close()
    store = SessionStore.open_readonly(path)
    store.close()

    for read in (store.load_meta, store.get_all_events, store.verify, store.namespaces):
        with pytest.raises(SessionClosedError):
            read()


def recorded(path: Path, *, hot: bool) -> None:
    script = (
        "import os, sys\n"
        "from amberlog import SessionStore\n"
        "store = SessionStore(sys.argv[1])\n"
        "store.init_meta('s', 'agent', '', '', ['alice'])\n"
        "for n in range(50):\n"
        "    store.append_event('alice', 'text', {'content': f'word {n} zebrafish{n}'})\n"
        "store.save_conversation('alice', [{'role': 'user', 'content': 'hello'}])\n"
        "if sys.argv[2] == 'True':\n"
        "    os.kill(os.getpid(), 9)\n"
        "store.close(update_status=False)\n"
    )
    run(script, path, hot)
    log = path.with_name(f"{path.name}-wal")
    assert log.exists() == hot
    path.with_name(f"{path.name}.lock").unlink()


def check_read(done: subprocess.CompletedProcess[str], writes: set[str]) -> None:
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["events"] == list(range(1, 51))
    assert answer["conversation"] == [{"role": "user", "content": "hello"}]
    assert answer["resumable"] == 50
    assert answer["hits"] == 1
    assert answer["meta"] == "running"
    assert answer["ok"]
    assert answer["write"] == "SessionReadOnlyError"
    assert answer["open"] in writes
    assert answer["codes"] == [0, 0, 0, 0]
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("hot", [False, True])
def test_a_session_in_a_directory_one_may_not_write_can_be_read(*, hot: bool) -> None:
    with open_to_all() as top:
        place = top / "sessions"
        place.mkdir()
        path = place / "session.kohakutr"
        recorded(path, hot=hot)
        for file in place.iterdir():
            file.chmod(0o644)
        place.chmod(0o555)
        before = listing(place)

        done = run(AS_NOBODY, path, path, NOBODY)

        after = listing(place)
    check_read(done, {"SessionReadOnlyError", "SessionWriteError"})
    assert after == before


@pytest.mark.parametrize("hot", [False, True])
def test_a_session_on_a_read_only_mount_can_be_read(tmp_path: Path, *, hot: bool) -> None:
    path = tmp_path / "session.kohakutr"
    recorded(path, hot=hot)
    before = listing(tmp_path)
    with mounted("bind", str(tmp_path)) as place:
        if place is None:
            pytest.skip("one may not mount a directory here")
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)  # noqa: S607

        done = run(AS_NOBODY, place / path.name, place / path.name, 0)

    check_read(done, {"SessionReadOnlyError", "SessionWriteError"})
    assert listing(tmp_path) == before

"""A session of the first format becomes one of the present format, and stays what it was."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import amberlog
from amberlog import (
    SessionDamagedError,
    SessionLockedError,
    SessionMigrationError,
    SessionStore,
)
from amberlog.migration import ensure_latest_version, migration_report
from support import independent, kohaku
from support.children import environment
from support.first_format import dated, make, random_session, turn

REBUILT = {
    *("system_prompt_set", "user_input", "user_message", "text_chunk", "assistant_tool_calls"),
    *("tool_result", "compact_replace", "compact_complete"),
}
"""Types whose events the peer dates anew, where ours keep the time of the old event."""

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "migrate.py"


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Returns the session of the first format that the peer's fixtures have."""
    return kohaku.unpack("v1.kohakutr.gz", tmp_path, "v1.kohakutr")


def everything(path: Path) -> dict[str, dict[str, object]]:
    return {
        name: {key: plain(value) for key, value in independent.rows(path, name).items()}
        for name in independent.KV_TABLES
    }


def plain(value: object) -> object:
    """Returns a value that the peer stored in one of its older forms as what it is."""
    for header, read in (
        ("894b010600000000564b", lambda body: body.decode()),
        ("894b010200000000564b", lambda body: int.from_bytes(body, "little", signed=True)),
    ):
        if isinstance(value, bytes) and value.startswith(bytes.fromhex(header)):
            return read(value[10:])
    return value


def undated(tables: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Leaves out when and from where a session was migrated, and the times that the peer lost."""
    for event in tables["events"].values():
        assert isinstance(event, dict)
        event.pop("migrated_at", None)
        if event["type"] in REBUILT or event["ts"] is None:
            del event["ts"]
        # The peer sorts the keys of every map that it reads.
        for call in event.get("tool_calls") or ():
            call["function"]["arguments"] = arguments(call["function"]["arguments"])
    for name in ("migrated_from", "lineage"):
        tables["meta"].pop(name, None)
    return tables


def arguments(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_the_fixture_becomes_what_the_peer_makes_of_it(v1: Path) -> None:
    expected = {
        name: kohaku.expected("v1", "migrated", "tables", name) for name in ("meta", "state")
    }
    events = kohaku.expected("v1", "migrated", "events", "alice")
    peers = kohaku.unpack("v1.kohakutr.v2.gz", v1.parent, "peer.v2")

    made = amberlog.migrate(v1)

    assert made == v1.with_name("v1.kohakutr.v2")
    assert undated(everything(made)) == undated(everything(peers))
    assert everything(made)["state"] == expected["state"]
    assert isinstance(events, dict)
    assert list(everything(made)["events"]) == list(events)


def test_events_keep_the_time_of_those_that_they_were_made_of(v1: Path) -> None:
    made = everything(amberlog.migrate(v1))["events"]

    times = [event["ts"] for event in made.values() if isinstance(event, dict)]
    assert times == sorted(times)
    assert times[0] == 1_700_000_000.0
    assert times[-1] == 1_700_000_016.0


def test_the_new_session_says_where_it_comes_from(v1: Path) -> None:
    made = everything(amberlog.migrate(v1))["meta"]

    origin = made["migrated_from"]
    assert isinstance(origin, dict)
    assert origin["migrated_from"] == str(v1)
    assert origin["source_version"] == 1
    assert origin["migrator"] == "v1_to_v2"
    assert made["lineage"] == {"migration": origin}


def test_the_old_session_is_not_touched(v1: Path) -> None:
    before = kohaku.contents(v1.parent)

    made = amberlog.migrate(v1)

    after = kohaku.contents(v1.parent)
    assert after.pop(made.name)
    assert after == before


def test_the_new_session_is_whole_and_can_be_gone_on_with(v1: Path) -> None:
    with SessionStore(amberlog.migrate(v1)) as store:
        assert store.verify().ok
        assert [hit["meta"]["event_key"] for hit in store.search("README says")][:1] == [
            "alice:e000008"
        ]
        assert store.append_event("alice", "text_chunk", {"content": "more"})[1] == 21


def test_a_second_migration_changes_nothing(v1: Path) -> None:
    first = amberlog.migrate(v1)
    with SessionStore(first) as store:
        store.append_event("alice", "user_message", {"content": "more"}, turn_index=3)
    before = kohaku.contents(v1.parent)

    again = amberlog.migrate(v1)

    assert again == first
    assert ensure_latest_version(v1) == ensure_latest_version(first) == first
    assert kohaku.contents(v1.parent) == before


def test_a_dry_run_writes_nothing(v1: Path) -> None:
    before = kohaku.contents(v1.parent)

    would_be = amberlog.migrate(v1, dry_run=True)

    assert would_be == v1.with_name("v1.kohakutr.v2")
    assert kohaku.contents(v1.parent) == before


def test_the_report_counts_what_is_read_and_written(tmp_path: Path) -> None:
    source = make(
        tmp_path / "old.kohakutr",
        {"alice": dated([*turn(1), *turn(2)])},
        {"alice": [{"role": "user", "content": "question 1"}]},
        channels={"tasks:m000000": {"content": "a"}, "tasks:m000001": {"content": "b"}},
        subagents={"alice:x:0:meta": {}, "alice:x:0:conversation": "[]", "alice:x:1:meta": {}},
        jobs={"j": {"state": "done"}},
    )
    (tmp_path / "old.artifacts" / "deep").mkdir(parents=True)
    (tmp_path / "old.artifacts" / "deep" / "a.png").write_bytes(b"a")

    report = migration_report(source)

    assert report.events_read == {
        **dict.fromkeys(("user_input", "processing_start", "tool_call", "tool_result"), 2),
        "processing_end": 2,
        "text": 4,
    }
    assert report.events_written == {
        **dict.fromkeys(("user_input", "user_message", "processing_start", "tool_result"), 2),
        "processing_end": 2,
        "assistant_tool_calls": 2,
        "text_chunk": 4,
    }
    assert (report.agents, report.turns, report.snapshots) == (("alice",), 2, 1)
    assert (report.channel_messages, report.subagent_runs, report.jobs) == (2, 2, 1)
    assert report.artifacts == 1
    assert not report.preserved
    assert not report.reused


def test_the_artifacts_come_along(tmp_path: Path) -> None:
    source = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})
    (tmp_path / "old.artifacts" / "deep").mkdir(parents=True)
    (tmp_path / "old.artifacts" / "deep" / "a.png").write_bytes(b"picture")
    # What a migration that was killed had copied already.
    (tmp_path / "old.kohakutr.artifacts").mkdir()
    (tmp_path / "old.kohakutr.artifacts" / "b.txt").write_bytes(b"text")

    made = amberlog.migrate(source)

    with SessionStore(made) as store:
        assert (store.artifacts_dir / "deep" / "a.png").read_bytes() == b"picture"
        assert (store.artifacts_dir / "b.txt").read_bytes() == b"text"


def test_logs_that_belong_to_no_agent_come_along(tmp_path: Path) -> None:
    logs = {name: dated(turn(1)) for name in ("alice", "alice:attached:critic:0", "terrarium")}
    source = make(tmp_path / "old.kohakutr", logs)

    with SessionStore(amberlog.migrate(source)) as store:
        found = {name: len(store.get_events(name)) for name in logs}

        assert found == dict.fromkeys(logs, 8)
        assert store.load_meta()["agents"] == ["alice"]
        assert store.get_events("alice")[0]["event_id"] == 1


def test_an_unversioned_log_of_the_present_format_is_kept_as_it_is(tmp_path: Path) -> None:
    stamps = {"turn_index": 1, "branch_id": 2, "parent_branch_path": []}
    events = dated(
        [
            {"type": "user_input", "content": "a", "event_id": 7, **stamps},
            {"type": "user_message", "content": "a", "event_id": 9, **stamps},
            {"type": "text_chunk", "content": "b", "event_id": 8, "odd": [1]},
        ]
    )
    source = make(tmp_path / "old.kohakutr", {"alice": events})

    made = everything(amberlog.migrate(source))

    assert list(made["events"].values()) == events
    assert made["meta"]["format_version"] == 2
    assert migration_report(source).preserved


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": None},
        {"event_id": 1},
        {"turn_index": "1"},
        {"branch_id": 0},
        {"type": "user_input", "turn_index": 5},
    ],
)
def test_a_mixed_log_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    user = {"type": "user_message", "content": "a", "turn_index": 1, "branch_id": 1}
    events = dated([{**user, "event_id": 1}, {**user, "event_id": 2, **change}])
    source = make(tmp_path / "old.kohakutr", {"alice": events})
    before = kohaku.contents(tmp_path)

    for migrating in (amberlog.migrate, migration_report, ensure_latest_version):
        with pytest.raises(SessionMigrationError) as caught:
            migrating(source)
        assert caught.value.path == str(source)

    assert kohaku.contents(tmp_path) == before


def test_a_session_of_both_formats_is_refused(tmp_path: Path) -> None:
    user = {"type": "user_message", "event_id": 1, "turn_index": 1, "branch_id": 1}
    logs = {"alice": dated([user]), "bob": dated(turn(1))}
    source = make(tmp_path / "old.kohakutr", logs)

    with pytest.raises(SessionMigrationError, match="bob"):
        amberlog.migrate(source)


def test_a_log_that_a_killed_writer_left_in_its_journal_is_migrated(tmp_path: Path) -> None:
    source = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})
    key, value = b"alice:e000007", independent.encoded({"type": "text", "content": "last", "ts": 1})
    script = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute('INSERT INTO events VALUES (?, ?)', [bytes.fromhex(a) for a in sys.argv[2:]])\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, source, key.hex(), value.hex()], check=True)
    before = kohaku.contents(tmp_path)
    assert "old.kohakutr-wal" in before

    made = amberlog.migrate(source)

    assert "last" in [e.get("content") for e in everything(made)["events"].values()]  # type: ignore[attr-defined]
    assert {
        name: found for name, found in kohaku.contents(tmp_path).items() if name in before
    } == before


def test_a_session_that_is_open_is_refused(v1: Path) -> None:
    with SessionStore(v1), pytest.raises(SessionLockedError):
        amberlog.migrate(v1)

    assert not v1.with_name("v1.kohakutr.v2").exists()


def test_a_session_that_another_process_has_open_is_refused(v1: Path) -> None:
    script = (
        "import sys, amberlog\n"
        "store = amberlog.SessionStore(sys.argv[1])\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(v1)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment()) as child:
        assert child.stdout
        assert child.stdout.readline() == b"open\n"

        with pytest.raises(SessionLockedError) as caught:
            amberlog.migrate(v1)

        child.kill()
    assert caught.value.holder_pid == child.pid


def test_an_event_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    source = make(tmp_path / "old.kohakutr", {"alice": dated(turn(1))})
    with closing(sqlite3.connect(source)) as connection, connection:
        broken = independent.HEADER + b"\x81\xa1"
        connection.execute("UPDATE events SET value = ? WHERE key = ?", (broken, b"alice:e000003"))

    with pytest.raises(SessionDamagedError, match="alice:e000003"):
        amberlog.migrate(source)

    assert [found.name for found in tmp_path.iterdir()] == ["old.kohakutr"]


def part_of_a_migration(v1: Path, *, rows: int) -> Path:
    """Returns what the peer leaves under the name when it is killed after so many events."""
    target = kohaku.unpack("v1.kohakutr.v2.gz", v1.parent, "v1.kohakutr.v2")
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("DELETE FROM events WHERE key >= ?", (f"alice:e{rows:06d}".encode(),))
        connection.execute("DELETE FROM state WHERE key != 'counters:max_event_id'")
    return target


@pytest.mark.parametrize("rows", [0, 10])
def test_what_a_killed_migration_of_the_peer_left_is_made_whole(v1: Path, rows: int) -> None:
    part_of_a_migration(v1, rows=rows)

    made = ensure_latest_version(v1)

    peers = kohaku.unpack("v1.kohakutr.v2.gz", v1.parent, "peer.v2")
    assert undated(everything(made)) == undated(everything(peers))


def test_an_empty_file_under_the_name_is_replaced(v1: Path) -> None:
    v1.with_name("v1.kohakutr.v2").touch()

    made = ensure_latest_version(v1)

    assert len(everything(made)["events"]) == 20


def test_a_part_that_somebody_went_on_with_is_left(v1: Path) -> None:
    target = part_of_a_migration(v1, rows=10)
    event = {"type": "user_message", "content": "new", "event_id": 30, "ts": 1.0}
    independent.write(target, "events", {"alice:e000010": independent.encoded(event)})
    before = kohaku.contents(v1.parent)

    with pytest.raises(SessionMigrationError, match="written to since"):
        ensure_latest_version(v1)

    assert kohaku.contents(v1.parent) == before


def test_the_peers_own_migration_is_taken_as_it_is(v1: Path) -> None:
    target = kohaku.unpack("v1.kohakutr.v2.gz", v1.parent, "v1.kohakutr.v2")
    before = kohaku.contents(v1.parent)

    assert ensure_latest_version(v1) == target
    assert amberlog.migrate(v1) == target
    assert kohaku.contents(v1.parent) == before


def test_a_damaged_old_session_does_not_keep_its_new_one_from_being_opened(v1: Path) -> None:
    made = amberlog.migrate(v1)
    v1.write_bytes(b"no database")

    assert ensure_latest_version(v1) == made


def test_a_relative_path_will_do(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(v1.parent)

    made = amberlog.migrate("v1.kohakutr")

    assert made == Path("v1.kohakutr.v2")
    assert len(everything(made)["events"]) == 20


def test_the_new_session_is_as_private_as_the_old_one(v1: Path) -> None:
    v1.chmod(0o440)

    made = amberlog.migrate(v1)

    assert made.stat().st_mode & 0o777 == 0o640


KILLED = """
import os, sys, threading, time, amberlog
threading.Thread(
    target=lambda: (time.sleep(float(sys.argv[2])), os.kill(os.getpid(), 9)), daemon=True
).start()
amberlog.migrate(sys.argv[1])
"""


def test_a_killed_migration_leaves_nothing_half_there_and_is_finished(tmp_path: Path) -> None:
    log = dated([event for number in range(600) for event in turn(number)])
    source = make(tmp_path / "old.kohakutr", {"alice": log})
    (tmp_path / "old.artifacts").mkdir()
    (tmp_path / "old.artifacts" / "a.bin").write_bytes(b"a" * 100_000)
    target = tmp_path / "old.kohakutr.v2"
    before = kohaku.contents(tmp_path)
    leftovers = 0

    for kill in range(12):
        delay = str(0.005 + kill * 0.012)
        subprocess.run(
            [sys.executable, "-c", KILLED, source, delay], env=environment(), check=False
        )
        leftovers += any(tmp_path.glob(".amberlog-*"))
        if target.exists():
            assert len(everything(target)["events"]) == 600 * 8
            target.unlink()

    assert leftovers
    made = amberlog.migrate(source)
    assert len(everything(made)["events"]) == 600 * 8
    assert not list(tmp_path.glob(".amberlog-*"))
    after = kohaku.contents(tmp_path)
    assert {name: found for name, found in after.items() if name in before} == before
    assert after["old.kohakutr.artifacts/a.bin"][1] == b"a" * 100_000


@pytest.mark.peers
def test_a_random_session_becomes_what_the_peer_makes_of_it(tmp_path: Path) -> None:
    sources = [
        random_session(tmp_path / f"{seed}.kohakutr", random.Random(seed))  # repeatable
        for seed in range(40)
    ]
    copies = [tmp_path / f"{source.stem}.copy" for source in sources]
    for source, copy in zip(sources, copies, strict=True):
        copy.write_bytes(source.read_bytes())

    ours = [everything(amberlog.migrate(source)) for source in sources]
    targets = [copy.with_suffix(".peer") for copy in copies]
    pairs = [str(path) for pair in zip(copies, targets, strict=True) for path in pair]
    subprocess.run([sys.executable, PROGRAM, *pairs], env=environment(), check=True)

    for source, made, target in zip(sources, ours, targets, strict=True):
        assert undated(made) == undated(everything(target)), source


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_an_old_session_where_nothing_may_be_written_is_resumed_as_it_is(v1: Path) -> None:
    v1.parent.chmod(0o555)
    try:
        resumed = amberlog.resume(v1)
    finally:
        v1.parent.chmod(0o755)

    assert resumed.store.readonly
    assert resumed.store.path == str(v1)
    assert resumed.agents["alice"].conversation
    resumed.store.close()

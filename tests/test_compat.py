"""Our modules under the names of the peer's, without the peer: a stand-in plays its part."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from amberlog import SessionStore as OurStore
from amberlog import compat, errors
from amberlog.compat.kohakuterrarium.session import migrations
from amberlog.compat.kohakuterrarium.session.artifacts import artifacts_dir_for
from amberlog.compat.kohakuterrarium.session.attach import get_attach_state
from amberlog.compat.kohakuterrarium.session.migrations import v1_to_v2
from amberlog.compat.kohakuterrarium.session.output import SessionOutput
from amberlog.compat.kohakuterrarium.session.readonly import read_session_meta
from amberlog.compat.kohakuterrarium.session.session import Session
from amberlog.compat.kohakuterrarium.session.store import SessionStore
from amberlog.compat.kohakuterrarium.session.version import detect_format_version
from support.children import run_code
from support.kohaku import unpack

PAGE = Path(__file__).parent.parent / "docs" / "compat.md"

ALONE = """
import json, sys
sys.modules["kohakuterrarium"] = None  # as if it were not installed
from amberlog import compat

def found(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        return type(error).__name__

with compat.install("kohakuterrarium") as installed:
    import kohakuterrarium.session
    from kohakuterrarium.session.store import SessionStore, iter_kv_keys
    print(json.dumps({
        "over_peer": installed.is_over_peer,
        "again": compat.install("kohakuterrarium") is installed,
        "store": SessionStore.__module__,
        "same": kohakuterrarium.session.SessionStore is SessionStore,
        "locked": kohakuterrarium.errors.SessionLockedError.__module__,
        "replaced": installed.replaced,
        "unknown": found("kohakuterrarium.core"),
    }))
print(json.dumps([found("kohakuterrarium.session"), [m for m in sys.modules if "kohaku" in m[:6]]]))
"""

PEER = {
    "__init__.py": "",
    "errors.py": """
class KTError(Exception): pass
class ConflictError(KTError): pass
class SessionLockedError(ConflictError, RuntimeError):
    def __init__(self, message, *, holder_pid=None):
        super().__init__(message)
        self.holder_pid = holder_pid
""",
    "early.py": "from kohakuterrarium.session.store import SessionStore, iter_kv_keys as keys",
    "late.py": "from kohakuterrarium.session.store import SessionStore as Store",
    "session/__init__.py": "",
    "session/errors.py": "class ForkNotStableError(Exception): pass",
    "session/history.py": "def replay_conversation(events): pass\ndef _coerce_path(raw): return ()",
    "session/open_registry.py": """
stores = []
def register_open_store(path, store): stores.append(store)
def unregister_open_store(path, store): stores.remove(store)
""",
    "session/store.py": """
FORMAT_VERSION = 2
class SessionStore: pass
def iter_kv_keys(table): pass
def opened(): return SessionStore
""",
}

BESIDE = """
import json, sys
from amberlog import compat
import kohakuterrarium.early, kohakuterrarium.session.store as store
original = store.SessionStore
installed = compat.install("kohakuterrarium")
import kohakuterrarium.late, kohakuterrarium.session.history as history
import kohakuterrarium.session.open_registry as registry
ours = store.SessionStore
path = sys.argv[1]
with ours(path, writer_lock=True) as held:
    known = registry.stores == [held]
    try:
        ours(path, writer_lock=True)
    except kohakuterrarium.errors.ConflictError as error:
        locked = [type(error) is kohakuterrarium.errors.SessionLockedError, error.holder_pid]
report = {
    "over_peer": installed.is_over_peer,
    "replaced": installed.replaced,
    "ours": ours.__module__,
    "everywhere": [kohakuterrarium.early.SessionStore is ours, kohakuterrarium.late.Store is ours,
                   store.opened() is ours, kohakuterrarium.early.keys is store.iter_kv_keys],
    "kept": [history._coerce_path(1), store.FORMAT_VERSION],
    "missing": hasattr(history, "collect_user_groups"),
    "known": known, "forgotten": registry.stores == [],
    "locked": locked,
}
compat.uninstall("kohakuterrarium")
installed.uninstall()
report["back"] = [kohakuterrarium.early.SessionStore is original,
                  kohakuterrarium.late.Store is original, store.opened() is original]
report["gone"] = not hasattr(history, "collect_user_groups")
print(json.dumps(report))
"""


def documented() -> list[str]:
    """The names that the page says are replaced."""
    rows = re.findall(r"^\| `(kohakuterrarium[\w.]*)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return sorted(
        f"{module}.{name}" for module, row in rows for name in re.findall(r"`(\w+)`", row)
    )


def test_a_package_that_is_no_peer_is_refused_by_name() -> None:
    with pytest.raises(errors.UnknownPeerError, match="kohakuterrarium") as caught:
        compat.install("litellm")

    assert (caught.value.peer, caught.value.known) == (
        "litellm",
        ("kohakuterrarium", "praisonaiagents"),
    )
    assert isinstance(caught.value, ValueError)


def test_without_the_peer_its_names_are_ours_and_nothing_else_is_there() -> None:
    inside, after = map(json.loads, run_code(ALONE).splitlines())

    assert inside.pop("replaced") == documented()
    assert inside == {
        "over_peer": False,
        "again": True,
        "store": "amberlog.compat.kohakuterrarium.session.store",
        "same": True,
        "locked": "amberlog.errors",
        "unknown": "ModuleNotFoundError",
    }
    assert after == ["ModuleNotFoundError", []]


def test_beside_the_peer_its_other_modules_use_ours_until_it_is_taken_out(tmp_path: Path) -> None:
    for name, source in PEER.items():
        file = tmp_path / "peer" / "kohakuterrarium" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'peer')!r})\n"

    report = json.loads(run_code(start + BESIDE, tmp_path / "session.kohakutr"))

    there = (
        "errors.",
        "session.SessionStore",
        "session.errors.",
        "session.history.",
        "session.store.",
    )
    mine = tuple(f"kohakuterrarium.{part}" for part in there)
    assert report.pop("replaced") == [name for name in documented() if name.startswith(mine)]
    holder = report["locked"].pop()
    assert isinstance(holder, int)
    assert report == {
        "over_peer": True,
        "ours": "amberlog.compat.kohakuterrarium.session.store",
        "everywhere": [True, True, True, True],
        "kept": [[], 2],
        "missing": True,
        "known": True,
        "forgotten": True,
        "locked": [True],
        "back": [True, True, True],
        "gone": True,
    }


def test_tuples_are_stored_as_lists(path: Path) -> None:
    pair = {"at": (1, (2, 3)), "in": [{"deep": (4,)}]}
    listed = {"at": [1, [2, 3]], "in": [{"deep": [4]}]}
    with SessionStore(path) as store:
        key, _ = store.append_event("alice", "text", pair, parent_branch_path=[(1, 1)])
        store.append_events("alice", [("text", pair)])
        store.save_state("alice", scratchpad=pair)
        store.save_conversation("alice", [{"role": "user", "content": pair}])
        store.save_channel_message("tasks", pair)
        store.save_subagent("alice", "explore", 0, pair)
        store.save_turn_rollup("alice", 1, pair)
        store.save_job("job", pair)
        store.meta["pair"] = (1, 2)
        events = store.get_events("alice")
        read: list[object] = [
            store.load_scratchpad("alice"),
            (store.load_conversation("alice") or [{}])[0]["content"],
            store.get_channel_messages("tasks")[0],
            store.load_subagent_meta("alice", "explore", 0),
            store.get_turn_rollup("alice", 1),
            store.load_job("job"),
        ]

        assert store.meta["pair"] == [1, 2]
        assert key == "alice:e000000"

    for record in [*events, *read]:
        assert isinstance(record, dict)
        assert {"at": record["at"], "in": record["in"]} == listed
    assert events[0]["parent_branch_path"] == [[1, 1]]
    assert len(events) == 2
    assert pair == {"at": (1, (2, 3)), "in": [{"deep": (4,)}]}


def test_what_no_peer_could_read_back_is_still_refused(path: Path) -> None:
    with SessionStore(path) as store:
        with pytest.raises(TypeError, match=re.escape("$.args")):
            store.append_event("alice", "text", {"pair": (1, 2), "args": {3, 4}})

        assert store.get_events("alice") == []


def test_a_caller_keeps_the_dict_that_it_gave(path: Path) -> None:
    given = {"content": "hello", "pair": (1, 2)}
    with SessionStore(path) as store:
        store.append_event("alice", "text", given, turn_index=1)

        assert given == {"content": "hello", "pair": (1, 2)}


def test_a_read_sees_what_was_submitted_before_it(path: Path) -> None:
    with SessionStore(path) as store:
        for number in range(200):
            store.submit(store.append_event, "alice", "text", {"number": number})

        assert [event["number"] for event in store.get_events("alice")] == list(range(200))


def test_work_that_was_submitted_may_read(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "text", {"content": "one"})

        first = store.submit(store.get_events, "alice")
        second = store.submit(lambda: first.result() + store.get_events("alice"))

        assert len(second.result(timeout=60)) == 2


def test_the_peers_own_modules_find_the_attributes_they_use(path: Path) -> None:
    closed: list[str] = []
    store = SessionStore(path)
    store.append_event("alice", "text", {"content": "one"})
    store.append_event("alice", "text", {"content": "two"})

    store._ensure_affinity()  # noqa: SLF001  # the peer's modules use these names
    store._companion_closers.append(lambda: closed.append("companion"))  # noqa: SLF001
    rows = [event["content"] for event in store._iter_events("alice", 1)]  # noqa: SLF001
    before = (store._path, store._closed)  # noqa: SLF001
    store.close()

    assert rows == ["two"]
    assert before == (str(path), False)
    assert store._closed  # noqa: SLF001
    assert closed == ["companion"]
    with pytest.raises(RuntimeError):
        store._ensure_affinity()  # noqa: SLF001


def test_a_fork_has_the_looser_contract_too(path: Path, tmp_path: Path) -> None:
    with SessionStore(path) as parent:
        _, point = parent.append_event("alice", "text", {"content": "one"})
        target = tmp_path / "child.kohakutr.v2"
        mutated = {"content": "one", "pair": (1, 2)}

        with parent.fork(target, at_event_id=point, mutate=lambda _: mutated) as child:
            child.append_event("alice", "text", {"pair": (3, 4)})
            pairs = [event["pair"] for event in child.get_events("alice")]

    assert type(child) is SessionStore
    assert pairs == [[1, 2], [3, 4]]


def test_meta_of_an_open_session_is_read_without_a_trace(path: Path) -> None:
    with OurStore(path) as store:
        store.init_meta("sid", "agent", "config.yaml", "/work", ["alice"])
        before = sorted(file.name for file in path.parent.iterdir())

        meta = read_session_meta(path)

        assert sorted(file.name for file in path.parent.iterdir()) == before
        assert meta["session_id"] == "sid"
        assert detect_format_version(path) == 2


def test_a_file_that_cannot_be_read_is_of_the_first_version_and_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(b"no database" * 100)

    with caplog.at_level(logging.WARNING, "amberlog"):
        assert detect_format_version(path) == 1

    assert str(path) in caplog.text
    with pytest.raises(FileNotFoundError):
        detect_format_version(path.with_name("missing.kohakutr"))


def test_the_directory_of_artifacts_is_there_when_it_is_asked_for(path: Path) -> None:
    directory = artifacts_dir_for(path)

    assert directory == path.parent / "session.artifacts"
    assert directory.is_dir()


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    alone = "import os, sys; os.chdir(sys.argv[1]); sys.modules['kohakuterrarium'] = None\n"

    run_code(alone + example, tmp_path)

    with OurStore.open_readonly(tmp_path / "task.kohakutr") as store:
        assert [event["content"] for event in store.get_events("alice")] == ["hello"]


def test_importing_the_drop_ins_imports_no_peer() -> None:
    code = "import sys, amberlog.compat; print([m for m in sys.modules if m.startswith('kohaku')])"

    assert run_code(code) == "[]\n"


def test_an_old_session_is_migrated_by_the_peers_names(tmp_path: Path) -> None:
    old = unpack("v1.kohakutr.gz", tmp_path, "v1.kohakutr")
    before = old.read_bytes()
    elsewhere = tmp_path / "elsewhere.kohakutr.v2"

    v1_to_v2.migrate(old, elsewhere)
    made = migrations.migrate(old, 2)

    assert made == old.with_name(f"{old.name}.v2")
    assert migrations.ensure_latest_version(old) == made
    assert migrations.migrate(made, 2) == made
    assert [version for version, _ in migrations.discover_versions(old)] == [2, 1]
    assert [detect_format_version(file) for file in (elsewhere, made, old)] == [2, 2, 1]
    assert old.read_bytes() == before
    with pytest.raises(FileExistsError):
        v1_to_v2.migrate(old, elsewhere)


def test_a_migration_that_fails_is_a_runtime_error(path: Path) -> None:
    with OurStore(path) as store:
        store.meta["format_version"] = 1
        store.append_event("alice", "user_message", {"content": "of the second format"})
        store.append_event("alice", "text", {"content": "of the first"})

    with pytest.raises(RuntimeError) as caught:
        migrations.migrate(path, 2)

    assert isinstance(caught.value.__cause__, errors.SessionMigrationError)


def test_a_recorder_follows_an_agent_that_is_renamed(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput("old", store, None)
        asyncio.run(output.write_stream("said before"))

        output._agent_name = "new"  # noqa: SLF001  # the peer's runtime renames it so
        output._event_key_prefix = "new"  # noqa: SLF001
        asyncio.run(output.write_stream("said after"))
        output.flush_sync()

        said = {name: [e["content"] for e in store.get_events(name)] for name in ("old", "new")}
    assert said == {"old": ["said before"], "new": ["said after"]}


def test_a_recorder_may_be_told_to_record_no_reports(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput("alice", store, None, capture_activity=False)
        output.on_activity("tool_wait", "[bash] waits")
        silent = store.get_events("alice")

        output._capture_activity = True  # noqa: SLF001  # the peer's runtime sets it so
        output.on_activity("tool_wait", "[bash] waits")

        assert silent == []
        assert [event["type"] for event in store.get_events("alice")] == ["tool_wait"]
        asyncio.run(output.on_user_input("hello"))
        asyncio.run(output.on_resume([]))
        assert len(store.get_events("alice")) == 1


def test_an_attached_agent_is_recorded_under_the_peers_contract(path: Path) -> None:
    helper = SimpleNamespace(config=SimpleNamespace(name="helper"))
    with SessionStore(path) as store:
        session = Session(store, agent=SimpleNamespace(config=SimpleNamespace(name="alice")))

        session.attach_agent(helper, "critic")
        state = get_attach_state(helper)
        assert state is not None
        output = state["output"]
        assert isinstance(output, SessionOutput)
        asyncio.run(output.on_user_input("hello"))
        asyncio.run(output.write_stream("a remark"))
        session.detach_agent(helper)

        events = store.get_events("alice:attached:critic:0")
        lineage = [event["type"] for event in store.get_events("alice")]
    assert [event["content"] for event in events] == ["a remark"]
    assert lineage == ["agent_attached", "agent_detached"]
    assert get_attach_state(helper) is None


def test_a_fork_of_a_session_has_the_peers_contract_too(path: Path) -> None:
    with SessionStore(path) as store:
        store.append_event("alice", "user_message", {"content": ("a", "b")})

        fork = asyncio.run(Session(store, name="s").fork(1, name="child"))

        with fork.store:
            assert isinstance(fork, Session)
            assert isinstance(fork.store, SessionStore)
            assert fork.store.get_events("alice")[0]["content"] == ["a", "b"]

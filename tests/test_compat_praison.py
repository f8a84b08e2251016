"""Our chat stores under the names of the peer's, without the peer: a stand-in plays its part."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from amberlog.chat import DefaultSessionStore as OurStore
from amberlog.compat import PEERS
from amberlog.compat.praisonai import hierarchy, identity, sqlite_store, store
from support.children import run_code

PAGE = Path(__file__).parent.parent / "docs" / "compat.md"

ALONE = """
import json, sys
sys.modules["praisonaiagents"] = None  # as if it were not installed
from amberlog import compat

def found(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        return type(error).__name__

with compat.install("praisonaiagents") as installed:
    import praisonaiagents.session as session
    from praisonaiagents.session.store import DefaultSessionStore
    print(json.dumps({
        "over_peer": installed.is_over_peer,
        "again": compat.install("praisonaiagents") is installed,
        "module": session.__name__,
        "same": session.DefaultSessionStore is DefaultSessionStore,
        "replaced": installed.replaced,
        "title": found("praisonaiagents.session.title"),
        "session": hasattr(session, "Session"),
        "agent": found("praisonaiagents.agent"),
    }))
left = [name for name in sys.modules if name.startswith("praisonai")]
print(json.dumps([found("praisonaiagents.session"), left]))
"""

PEER = {
    "__init__.py": "",
    "early.py": "from praisonaiagents.session.store import DefaultSessionStore",
    "late.py": "from praisonaiagents.session import DefaultSessionStore as Store",
    "session/__init__.py": "from .store import DefaultSessionStore",
    "session/store.py": "class DefaultSessionStore: pass\n_default_store = None",
    "session/api.py": """
from . import get_default_session_store
class Session:
    def store(self): return get_default_session_store()
""",
    "paths.py": "import sys\ndef get_sessions_dir(): return sys.argv[1]",
}

BESIDE = """
import json, sys
from amberlog import compat
import praisonaiagents.early, praisonaiagents.session.store as theirs
original = theirs.DefaultSessionStore
installed = compat.install("praisonaiagents")
import praisonaiagents.late, praisonaiagents.session.store as ours
import praisonaiagents.session as session
kept = ours.get_default_session_store()
report = {
    "over_peer": installed.is_over_peer,
    "ours": ours.__name__,
    "everywhere": [praisonaiagents.early.DefaultSessionStore is ours.DefaultSessionStore,
                   praisonaiagents.late.Store is ours.DefaultSessionStore],
    "api": [session.Session.__module__, session.Session().store() is kept],
    "directory": kept.session_dir == ours.DEFAULT_SESSION_DIR == sys.argv[1],
}
ours._default_store = injected = ours.DefaultSessionStore(sys.argv[1] + "/other")
report["injected"] = session.Session().store() is injected
compat.uninstall("praisonaiagents")
installed.uninstall()
import praisonaiagents.session.store as again
report["back"] = [again is theirs, praisonaiagents.early.DefaultSessionStore is original,
                  praisonaiagents.late.Store is original,
                  sys.modules["praisonaiagents.session"].DefaultSessionStore is original]
print(json.dumps(report))
"""


def documented() -> list[str]:
    """The names that the page says are replaced."""
    rows = re.findall(r"^\| `(praisonaiagents[\w.]*)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return sorted(
        f"{module}.{name}" for module, row in rows for name in re.findall(r"`(\w+)`", row)
    )


def test_without_the_peer_its_names_are_ours_and_nothing_else_is_there() -> None:
    inside, after = map(json.loads, run_code(ALONE).splitlines())

    assert inside.pop("replaced") == documented()
    assert inside == {
        "over_peer": False,
        "again": True,
        "module": "amberlog.compat.praisonai",
        "same": True,
        "title": "ModuleNotFoundError",
        "session": False,
        "agent": "ModuleNotFoundError",
    }
    assert after == ["ModuleNotFoundError", []]


def test_beside_the_peer_its_other_modules_use_ours_until_it_is_taken_out(tmp_path: Path) -> None:
    for name, source in PEER.items():
        file = tmp_path / "peer" / "praisonaiagents" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'peer')!r})\n"

    report = json.loads(run_code(start + BESIDE, tmp_path / "sessions"))

    assert report == {
        "over_peer": True,
        "ours": "amberlog.compat.praisonai.store",
        "everywhere": [True, True],
        "api": ["praisonaiagents.session.api", True],
        "directory": True,
        "injected": True,
        "back": [True, True, True, True],
    }


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    alone = "import os, sys; os.chdir(sys.argv[1]); sys.modules['praisonaiagents'] = None\n"

    run_code(alone + example, tmp_path)

    history = OurStore(str(tmp_path / "chats")).get_chat_history("user-42")
    assert history == [{"role": "user", "content": "Remember that I like tea."}]


def test_importing_the_drop_ins_imports_no_peer() -> None:
    code = """
import sys, amberlog.compat.praisonai
print([name for name in sys.modules if name.startswith("praisonaiagents")])
"""

    assert run_code(code) == "[]\n"


@pytest.mark.parametrize("name", PEERS["praisonaiagents"])
def test_a_drop_in_module_has_the_names_that_it_says_it_has(name: str) -> None:
    module = importlib.import_module("amberlog.compat.praisonai" + name.removeprefix("session"))

    assert [one for one in module.__all__ if not hasattr(module, one)] == []
    assert importlib.reload(module) is module


def test_a_writer_of_ones_own_is_asked_to_write(tmp_path: Path) -> None:
    class Loud(store.DefaultSessionStore):
        written: list[str]

        def _atomic_write_json(self, filepath: str, data: dict[str, object]) -> bool:  # type: ignore[override]
            self.written.append(filepath)
            return super()._atomic_write_json(filepath, {**data, "loud": True})

    loud = Loud(str(tmp_path), active_window=2)
    loud.written = []

    answers = [loud.add_user_message("s", str(number)) for number in range(4)]
    answers.append(loud.set_agent_info("s", "Agent"))

    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert answers == [True] * 5
    assert loud.written == [str(tmp_path / "s.json")] * 5
    assert stored["loud"] is True
    assert [message["content"] for message in stored["messages"][1:]] == ["2", "3"]
    assert len(stored["archived_messages"]) == 2
    assert [one["content"] for one in loud.get_chat_history("s", 2)] == ["2", "3"]


def test_the_seams_of_the_peer_read_and_change_a_session_under_its_lock(tmp_path: Path) -> None:
    kept = store.DefaultSessionStore(str(tmp_path))
    kept.add_user_message("s", "one")
    session = kept._load_session("s")  # noqa: SLF001  # the peer's code uses these names
    session.messages[0].content = "other"
    answers = [kept._save_session(session)]  # noqa: SLF001

    def note(found: store.SessionData) -> None:
        found.metadata["noted"] = len(found.messages)

    answers.append(kept._modify_session_locked("s", note, error_label="note"))  # noqa: SLF001

    assert answers == [True, True]
    assert kept._get_session_path("s") == str(tmp_path / "s.json")  # noqa: SLF001
    assert kept.get_session("s").metadata == {"noted": 1}
    assert kept._session_title(kept.get_session("s").to_dict()) == "other"  # noqa: SLF001
    with store.FileLock(kept._get_session_path("s"), 0.05):  # noqa: SLF001
        assert not store.FileLock(kept._get_session_path("s"), 0.05).acquire()  # noqa: SLF001


def test_the_seams_leave_a_family_whole(tmp_path: Path) -> None:
    kept = hierarchy.HierarchicalSessionStore(str(tmp_path))
    kept.create_session("s", title="Title")
    kept.add_user_message("s", "one")
    kept.create_snapshot("s", "before")

    kept._modify_session_locked("s", lambda found: found.metadata.update(x=1))  # noqa: SLF001

    after = kept.get_extended_session("s")
    assert (after.title, len(after.snapshots), after.metadata) == ("Title", 1, {"x": 1})
    assert kept.get_extended_session("s") is after
    assert kept._is_cache_valid("s") is True  # noqa: SLF001
    kept.add_user_message("s", "two")
    assert kept._is_cache_valid("s") is False  # noqa: SLF001
    assert len(kept.get_extended_session("s").messages) == 2


def test_the_index_is_asked_as_the_peer_asks_it(tmp_path: Path) -> None:
    kept = sqlite_store.SqliteSessionStore(str(tmp_path))
    kept.add_user_message("s", "zebra")
    kept.set_gateway_info("s", "gw", "agent")
    kept._ensure_backfilled()  # noqa: SLF001  # the peer's code uses these names
    index = kept._connect()  # noqa: SLF001

    assert index is not None
    route = index.execute("SELECT * FROM session_route WHERE session_id = ?", ("s",))
    assert route.fetchall() == [("s", "gw", "agent")]
    assert index.execute("SELECT COUNT(*) FROM session_meta").fetchone() == (1,)
    index.execute("DELETE FROM session_route")
    found = kept.get_by_gateway_session("gw")
    assert found is not None
    assert found.session_id == "s"


def test_identities_are_linked_anew_and_noted_before_they_are_stored(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    file.write_text("no links", encoding="utf-8")
    resolver = identity.FileIdentityResolver(file)

    assert resolver.resolve("telegram", "1") == "telegram:1"
    for who in ("alice", "bob"):
        resolver.link("telegram", "1", who)
    with resolver._lock:  # noqa: SLF001  # subclasses use these names
        resolver._links[("discord", "2")] = "bob"  # noqa: SLF001
        before = identity.FileIdentityResolver(file).resolve("discord", "2")
        resolver._flush()  # noqa: SLF001

    again = identity.FileIdentityResolver(file)
    assert before == "discord:2"
    assert again._links[("discord", "2")] == "bob"  # noqa: SLF001
    assert [link.platform for link in again.links_for("bob")] == ["telegram", "discord"]
    (aside,) = tmp_path.glob("identity.json.corrupt-*")
    assert aside.read_text(encoding="utf-8") == "no links"


def test_the_default_store_is_what_stands_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PRAISONAI_SESSION_RETENTION", "nonsense")
    monkeypatch.setenv("PRAISONAI_SESSION_ACTIVE_WINDOW", "7")
    monkeypatch.setattr(store, "_default_store", None)
    monkeypatch.setattr(store, "DEFAULT_SESSION_DIR", str(tmp_path / "a"), raising=False)

    first = store.get_default_session_store()
    monkeypatch.setitem(vars(store), "DEFAULT_SESSION_DIR", str(tmp_path / "b"))
    second = store.get_default_session_store()

    assert (first.retention, first.active_window, first.strict) == ("compact", 7, False)
    assert [Path(one.session_dir).name for one in (first, second)] == ["a", "b"]
    assert "nonsense" in caplog.text
    injected = store.DefaultSessionStore(str(tmp_path / "c"))
    monkeypatch.setattr(store, "_default_store", injected)
    assert store.get_default_session_store() is injected

"""Damaged files, full disks and read-only directories: nothing is lost, nothing is hidden."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog.chat import DefaultSessionStore
from amberlog.errors import SessionDamagedError
from support.children import run_code

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITED = """
import json, os, resource, sys
from amberlog.chat import DefaultSessionStore
from amberlog.errors import SessionError
store = DefaultSessionStore(sys.argv[1], retention="keep_all")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
kept, errors = [], []
for number in range(60):
    try:
        store.add_user_message("s", f"{number} " + "x" * 5000)
        kept.append(number)
    except SessionError as error:
        errors.append([type(error).__name__, error.path, error.errno])
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.add_user_message("s", "99 again")
kept.append(99)
print(json.dumps({"kept": kept, "errors": errors}))
"""

AS_NOBODY = """
import json, os, sys
from amberlog.chat import DefaultSessionStore
from amberlog.errors import SessionError
os.setgid(65534)
os.setuid(65534)
store = DefaultSessionStore(sys.argv[1])
answer = {
    "rows": len(store.list_sessions()),
    "hits": len(store.search("zebra")),
    "history": store.get_working_history("s"),
}
try:
    store.add_user_message("s", "x")
except SessionError as error:
    answer["write"] = type(error).__name__
print(json.dumps(answer))
"""


@pytest.mark.parametrize(
    ("damage", "at"),
    [
        (b"", "offset 0"),
        (b'{"session_id": "s", "messages": []} and more', "offset 36"),
        (b'{"session_id": "s", "messa', "offset 26"),
        (b"[]", "offset 0"),
        (b'{"messages": 5}', "offset 0"),
        (b"\xff\xfe", "offset 0"),
    ],
)
def test_a_damaged_session_raises_and_its_bytes_stay(
    damage: bytes, at: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(damage)
    store = DefaultSessionStore(str(tmp_path))

    for call in (
        lambda: store.get_chat_history("s"),
        lambda: store.get_session("s"),
        lambda: store.add_user_message("s", "x"),
        lambda: store.clear_session("s"),
    ):
        with pytest.raises(SessionDamagedError) as caught:
            call()
        assert (caught.value.path, caught.value.at) == (str(file), at)

    assert file.read_bytes() == damage


def test_metadata_that_is_no_object_is_not_written_over(tmp_path: Path) -> None:
    stored = '{"session_id": "s", "messages": [], "model": "m", "metadata": "a note of somebody"}'
    (tmp_path / "s.json").write_text(stored, encoding="utf-8")
    store = DefaultSessionStore(str(tmp_path))

    calls: tuple[Callable[[], object], ...] = (
        lambda: store.update_session_metadata("s", model="m"),
        lambda: store.rename_session("s", "T"),
        lambda: store.merge_session_metadata_map("s", "map", {"x": 1}),
    )
    for call in calls:
        with pytest.raises(ValueError, match="metadata"):
            call()

    assert (tmp_path / "s.json").read_text(encoding="utf-8") == stored
    store.add_user_message("s", "x")
    after = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert after["metadata"] == "a note of somebody"


def test_one_bad_file_among_a_hundred_hides_none_of_them(tmp_path: Path) -> None:
    store = DefaultSessionStore(str(tmp_path))
    for number in range(100):
        store.add_user_message(f"s{number}", f"zebra {number}")
    (tmp_path / "noise.json").write_bytes(os.urandom(500))
    (tmp_path / "cut.json").write_bytes((tmp_path / "s1.json").read_bytes()[:100])
    (tmp_path / "other.json").write_bytes(b"SQLite format 3\0" + bytes(500))

    unreadable = store.unreadable_sessions()

    assert len(store.list_sessions(None)) == 100
    assert len(store.search("zebra", limit=1000)) == 100
    names = [Path(path).name for path, reason in unreadable if reason]
    assert sorted(names) == ["cut.json", "noise.json", "other.json"]


def test_a_file_that_may_not_grow_loses_nothing_and_says_what_failed(tmp_path: Path) -> None:
    answer = json.loads(run_code(LIMITED, tmp_path))

    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    numbers = [int(message["content"].split()[0]) for message in stored["messages"]]
    assert numbers == answer["kept"]
    assert answer["errors"]
    assert set(map(tuple, answer["errors"])) == {
        ("SessionWriteError", str(tmp_path / "s.json"), 27)
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.json", "s.json.lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_sessions_in_a_directory_one_may_not_write_can_be_read(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    DefaultSessionStore(str(directory)).add_user_message("s", "zebra")
    (directory / "s.json.lock").unlink()
    (directory / "s.json").chmod(0o644)
    for place in (tmp_path, *tmp_path.parents):
        # What pytest made for itself alone; what is above belongs to all.
        if place.stat().st_mode & 0o777 == 0o700:
            place.chmod(0o755)
    directory.chmod(0o555)

    answer = json.loads(run_code(AS_NOBODY, directory))

    assert answer == {
        "rows": 1,
        "hits": 1,
        "history": [{"role": "user", "content": "zebra"}],
        "write": "SessionReadOnlyError",
    }
    assert [file.name for file in directory.iterdir()] == ["s.json"]

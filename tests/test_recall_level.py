"""The search over a directory is level with the disk, whatever happens to sessions and index."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from amberlog import Recall, SessionStore
from amberlog.recall import RECALL_NAME
from support.children import environment, run_code
from support.kohaku import BY_NAME
from support.places import place_for_all
from support.recalled import files_beside, sessions_of, tell
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

needs_an_unprivileged_user = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs to become another user"
)
COUNT = 24


@pytest.fixture
def recall(tmp_path: Path) -> Iterator[Recall]:
    """Yields the search over a directory of its own."""
    with Recall(tmp_path) as opened:
        yield opened


def many(directory: Path, count: int = COUNT) -> list[str]:
    """Makes sessions that each say a word of their own, and returns their names."""
    names = [f"s{at:02d}" for at in range(count)]
    for name in names:
        tell(directory / f"{name}.kohakutr", f"common words and {name}word")
    return names


def every_word_leads_to_its_session(recall: Recall, names: list[str]) -> bool:
    return all(sessions_of(recall, f"{name}word") == [name] for name in names)


def test_a_session_that_did_not_change_is_not_read_again(recall: Recall, tmp_path: Path) -> None:
    many(tmp_path, 3)
    first = recall.refresh()

    # What was written within a tick of the clock is read once more.
    assert comes_true(lambda: recall.refresh().read == 0)
    last = recall.refresh()

    assert (first.read, first.total) == (3, 3)
    assert (last.read, last.unchanged, last.total) == (0, 3, 3)


def test_a_session_that_grew_brings_only_what_is_new(recall: Recall, tmp_path: Path) -> None:
    path = tell(tmp_path / "s.kohakutr", *[f"old {at}" for at in range(50)])
    recall.refresh()
    before = recall.stats().blocks

    with SessionStore(path) as store:
        store.append_event("alice", "user_input", {"content": "fresh raspberry"})
    found = sessions_of(recall, "raspberry")

    assert found == ["s"]
    assert recall.stats().blocks == before + 1


def test_renamed_and_deleted_sessions_leave(recall: Recall, tmp_path: Path) -> None:
    for name in ("stays", "moves", "goes"):
        tell(tmp_path / f"{name}.kohakutr", "a single marmot")
    recall.refresh()

    (tmp_path / "moves.kohakutr").rename(tmp_path / "moved.kohakutr")
    (tmp_path / "goes.kohakutr").unlink()

    assert sorted(sessions_of(recall, "marmot")) == ["moved", "stays"]
    assert recall.stats().sessions == 2


def test_a_branch_that_is_left_leaves_the_index(recall: Recall, tmp_path: Path) -> None:
    path = tmp_path / "s.kohakutr"
    with SessionStore(path) as store:
        store.append_event("bob", "user_input", {"content": "elder"}, turn_index=1, branch_id=1)
    assert sessions_of(recall, "elder") == ["s"]

    with SessionStore(path) as store:
        store.append_event("bob", "user_input", {"content": "birch"}, turn_index=1, branch_id=2)

    assert (sessions_of(recall, "elder"), sessions_of(recall, "birch")) == ([], ["s"])
    assert recall.stats().blocks == 1


def test_a_live_session_of_another_process_is_level(recall: Recall, tmp_path: Path) -> None:
    path = tell(tmp_path / "s.kohakutr", "before")
    recall.refresh()
    script = (
        "import sys\nfrom amberlog import SessionStore\nstore = SessionStore(sys.argv[1])\n"
        "for at in range(10):\n"
        "    store.append_event('alice', 'user_input', {'content': f'live pelican {at}'})\n"
        "print('ready', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        beside = files_beside(tmp_path)

        hits = recall.search("pelican", k=100)
        left = files_beside(tmp_path) - beside
        writer.kill()

    assert len(hits) == 10
    assert left == set()


def test_the_log_of_a_killed_writer_is_read_and_nothing_is_left_beside_it(
    recall: Recall, tmp_path: Path
) -> None:
    BY_NAME["hot wal"].unpack(tmp_path)
    before = files_beside(tmp_path)

    report = recall.refresh()

    assert report.unreadable == ()
    assert recall.stats().blocks > 0
    assert files_beside(tmp_path) == before


def test_what_cannot_be_read_is_reported_and_stops_nothing(recall: Recall, tmp_path: Path) -> None:
    names = many(tmp_path, 5)
    (tmp_path / "random.kohakutr").write_bytes(os.urandom(5000))
    whole = (tmp_path / "s00.kohakutr").read_bytes()
    (tmp_path / "cut.kohakutr").write_bytes(whole[:100])
    (tmp_path / "directory.kohakutr").mkdir()
    (tmp_path / "dangling.kohakutr").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.kohakutr")

    report = recall.refresh()

    reported = {unreadable.path: unreadable.reason for unreadable in report.unreadable}
    assert set(reported) == {
        f"{name}.kohakutr" for name in ("random", "cut", "directory", "dangling", "pipe")
    }
    assert all(reported.values())
    assert every_word_leads_to_its_session(recall, names)


def test_of_a_session_damaged_in_places_the_rest_is_found(recall: Recall, tmp_path: Path) -> None:
    path = tell(tmp_path / "s.kohakutr", "first ferret", "second stoat", "third otter")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"second stoat", b"second STOAT"))

    report = recall.refresh()

    assert [unreadable.path for unreadable in report.unreadable] == ["s.kohakutr"]
    assert "events[alice:e000001]" in report.unreadable[0].reason
    assert (sessions_of(recall, "ferret"), sessions_of(recall, "otter")) == (["s"], ["s"])


@pytest.mark.parametrize("after", [0, 1, 7, COUNT])
def test_a_pass_that_is_killed_is_completed_by_the_next(tmp_path: Path, after: int) -> None:
    names = many(tmp_path)
    script = (
        "import os, signal, sys\nfrom amberlog import Recall\n"
        "def stop(done, total):\n"
        "    if done >= int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "Recall(sys.argv[1]).refresh(progress=stop)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(after)], env=environment(), check=False
    )

    with Recall(tmp_path) as recall:
        is_whole = every_word_leads_to_its_session(recall, names)
        blocks = recall.stats().blocks

    assert killed.returncode == -signal.SIGKILL
    assert is_whole
    assert blocks == COUNT


def test_a_pass_that_is_broken_off_keeps_what_it_has_read(recall: Recall, tmp_path: Path) -> None:
    names = many(tmp_path)

    def stop(done: int, _: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recall.refresh(progress=stop)
    kept = recall.stats().sessions

    assert kept >= 5
    assert every_word_leads_to_its_session(recall, names)


def garbled(path: Path) -> None:
    path.write_bytes(os.urandom(max(1, path.stat().st_size)))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [garbled, emptied, os.unlink])
@pytest.mark.parametrize("suffix", ["meta.json", "sessions-*", ".idx", ".term", ".fast", ".pos"])
def test_a_damaged_index_is_made_anew(
    tmp_path: Path, suffix: str, spoil: Callable[[Path], None]
) -> None:
    names = many(tmp_path, 6)
    with Recall(tmp_path) as recall:
        recall.refresh()
    home = tmp_path / RECALL_NAME / "index"
    spoilt = [*home.glob(suffix if "*" in suffix else f"*{suffix}")]
    for path in spoilt:
        spoil(path)

    with Recall(tmp_path) as recall:
        is_whole = every_word_leads_to_its_session(recall, names)

    assert is_whole


def test_an_index_of_another_version_is_begun_anew(tmp_path: Path) -> None:
    names = many(tmp_path, 3)
    with Recall(tmp_path) as recall:
        recall.refresh()
    meta = tmp_path / RECALL_NAME / "index" / "meta.json"
    text = meta.read_text()
    meta.write_text(text.replace("amberlog recall 1", "amberlog recall 9"))

    with Recall(tmp_path) as recall:
        is_whole = every_word_leads_to_its_session(recall, names)

    assert meta.read_text() != text.replace("recall 1", "recall 9")
    assert is_whole


def test_an_index_that_is_deleted_under_an_open_search_is_made_again(
    recall: Recall, tmp_path: Path
) -> None:
    names = many(tmp_path, 3)
    recall.refresh()

    shutil.rmtree(tmp_path / RECALL_NAME)

    assert every_word_leads_to_its_session(recall, names)


def test_where_nothing_may_be_written_the_index_is_kept_in_memory_as_root(tmp_path: Path) -> None:
    names = many(tmp_path, 3)
    (tmp_path / RECALL_NAME).write_bytes(b"in the way")

    with Recall(tmp_path) as recall:
        is_whole = every_word_leads_to_its_session(recall, names)
        stats = recall.stats()

    assert is_whole
    assert stats.in_memory


@needs_an_unprivileged_user
@pytest.mark.parametrize("has_index", [False, True])
def test_a_directory_that_cannot_be_written_is_searched_from_memory(*, has_index: bool) -> None:
    script = (
        "import os, sys\nfrom amberlog import Recall\nos.setuid(65534)\n"
        "recall = Recall(sys.argv[1])\n"
        "print([hit.session for hit in recall.search('s01word')], recall.stats().in_memory)\n"
        "print([hit.session for hit in recall.search('s02word')])\n"
    )
    with place_for_all() as place:
        directory = place / "sessions"
        directory.mkdir()
        many(directory, 3)
        if has_index:
            with Recall(directory) as recall:
                recall.refresh()
            tell(directory / "s01.kohakutr", "one word more")
        before = {str(path) for path in directory.rglob("*")}
        directory.chmod(0o555)

        said = run_code(script, directory)
        after = {str(path) for path in directory.rglob("*")}

    assert said == "['s01'] True\n['s02']\n"
    assert after == before


def test_several_processes_and_threads_level_the_same_index(tmp_path: Path) -> None:
    names = many(tmp_path)
    script = (
        "import sys\nfrom amberlog import Recall\n"
        "print(len(Recall(sys.argv[1]).search('common', k=100)))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    children = [
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found: list[int] = []
    with Recall(tmp_path) as recall:
        threads = [
            threading.Thread(target=lambda: found.append(len(recall.search("common", k=100))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = [child.communicate()[0] for child in children]
        is_whole = every_word_leads_to_its_session(recall, names)

    assert found == [COUNT] * 4
    assert said == [f"{COUNT}\n"] * 3
    assert is_whole


def test_a_directory_that_is_missing_has_nothing_and_stays_missing(tmp_path: Path) -> None:
    with Recall(tmp_path / "nowhere") as recall:
        hits = recall.search("x")
        report = recall.refresh()

    assert (hits, report.total) == ([], 0)
    assert not (tmp_path / "nowhere").exists()

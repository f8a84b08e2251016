"""One query over all sessions of a directory finds what a plain scan of their files finds."""

from __future__ import annotations

import asyncio
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amberlog import NoEmbedderError, Recall, SessionClosedError, SessionStore
from amberlog.aio import AsyncRecall
from support.kohaku import BY_NAME
from support.recalled import PLAIN_WORD, found_keys, holding, sessions_of, spoken, tell
from support.sessions import fixture_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 10_000


@pytest.fixture
def recall(tmp_path: Path) -> Iterator[Recall]:
    """Yields the search over a directory of its own."""
    with Recall(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def peers_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory of the peer's sessions, none of which has branches."""
    directory = fixture_directory(tmp_path_factory.mktemp("peers"), with_sidecar=True)
    for name in ("terrarium", "unicode", "single_agent"):
        BY_NAME[name].unpack(directory)
    return directory


def test_every_word_is_found_wherever_a_plain_scan_finds_it(peers_directory: Path) -> None:
    with Recall(peers_directory) as recall:
        report = recall.refresh()
        unread = {unreadable.path for unreadable in report.unreadable}
        files = {
            hit.path for word in ("a", "the", "to", "and") for hit in recall.search(word, k=MANY)
        }
        texts = {
            (path, key): text
            for path in sorted(files)
            for key, text in spoken(peers_directory / path).items()
        }
        words = {word for text in texts.values() for word in PLAIN_WORD.findall(text.lower())}

        missing = {
            word: lost
            for word in sorted(words)
            if (lost := holding(texts, word) - found_keys(recall.search(word, k=MANY)))
        }

    assert len(words) > 20
    assert missing == {}
    assert unread == {"broken.kohakutr"}


def test_what_is_found_holds_the_word(peers_directory: Path) -> None:
    with Recall(peers_directory) as recall:
        hits = {word: recall.search(word, k=MANY) for word in ("deploy", "parser", "pipeline")}

    assert all(hits.values())
    assert all(word in hit.content.lower() for word, found in hits.items() for hit in found)


def test_words_of_any_script_are_found(recall: Recall, tmp_path: Path) -> None:
    texts = [
        "明天下午三点开项目评审会议",
        "重跑gen-itgc后清零",
        "ship it 🚀 now",
        "naïve café",
        "all migrations of POL-358 in snake_case and CamelCase at src/main.py",
    ]
    for at, text in enumerate(texts):
        tell(tmp_path / f"s{at}.kohakutr", text)

    found = {
        query: sessions_of(recall, query)
        for query in ("评审", "项目评审", "itgc", "🚀", "cafe", "migrate", "POL-358", "camelcase")
    }

    assert found == {
        "评审": ["s0"],
        "项目评审": ["s0"],
        "itgc": ["s1"],
        "🚀": ["s2"],
        "cafe": ["s3"],
        "migrate": ["s4"],
        "POL-358": ["s4"],
        "camelcase": ["s4"],
    }


def test_a_phrase_is_one(recall: Recall, tmp_path: Path) -> None:
    tell(tmp_path / "order.kohakutr", "the red apple fell")
    tell(tmp_path / "other.kohakutr", "the apple is red")

    assert sessions_of(recall, '"red apple"') == ["order"]
    assert set(sessions_of(recall, "red apple")) == {"order", "other"}


def test_a_hit_says_where_it_stands(recall: Recall, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        store.append_event("bob", "user_input", {"content": "hello", "ts": 5.0}, turn_index=1)
        store.append_event(
            "bob",
            "tool_result",
            {"name": "grep", "output": "a zebra crossing was found", "ts": 7.0},
            turn_index=1,
        )

    (hit,) = recall.search("zebra")

    assert (hit.session, hit.path, hit.agent, hit.block_type) == ("s", "s.kohakutr", "bob", "tool")
    assert (hit.round_num, hit.block_num, hit.turn, hit.ts, hit.event_id) == (1, 1, 1, 7.0, 2)
    assert (hit.event_key, hit.tool_name) == ("bob:e000001", "grep")
    assert "zebra" in hit.content
    assert "«zebra»" in hit.snippet
    assert recall.read_block("s", hit.block_id).content == hit.content


def test_only_the_branch_that_is_shown_is_found(recall: Recall, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        for branch, fruit in ((1, "apricots"), (2, "bananas")):
            store.append_event(
                "bob", "user_input", {"content": fruit}, turn_index=1, branch_id=branch
            )

    assert sessions_of(recall, "apricots") == []
    assert sessions_of(recall, "bananas") == ["s"]


def test_a_filter_leaves_only_what_it_names(recall: Recall, tmp_path: Path) -> None:
    for name, agent in (("a", "alice"), ("b", "bob")):
        with SessionStore(tmp_path / f"{name}.kohakutr") as store:
            for turn in (1, 2):
                fields = {"content": f"lantern {turn}", "ts": 100.0 * turn}
                store.append_event(agent, "user_input", fields, turn_index=turn)
            store.append_event(
                agent, "tool_result", {"name": "look", "output": "x" * 20 + " lantern", "ts": 300.0}
            )

    def found(**which: object) -> list[tuple[str, float]]:
        hits = recall.search("lantern", **which)  # type: ignore[arg-type]  # any of the filters
        return sorted((hit.session, hit.ts) for hit in hits)

    assert len(found()) == 6
    assert found(session="a") == [("a", 100.0), ("a", 200.0), ("a", 300.0)]
    assert found(agent="bob", kinds=["user"]) == [("b", 100.0), ("b", 200.0)]
    assert found(tool="look") == [("a", 300.0), ("b", 300.0)]
    assert found(since=150.0, until=250.0) == [("a", 200.0), ("b", 200.0)]
    assert found(until=datetime.fromtimestamp(100, timezone.utc)) == [("a", 100.0), ("b", 100.0)]
    assert found(turns=(2, 2)) == [("a", 200.0), ("b", 200.0)]
    assert found(session="nobody's") == []


def test_a_filter_does_not_use_up_the_hits(recall: Recall, tmp_path: Path) -> None:
    for at in range(30):
        tell(tmp_path / f"loud{at}.kohakutr", "whale whale whale")
    tell(tmp_path / "quiet.kohakutr", "a whale among very many other words", agent="bob")

    hits = recall.search("whale", k=1, agent="bob")

    assert [hit.session for hit in hits] == ["quiet"]


def test_what_a_fork_shares_with_its_parent_is_found_once(recall: Recall, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "parent.kohakutr") as parent:
        parent.init_meta("parent", "agent", "/c", "/w", ["alice"])
        point = parent.append_event("alice", "user_input", {"content": "shared walnut"})[1]
        fork = parent.fork(tmp_path / "fork.kohakutr", at_event_id=point, name="fork")
        fork.close()
        parent.append_event("alice", "user_input", {"content": "only the parent: chestnut"})

    assert sessions_of(recall, "walnut") == ["fork"]
    assert sessions_of(recall, "chestnut") == ["parent"]
    (tmp_path / "fork.kohakutr").unlink()
    assert sessions_of(recall, "walnut") == ["parent"]


def test_a_copy_of_a_session_is_found_once(recall: Recall, tmp_path: Path) -> None:
    path = tell(tmp_path / "a.kohakutr", "a copied quince")
    shutil.copy(path, tmp_path / "b.kohakutr")

    assert len(sessions_of(recall, "quince")) == 1


def test_a_session_that_runs_by_itself_comes_after_others(recall: Recall, tmp_path: Path) -> None:
    tell(tmp_path / "nightly.kohakutr", "backup backup", source="cron")
    tell(tmp_path / "hourly.kohakutr", "backup backup", automated=True)
    tell(tmp_path / "person.kohakutr", "what about the backup of the old machine in the cellar")

    assert sessions_of(recall, "backup")[0] == "person"


def test_equal_hits_come_with_the_newest_first(recall: Recall, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "s.kohakutr") as store:
        for ts in (3.0, 1.0, 2.0):
            store.append_event("bob", "user_input", {"content": "equal", "ts": ts})
            store.append_event("bob", "user_input", {"content": f"{ts}"})

    hits = [[hit.ts for hit in recall.search("equal", k=k)] for k in (3, 2, 1)]

    assert hits == [[3.0, 2.0, 1.0], [3.0, 2.0], [3.0]]


def test_sessions_are_ranked_by_their_best_blocks(recall: Recall, tmp_path: Path) -> None:
    tell(tmp_path / "twice.kohakutr", "the harbour at dawn", "again the harbour at dusk")
    tell(tmp_path / "once.kohakutr", "the harbour at noon")

    hits = recall.search("harbour", by_session=True)

    assert [hit.session for hit in hits] == ["twice", "once"]
    assert hits[0].score > hits[1].score


@pytest.mark.parametrize(
    "query", ["park.", "don't use", '"', 'a"b', "foo::bar", "C++", "AND", "NEAR(", "*", "", " \t"]
)
def test_a_hostile_query_finds_what_holds_its_words(
    recall: Recall, tmp_path: Path, query: str
) -> None:
    tell(tmp_path / "s.kohakutr", f"before {query} after")

    found = sessions_of(recall, query)

    assert found == (["s"] if any(letter.isalpha() for letter in query) else [])


@settings(max_examples=300, deadline=None)
@given(query=st.text(max_size=60))
def test_no_query_is_an_error(peers_directory: Path, query: str) -> None:
    with Recall(peers_directory) as recall:
        hits = recall.search(query, k=3)

    assert len(hits) <= 3


def test_what_is_no_argument_is_refused(recall: Recall) -> None:
    with pytest.raises(ValueError, match="mode"):
        recall.search("x", "fuzzy")
    for mode in ("semantic", "hybrid"):
        with pytest.raises(NoEmbedderError, match="keyword"):
            recall.search("x", mode)
    with pytest.raises(ValueError, match="k:"):
        recall.search("x", k=-1)
    with pytest.raises(ValueError, match="kinds"):
        recall.search("x", kinds=["other"])
    with pytest.raises(ValueError, match="since"):
        recall.search("x", since=datetime(2026, 1, 1))  # noqa: DTZ001  # what is refused
    with pytest.raises(ValueError, match="workers"):
        recall.refresh(workers=0)


@pytest.mark.parametrize(
    "name", ["../victim", "..", ".", "/etc/passwd", "victim\0", "..\\victim", "%2e%2e%2fvictim"]
)
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "sessions"
    inside.mkdir()
    tell(tmp_path / "victim.kohakutr", "secret")

    with Recall(inside) as recall, pytest.raises((ValueError, FileNotFoundError)):
        recall.read_block(name, "alice:e0:p0")


def test_a_block_that_is_not_there_is_a_key_error(recall: Recall, tmp_path: Path) -> None:
    tell(tmp_path / "s.kohakutr", "one")

    for block_id in (
        "alice:e1:p0",
        "alice:e0:p1",
        "bob:e0:p0",
        "alice:m0:p0",
        "",
        "x",
        ":p",
        "e0:p0",
    ):
        with pytest.raises(KeyError):
            recall.read_block("s", block_id)


def test_a_closed_search_says_so(recall: Recall) -> None:
    recall.close()
    recall.close()

    with pytest.raises(SessionClosedError):
        recall.search("x")


def test_the_verbs_can_be_awaited(tmp_path: Path) -> None:
    tell(tmp_path / "s.kohakutr", "an awaited heron")

    async def ask() -> tuple[int, list[str], int]:
        async with AsyncRecall(Recall(tmp_path)) as recall:
            report = await recall.refresh()
            hits = await recall.search("heron")
            stats = await recall.stats()
            return report.read, [hit.session for hit in hits], stats.blocks

    assert asyncio.run(ask()) == (1, ["s"], 1)

"""What an index lists, finds and counts, judged by what the peer says of the same directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from amberlog import SessionIndex, SessionStore
from amberlog.errors import SessionDamagedError, SessionNotFoundError
from amberlog.index import SORTS, read_row, reconcile
from support.kohaku import expected
from support.sessions import (
    SIDECAR,
    files_below,
    fixture_directory,
    fixture_rows,
    many,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from amberlog import SessionPage

AGES = "average_age_seconds"


@pytest.fixture(params=["from the peer's sidecar", "from none"])
def listed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields an index that is level with the peer's directory."""
    with_sidecar = request.param == "from the peer's sidecar"
    directory = fixture_directory(tmp_path, with_sidecar=with_sidecar)
    with SessionIndex.open(directory) as index:
        reconcile(index, directory)
        yield index


@pytest.fixture
def three(tmp_path: Path) -> Iterator[SessionIndex]:
    """Yields an index of three sessions."""
    record(tmp_path / "one.kohakutr", "fix the login page", title="Login")
    record(tmp_path / "two.kohakutr", "明天下午三点开项目评审会议")
    record(tmp_path / "three.kohakutr", "重跑gen-itgc后清零 in C++ 🚀 naïve café")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        yield index


def names(page: SessionPage) -> list[object]:
    return [row["filename"] for row in page.rows]


def test_a_directory_of_the_peer_is_listed_as_the_peer_lists_it(listed: SessionIndex) -> None:
    wanted = fixture_rows()

    page = listed.list(limit=100)

    found = {str(row["filename"]): row for row in page.rows}
    shared = {name: {key: found[name][key] for key in row} for name, row in wanted.items()}
    assert shared == wanted
    assert [one.path for one in page.unreadable] == ["broken.kohakutr"]


@pytest.mark.parametrize(
    ("named", "arguments"),
    [
        ("list_default", {}),
        ("list_created_asc", {"sort": "created_at", "order": "asc"}),
        ("list_name", {"sort": "name", "order": "asc"}),
        ("status_completed", {"status": "completed"}),
        ("terrarium", {"config_type": "terrarium"}),
        ("node", {"node_id": "worker-1"}),
    ],
)
def test_a_listing_has_the_order_and_the_total_of_the_peers(
    listed: SessionIndex, named: str, arguments: dict[str, str]
) -> None:
    wanted = expected("sessions_dir", named)

    page = listed.list(
        status=arguments.get("status"),
        config_type=arguments.get("config_type"),
        node_id=arguments.get("node_id"),
        sort=arguments.get("sort", "last_active"),
        order=arguments.get("order", "desc"),
        limit=100,
    )

    assert {"total": page.total, "names": names(page)} == wanted


def test_what_the_peer_finds_is_found(listed: SessionIndex) -> None:
    searches = cast("dict[str, dict[str, object]]", expected("sessions_dir", "search"))

    found = {query: set(names(listed.list(search=query, limit=100))) for query in searches}

    for query, wanted in searches.items():
        assert set(cast("list[object]", wanted["names"])) <= found[query], query
    assert found["token login"] == {"sess_00.kohakutr"}
    assert found["nomatch"] == set()


def test_statistics_are_those_of_the_peer(listed: SessionIndex) -> None:
    wanted = cast("dict[str, object]", expected("sessions_dir", "stats"))

    stats = listed.stats()

    assert {key: stats[key] for key in wanted if key != AGES} == {
        key: value for key, value in wanted.items() if key != AGES
    }
    # The fixture has grown older since the peer looked at it.
    assert cast("float", stats[AGES]) > cast("float", wanted[AGES]) > 0


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("search", ["", "words"])
def test_pages_by_cursor_and_by_offset_make_the_whole_listing(
    tmp_path: Path, sort: str, order: str, search: str
) -> None:
    files = many(tmp_path, 11)
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        whole = names(index.list(search=search, sort=sort, order=order, limit=100))

        by_cursor: list[object] = []
        page = index.list(search=search, sort=sort, order=order, limit=3)
        by_cursor += names(page)
        while page.next_cursor:
            page = index.list(
                search=search, sort=sort, order=order, limit=3, cursor=page.next_cursor
            )
            by_cursor += names(page)
        by_offset = [
            name
            for offset in range(0, 12, 3)
            for name in names(
                index.list(search=search, sort=sort, order=order, limit=3, offset=offset)
            )
        ]

    assert sorted(map(str, whole)) == files
    assert by_cursor == by_offset == whole
    assert page.total == 11


def test_a_cursor_goes_on_where_its_page_ended_though_rows_came_before_it(tmp_path: Path) -> None:
    many(tmp_path, 4)
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        first = index.list(sort="name", order="asc", limit=2)
        record(tmp_path / "a.kohakutr", "new")
        reconcile(index, tmp_path)

        second = index.list(sort="name", order="asc", limit=2, cursor=first.next_cursor)

    assert names(second) == ["s002.kohakutr", "s003.kohakutr"]


@pytest.mark.parametrize(
    ("query", "file"),
    [
        ("page login", "one"),
        ("log", "one"),
        ('"login page"', "one"),
        ("评审", "two"),
        ("项目评审", "two"),
        ("itgc", "three"),
        ("C++", "three"),
        ("🚀", "three"),
        ("cafe", "three"),
        ("naïve", "three"),
        ("one.", "one"),
    ],
)
def test_words_are_found_in_any_order_and_script(
    three: SessionIndex, query: str, file: str
) -> None:
    page = three.list(search=query)

    assert names(page) == [f"{file}.kohakutr"]


@pytest.mark.parametrize(
    "query", ['"', 'a"b', "AND", "NEAR(", "*", "foo::bar", "x' OR '1'='1", "\0"]
)
def test_no_query_is_an_error(three: SessionIndex, query: str) -> None:
    page = three.list(search=query)

    assert page.total == 0


def test_a_blank_search_lists_all_and_finds_nothing(three: SessionIndex) -> None:
    listed, found = three.list(search=" \t"), three.search(" \t")

    assert (listed.total, found.total, found.rows) == (3, 0, ())


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("limit", 0),
        ("limit", -1),
        ("limit", 2**63),
        ("limit", "abc"),
        ("offset", -1),
        ("offset", 2**63),
        ("offset", 1.5),
        ("sort", "password"),
        ("order", "up"),
        ("cursor", "no cursor"),
    ],
)
def test_a_wrong_argument_is_named(three: SessionIndex, argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=argument):
        three.list(**{argument: value})  # type: ignore[arg-type]  # that is the point


def test_a_filter_is_text_and_nothing_else(three: SessionIndex) -> None:
    page = three.list(status="x' OR '1'='1")

    assert (page.total, page.rows) == (0, ())


def test_forks_know_their_parent_and_it_knows_them(tmp_path: Path) -> None:
    record(tmp_path / "parent.kohakutr", "a", "b")
    with SessionStore(tmp_path / "parent.kohakutr") as parent:
        parent.fork(tmp_path / "child.kohakutr.v2", at_event_id=3, name="what if").close()
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)

        children = index.children("parent.kohakutr")
        found = index.parent("child.kohakutr.v2")

    assert [(row["filename"], row["title"]) for row in children] == [
        ("child.kohakutr.v2", "what if")
    ]
    assert found is not None
    assert found["filename"] == "parent.kohakutr"


def test_an_entry_can_be_written_and_removed_by_hand(three: SessionIndex) -> None:
    three.upsert({"filename": "x.kohakutr", "title": "By hand", "status": "paused"})

    row, found = three.get("x.kohakutr"), three.list(search="hand")
    removed = three.delete("x.kohakutr"), three.delete("x.kohakutr")

    assert row is not None
    assert (row["name"], row["title"], found.total) == ("x", "By hand", 1)
    assert removed == (True, False)
    assert three.get("x.kohakutr") is None
    assert three.count() == 3


def test_counts_follow_what_changes(tmp_path: Path) -> None:
    files = many(tmp_path, 3)
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        for name, status in zip(files, ("completed", "crashed"), strict=False):
            with SessionStore(tmp_path / name) as store:
                store.update_status(status)
                store.close(update_status=False)
        (tmp_path / files[2]).unlink()

        reconcile(index, tmp_path, full=True)

        assert index.stats()["by_status"] == {"completed": 1, "crashed": 1}
        assert (index.count(), index.list(status="paused").total) == (2, 0)
        assert index.list(status="crashed").total == 1


def test_disk_usage_counts_sessions_logs_and_artifacts(three: SessionIndex, tmp_path: Path) -> None:
    artifacts = tmp_path / "one.artifacts" / "deep"
    artifacts.mkdir(parents=True)
    (artifacts / "a.bin").write_bytes(b"x" * 1000)
    sizes = sum(path.stat().st_size for path in tmp_path.glob("*.kohakutr"))

    usage = three.disk_usage()

    assert (usage["count"], usage["session_bytes"], usage["artifacts_bytes"]) == (3, sizes, 1000)
    assert usage["total_bytes"] == sizes + 1000


def test_a_sidecar_takes_no_session_for_its_file(tmp_path: Path) -> None:
    session = record(tmp_path / "one.kohakutr", "hello")
    before = session.read_bytes()

    with pytest.raises(ValueError, match="is a session"):
        SessionIndex(session)

    assert session.read_bytes() == before


def test_the_row_says_more_than_the_peers(tmp_path: Path) -> None:
    with SessionStore(tmp_path / "one.kohakutr") as store:
        store.init_meta("sid", "agent", "", "", ["alice"])
        store.append_event("alice", "user_message", {"content": "hi", "ts": 4e9})
        store.save_state("alice", token_usage={"total_input_tokens": 5, "total_output_tokens": 2})
        store.write_artifact("a.txt", b"12345")
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)

        row = index.get("one.kohakutr")

    assert row is not None
    assert row["path"] == "one.kohakutr"
    assert (row["session_id"], row["event_count"]) == ("sid", 1)
    assert (row["total_tokens"], row["artifact_size"]) == (7, 5)
    assert row["last_active"] == "2096-10-02T07:06:40+00:00"
    assert (tmp_path / SIDECAR).is_file()


def test_the_row_of_a_file_can_be_had_without_an_index(tmp_path: Path) -> None:
    path = record(tmp_path / "a.kohakutr", "first", "second")
    before = files_below(tmp_path)

    row = read_row(path)
    left = files_below(tmp_path)
    with SessionIndex.open(tmp_path) as index:
        reconcile(index, tmp_path)
        listed = index.get(path.name)

    assert listed is not None
    # Only the walk over a directory measures what lies beside a session.
    assert {**row, "artifact_size": listed["artifact_size"]} == listed
    assert left == before


def test_the_row_of_what_is_no_session_is_an_error_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.kohakutr"
    path.write_bytes(b"no session")

    with pytest.raises(SessionDamagedError) as damaged:
        read_row(path)
    with pytest.raises(SessionNotFoundError):
        read_row(tmp_path / "missing.kohakutr")

    assert damaged.value.path == str(path)

"""The rules of a log through their Python functions, against what the peer makes of its files."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amberlog import SessionStore, lineage
from amberlog.errors import InvalidBranchViewError, SessionError
from support.kohaku import BY_NAME, SESSIONS, plain

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parent.parent / "docs" / "lineage.md"

Log = list[dict[str, object]]

LOGS = [
    (fixture.name, agent)
    for fixture in SESSIONS
    if "per_agent" in fixture.names()
    for agent in fixture.names("per_agent")
]
READINGS: dict[str, Callable[[Log], object]] = {
    "selected_branches": lineage.resolve_selected_branches,
    "live_event_ids": lambda events: sorted(lineage.select_live_event_ids(events)),
    "branch_metadata": lineage.collect_branch_metadata,
    "user_groups": lineage.collect_user_groups,
    "replay_plain": lineage.replay_conversation,
    "replay_with_metadata": lambda events: lineage.replay_conversation(
        events, include_metadata=True
    ),
    "replay_resumable": lambda events: lineage.replay_with_settled_tools(
        events, include_metadata=True, resumable=True
    ),
    "resumable_events": lambda events: lineage.normalize_resumable_events(
        lineage.dedupe_adjacent_duplicate_events(events)
    ),
}
VIEWS = BY_NAME["branches"].names("branch_views")


def ask(event_id: int, turn: int, branch: int, **fields: object) -> dict[str, object]:
    fields.setdefault("content", f"question {turn}.{branch}")
    stamps = {"event_id": event_id, "turn_index": turn, "branch_id": branch}
    return {"type": "user_message", **stamps, **fields}


def rerun_and_edit() -> Log:
    return [
        ask(1, 1, 1, content="first"),
        ask(2, 2, 1),
        ask(3, 1, 2, content="first"),
        ask(4, 1, 3, content=[{"type": "text", "text": "edited"}]),
    ]


@pytest.fixture(scope="module", params=LOGS, ids=lambda case: "-".join(case).replace(" ", "_"))
def read(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Log]:
    name, agent = request.param
    path = BY_NAME[name].unpack(tmp_path_factory.mktemp("fixture"))
    with SessionStore.open_readonly(path) as store:
        return name, agent, store.get_events(agent)


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Log:
    path = BY_NAME["branches"].unpack(tmp_path_factory.mktemp("fixture"))
    with SessionStore.open_readonly(path) as store:
        return store.get_events("alice")


@pytest.mark.parametrize("reading", READINGS)
def test_a_session_of_the_peers_reads_as_the_peer_reads_it(
    read: tuple[str, str, Log], reading: str
) -> None:
    name, agent, events = read
    before = copy.deepcopy(events)

    found = READINGS[reading](events)

    assert plain(found) == BY_NAME[name].expected("per_agent", agent, reading)
    assert events == before


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_what_the_peer_shows(branched: Log, view: str) -> None:
    wanted = BY_NAME["branches"].expected("branch_views", view)
    assert isinstance(wanted, dict)
    compacted = view.startswith("after_compaction ")
    events = branched if compacted else branched[:-2]
    given = json.loads(view.removeprefix("after_compaction "))
    branch_view = given and {int(turn): branch for turn, branch in given.items()}

    replay = lineage.replay_conversation(
        events, branch_view=branch_view, include_metadata=compacted
    )
    live = lineage.select_live_event_ids(events, branch_view=branch_view)

    assert plain(replay) == wanted["replay"]
    assert sorted(live) == wanted.get("live_event_ids", sorted(live))


@pytest.mark.parametrize("view", [view for view in VIEWS if not view.startswith("after")])
def test_a_strict_view_is_met_or_refused_as_by_the_peer(branched: Log, view: str) -> None:
    wanted = BY_NAME["branches"].expected("branch_views", view, "strict")

    try:
        found: object = lineage.resolve_branch_view_strict(branched[:-2], json.loads(view))
    except InvalidBranchViewError as error:
        found = f"{type(error).__name__}: {error}"

    assert plain(found) == wanted


@pytest.mark.parametrize(
    "view", [[], {1: True}, {1: 1.0}, {"01": 1}, {"one": 1}, {1: None}, {0: 1}, {1: -1}, {2**70: 1}]
)
def test_a_view_that_is_none_is_refused(view: object) -> None:
    with pytest.raises(InvalidBranchViewError) as caught:
        lineage.resolve_branch_view_strict(rerun_and_edit(), view)  # type: ignore[arg-type]

    assert isinstance(caught.value, SessionError)
    assert isinstance(caught.value, ValueError)


def test_results_have_the_types_of_the_peers() -> None:
    events = rerun_and_edit()

    groups = lineage.collect_user_groups(events)
    branches = lineage.collect_branch_metadata(events, branch_view={1: 1})
    paths = lineage.index_parent_paths(events)

    edited = "[{'type': 'text', 'text': 'edited'}]"
    assert groups[1] == {
        "groups": [
            {"content": "first", "branches": [1, 2]},
            {"content": edited, "branches": [3]},
        ],
        "selected_group_idx": 1,
    }
    assert branches[2] == {
        "branches": [1],
        "latest_branch": 1,
        "events_by_branch": {1: [2]},
    }
    assert paths == {1: (), 2: ((1, 1),), 3: (), 4: ()}
    assert lineage.select_live_event_ids(events, branch_view={1: 1}) == {1, 2}
    assert lineage.resolve_selected_branches(events, paths, {1: 1}) == {1: 1, 2: 1}


def test_a_path_of_tuples_is_a_path() -> None:
    events = [ask(1, 1, 1), ask(2, 1, 2), ask(3, 2, 1, parent_branch_path=((1, 1),))]
    stored = [*events[:2], ask(3, 2, 1, parent_branch_path=[[1, 1]])]

    shown = lineage.select_live_event_ids(iter(events), branch_view={1: 1})

    assert shown == {1, 3}
    assert lineage.index_parent_paths(events)[3] == ((1, 1),)
    assert lineage.index_parent_paths(events) == lineage.index_parent_paths(stored)


def test_each_of_two_compactions_stands_for_what_it_replaced() -> None:
    def compaction(event_id: int, turn: int) -> dict[str, object]:
        reach = {"replaced_from_event_id": turn, "replaced_to_event_id": turn}
        row = {"type": "compact_complete", "summary": f"summary {turn}", "event_id": event_id}
        return {**row, **reach, "compact_path": [[turn, 1]]}

    events = [ask(1, 1, 1), ask(2, 2, 1), ask(3, 3, 1), compaction(4, 1), compaction(5, 2)]

    told = lineage.replay_conversation(events)

    assert [row["content"] for row in told] == ["summary 1", "summary 2", "question 3.1"]


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(compile(example, str(PAGE), "exec"), {})  # noqa: S102  # our own page

    assert (tmp_path / "branches.kohakutr").exists()


def test_jobs_that_still_run_are_left_open() -> None:
    call = {"type": "tool_call", "name": "bash", "call_id": "c1", "args": {}, "event_id": 2}
    events = [ask(1, 1, 1), call]

    closed = lineage.normalize_resumable_events(events)
    left = lineage.normalize_resumable_events(events, live_job_ids={"c1"})
    replays = [
        lineage.replay_with_settled_tools(events, resumable=resumable, live_job_ids=jobs)
        for resumable, jobs in ((True, None), (True, ["c1"]), (False, None))
    ]

    results = [event for event in closed if event["type"] == "tool_result"]
    assert [(row["call_id"], row["_synthetic_resume"]) for row in results] == [("c1", True)]
    assert not any(event["type"] == "tool_result" for event in left)
    roles = [[message["role"] for message in replay] for replay in replays]
    assert roles == [["user", "assistant", "tool"], ["user", "assistant"], ["user", "assistant"]]


@pytest.mark.parametrize(
    ("events", "error", "place"),
    [
        ([{}, 7], TypeError, "$[1]: "),
        ([{"type": "x", "args": {"of": [1, object()]}}], TypeError, "$[0].args.of[1]: "),
        ([{"type": "x", 5: 1}], TypeError, "$[0]: "),
        ([{"type": "x", "count": 2**64}], ValueError, "$[0].count: "),
        ([{"content": "\ud800"}], ValueError, "$[0].content: "),
    ],
)
def test_what_cannot_be_an_event_is_refused_with_its_place(
    events: Log, error: type[Exception], place: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(place)}"):
        lineage.replay_conversation(events)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(VALUES, min_size=1, max_size=6))
def test_what_a_store_returns_goes_through_unchanged(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[object]
) -> None:
    path = tmp_path_factory.mktemp("any") / "session.kohakutr"
    with SessionStore(path) as store:
        for number, payload in enumerate(payloads):
            fields = {"payload": payload, "number": number, "content": payload}
            turn, branch = number // 2 + 1, number % 2 + 1
            store.append_event("alice", "note", fields, turn_index=turn, branch_id=branch)
        events = store.get_events("alice")

    through = lineage.normalize_resumable_events(events)
    distinct = lineage.dedupe_adjacent_duplicate_events(events)

    # The printed form tells 1 from 1.0 and True, and the order of keys.
    assert repr(through) == repr(events)
    assert repr(distinct) == repr(events)
    assert len(lineage.collect_branch_metadata(events)) == (len(payloads) + 1) // 2
    assert set(lineage.index_parent_paths(events)) == {event["event_id"] for event in events}

"""Summaries, announcements and choices of a log, told apart by small logs written out here."""

from __future__ import annotations

import pytest

from amberlog import lineage
from amberlog.errors import InvalidBranchViewError

Log = list[dict[str, object]]


def ask(event_id: int, turn: int, branch: int, **fields: object) -> dict[str, object]:
    stamps = {"event_id": event_id, "turn_index": turn, "branch_id": branch}
    return {"type": "user_message", "content": "words", **stamps, **fields}


def call(event_id: int, job: str, **fields: object) -> dict[str, object]:
    return {"type": "tool_call", "name": "bash", "call_id": job, "event_id": event_id, **fields}


def result(event_id: int, job: str, **fields: object) -> dict[str, object]:
    row = {"type": "tool_result", "name": "bash", "call_id": job, "output": "done"}
    return {**row, "event_id": event_id, **fields}


def compaction(event_id: int, first: int, last: int, **fields: object) -> dict[str, object]:
    reach = {"replaced_from_event_id": first, "replaced_to_event_id": last}
    return {"type": "compact_complete", "summary": "told", "event_id": event_id, **reach, **fields}


def test_a_summary_says_what_it_stands_for_and_was_made_from() -> None:
    whole = compaction(
        4, 1, 2, compact_path=[[1, 1], [2, 1]], compact_source_path=[[1, 1]], round=3
    )
    events = [ask(1, 1, 1), ask(2, 2, 1), ask(3, 3, 1), {**whole, "compact_result_event_ids": [3]}]

    (rule,) = lineage.compact_replacement_rules(events)

    assert rule == lineage.CompactRule(
        replaced_from=1,
        replaced_to=2,
        path=frozenset({(1, 1), (2, 1)}),
        summary="[Previous context summary (compact round 3)]\n\ntold",
        source_path=frozenset({(1, 1)}),
        source_recorded=True,
        result_event_ids=frozenset({3}),
    )
    assert lineage.compact_covered_event_ids(events) == {1, 2, 3}


def test_a_summary_made_from_a_branch_that_is_not_shown_covers_nothing() -> None:
    events = [ask(1, 1, 1), ask(2, 1, 2), compaction(3, 1, 1, compact_path=[[1, 1]])]

    shown = lineage.compact_covered_event_ids(events, {1: 1})
    hidden = lineage.compact_covered_event_ids(events, {1: 2})

    assert (shown, hidden) == ({1}, set())
    assert lineage.compact_replacement_rules(events, {1: 2}) == []


def test_a_result_that_was_recorded_twice_is_covered_twice() -> None:
    events = [
        ask(1, 1, 1),
        call(2, "a"),
        result(3, "a"),
        result(4, "a"),
        result(5, "a", output="other"),
        compaction(6, 1, 3),
    ]

    assert lineage.compact_covered_event_ids(events) == {1, 2, 3, 4}


def test_calls_are_announced_and_left_open() -> None:
    events = [ask(1, 1, 1), call(2, "a", args={"x": 1}), result(3, "a"), call(4, "b")]

    told = lineage.normalize_tool_call_events(events)

    assert [event for event in told if "_synthetic_announce" not in event] == events
    announced = [event["tool_calls"] for event in told if "_synthetic_announce" in event]
    assert [[one["id"] for one in calls] for calls in announced] == [["a"], ["b"]]  # type: ignore[attr-defined]
    assert told[2]["type"] == "assistant_tool_calls"
    assert told[-1]["tool_calls"] == [
        {"id": "b", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    ]


def test_calls_that_a_summary_tells_of_are_neither_announced_nor_finished() -> None:
    events = [call(1, "a"), call(2, "b")]

    announced = lineage.normalize_tool_call_events(events, covered_event_ids={1})
    finished = lineage.normalize_resumable_events(events, covered_event_ids={1, 2})

    calls = [event.get("tool_calls") for event in announced if "_synthetic_announce" in event]
    assert len(calls) == 1
    assert "'b'" in str(calls)
    assert "'a'" not in str(calls)
    assert finished == events


def test_a_result_beside_its_covered_call_gets_its_announcement() -> None:
    moved = {"type": "tool_result", "name": "bash", "call_id": "a", "output": "late"}
    events = [ask(1, 1, 1), call(2, "a"), {**moved, "_settled_from_call": True}]

    told = lineage.normalize_tool_call_events(events, covered_event_ids={2})

    kinds = [event["type"] for event in told]
    assert kinds == ["user_message", "tool_call", "assistant_tool_calls", "tool_result"]


def test_a_moved_result_names_the_event_it_came_from() -> None:
    moved = {"type": "tool_result", "name": "bash", "call_id": "a", "output": "late"}
    events = [ask(1, 1, 1), {**moved, "_source_event_id": 9}]

    told = lineage.replay_conversation(events, include_metadata=True)

    assert told[-1]["metadata"] == {
        "job_id": "a",
        "result_event_id": 9,
        "tool_result_phase": "final",
    }


def test_choices_show_every_branch_with_what_it_belongs_to() -> None:
    events = [ask(1, 1, 1), ask(2, 2, 1), ask(3, 1, 2), ask(4, 2, 2, parent_branch_path=[[1, 2]])]
    events.append({**ask(5, 2, 1), "type": "user_input"})

    found = lineage.project_branch_metadata(events, {1: 1})

    assert found == {
        1: {
            "branches": [
                {"branch_id": 1, "parent_branch_paths": [[]], "selected": True},
                {"branch_id": 2, "parent_branch_paths": [[]], "selected": False},
            ],
            "latest": 2,
            "selected": 1,
        },
        2: {
            "branches": [
                {"branch_id": 1, "parent_branch_paths": [[[1, 1]], [[1, 2]]], "selected": True},
                {"branch_id": 2, "parent_branch_paths": [[[1, 2]]], "selected": False},
            ],
            "latest": 2,
            "selected": 1,
        },
    }


def test_choices_of_a_view_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(InvalidBranchViewError):
        lineage.project_branch_metadata([ask(1, 1, 1)], {1: 2})

"""Random logs, and what they tell, against a slow and plain model."""

from __future__ import annotations

from collections import Counter
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from amberlog import lineage
from support import lineage_model as model
from support.branching import Event, turns, views, written

LOGS = st.builds(lambda session, stated: written(session, stated=stated), turns(), st.booleans())

Messages = list[dict[str, object]]


def called(messages: Messages) -> list[str]:
    calls = [cast("Messages", message.get("tool_calls") or []) for message in messages]
    return [cast("str", call["id"]) for some in calls for call in some]


def answered(messages: Messages) -> list[str]:
    return [
        cast("str", message["tool_call_id"]) for message in messages if message["role"] == "tool"
    ]


@settings(max_examples=120, deadline=None)
@given(events=LOGS, view=views())
def test_a_log_tells_what_the_model_tells(events: list[Event], view: dict[int, int]) -> None:
    told = lineage.replay_conversation(events, branch_view=view)

    assert lineage.resolve_selected_branches(events, branch_view=view) == model.selected(
        events, view
    )
    assert lineage.select_live_event_ids(events, branch_view=view) == model.live_ids(events, view)
    assert told == model.replay(events, view)


@settings(max_examples=60, deadline=None)
@given(events=LOGS, view=views())
def test_what_stands_and_what_it_covers_is_what_the_model_says(
    events: list[Event], view: dict[int, int]
) -> None:
    stand = model.standing(events, view)

    rules = lineage.compact_replacement_rules(events, view)
    covered = lineage.compact_covered_event_ids(events, view)

    assert {rule.summary for rule in rules} == {summary.text for summary in stand}
    by_rule = {model.id_of(event) for event in events if model.best(stand, event)}
    assert by_rule <= covered
    assert len(covered - by_rule) <= sum(event["type"] == "tool_result" for event in events)


@settings(max_examples=60, deadline=None)
@given(events=LOGS, view=views())
def test_metadata_changes_no_message(events: list[Event], view: dict[int, int]) -> None:
    plain = lineage.replay_conversation(events, branch_view=view)

    told = lineage.replay_conversation(events, branch_view=view, include_metadata=True)

    assert [{k: v for k, v in row.items() if k != "metadata"} for row in told] == plain
    asked = [cast("Event", row["metadata"]) for row in told if row["role"] == "user"]
    by_id = {event["event_id"]: event for event in events}
    assert all(by_id[row["event_id"]]["type"] == "user_message" for row in asked)
    assert all(model.place(by_id[row["event_id"]]) == model.place(row) for row in asked)


@settings(max_examples=120, deadline=None)
@given(events=LOGS, view=views())
def test_every_call_of_a_resumed_conversation_is_answered_once_and_after_it(
    events: list[Event], view: dict[int, int]
) -> None:
    told = lineage.replay_with_settled_tools(events, branch_view=view, resumable=True)

    calls = called(told)
    answers = Counter(answered(told))
    assert len(set(calls)) == len(calls)
    assert {job: answers[job] for job in calls} == dict.fromkeys(calls, 1)
    for at, message in enumerate(told):
        assert set(called([message])) <= set(answered(told[at + 1 :]))


@settings(max_examples=60, deadline=None)
@given(events=LOGS)
def test_making_a_log_resumable_again_changes_nothing(events: list[Event]) -> None:
    once = lineage.normalize_resumable_events(events)

    assert lineage.normalize_resumable_events(once) == once
    assert lineage.normalize_tool_call_events(once) == once
    stored = [event for event in once if "event_id" in event]
    assert stored == events

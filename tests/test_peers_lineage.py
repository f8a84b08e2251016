"""Random logs, and what the real peer's functions and ours make of them."""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amberlog import lineage
from support.branching import Event, turns, views, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = pytest.mark.peers

View = dict[int, int]

# The peer uses one summary at most, so that with more of them it tells otherwise.
LOGS = st.builds(
    lambda session, stated, compact_in: written(session, stated=stated, compact_in=compact_in),
    turns(compactions=False),
    st.booleans(),
    st.none() | st.integers(1, 7),
)

QUESTIONS: dict[str, Callable[[ModuleType, list[Event], View], object]] = {
    "selected": lambda history, events, view: history.resolve_selected_branches(
        events, history.index_parent_paths(events), view
    ),
    "live": lambda history, events, view: history.select_live_event_ids(events, branch_view=view),
    "paths": lambda history, events, _: history.index_parent_paths(events),
    "metadata": lambda history, events, view: history.collect_branch_metadata(
        events, branch_view=view
    ),
    "groups": lambda history, events, view: history.collect_user_groups(events, branch_view=view),
    "covered": lambda history, events, view: history.compact_covered_event_ids(events, view),
    "replay": lambda history, events, view: history.replay_conversation(events, branch_view=view),
    "replay with metadata": lambda history, events, view: history.replay_conversation(
        events, branch_view=view, include_metadata=True
    ),
    "distinct": lambda history, events, _: history.dedupe_adjacent_duplicate_events(events),
    "announced": lambda history, events, view: history.normalize_tool_call_events(
        events, covered_event_ids=history.compact_covered_event_ids(events, view)
    ),
    "resumable": lambda history, events, view: history.normalize_resumable_events(
        events, covered_event_ids=history.compact_covered_event_ids(events, view)
    ),
    "resumable beside a live job": lambda history, events, _: history.normalize_resumable_events(
        events, live_job_ids={"bash_0003", "bash_0004", "bash_0005"}
    ),
}

STRICT: dict[str, Callable[[ModuleType, list[Event], View], object]] = {
    "strict": lambda history, events, view: history.resolve_branch_view_strict(events, view),
    "choices": lambda history, events, view: history.project_branch_metadata(events, view),
}


@pytest.fixture(scope="module")
def history() -> ModuleType:
    return importlib.import_module("kohakuterrarium.session.history")


@pytest.mark.parametrize("question", QUESTIONS)
@settings(max_examples=150, deadline=None)
@given(events=LOGS, view=views())
def test_the_peer_gives_the_same_answer(
    history: ModuleType, question: str, events: list[Event], view: View
) -> None:
    ask = QUESTIONS[question]

    assert ask(lineage, events, view) == ask(history, copy.deepcopy(events), view)


@pytest.mark.parametrize("question", STRICT)
@settings(max_examples=150, deadline=None)
@given(events=LOGS, view=views())
def test_the_peer_refuses_the_same_views_and_answers_the_others_as_ours(
    history: ModuleType, question: str, events: list[Event], view: View
) -> None:
    def answer(side: ModuleType) -> object:
        try:
            return STRICT[question](side, events, view)
        except ValueError:
            return "refused"

    assert answer(lineage) == answer(history)

"""Any history is come back to: with a snapshot as without, and always to a valid chat."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amberlog
from amberlog import SessionStore, lineage
from support.agentlike import AGENT, Agentlike, Step, unpaired

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "turn", "turn", "rerun", "edit", "compact"]),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
)
BREAKS = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3))
ANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Messages = list[dict[str, object]]


def record(
    path: Path, steps: list[Step], broken: tuple[int, int] | None, *, saves: bool, states: bool
) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        agent = Agentlike(store, saves=saves, states=states)
        agent.take(steps)
        if broken is not None:
            agent.break_off(*broken)


def messages_of(path: Path, view: dict[int, int] | None = None) -> Messages:
    resumed = amberlog.resume(path, view=view, readonly=True)
    with resumed.store:
        return resumed.agents[AGENT].conversation


@ANY
@given(steps=STEPS, broken=BREAKS, states=st.booleans())
def test_a_snapshot_changes_nothing_but_the_cost(
    steps: list[Step], broken: tuple[int, int] | None, *, states: bool
) -> None:
    with tempfile.TemporaryDirectory() as made:
        kept, bare = Path(made) / "kept.kohakutr", Path(made) / "bare.kohakutr"
        record(kept, steps, broken, saves=True, states=states)
        record(bare, steps, broken, saves=False, states=states)

        assert messages_of(kept) == messages_of(bare)


@ANY
@given(steps=STEPS, broken=BREAKS, saves=st.booleans(), states=st.booleans())
def test_calls_and_results_match_on_every_view(
    steps: list[Step], broken: tuple[int, int] | None, *, saves: bool, states: bool
) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "s.kohakutr"
        record(path, steps, broken, saves=saves, states=states)
        with SessionStore.open_readonly(path) as store:
            choices = lineage.collect_branch_metadata(store.get_events(AGENT))
        views = [{turn: branch} for turn, found in choices.items() for branch in found["branches"]]

        told = [messages_of(path, view) for view in [None, *views]]

        assert [unpaired(messages) for messages in told] == [[]] * len(told)


@ANY
@given(steps=STEPS, broken=BREAKS, saves=st.booleans())
def test_coming_back_again_changes_nothing(
    steps: list[Step], broken: tuple[int, int] | None, *, saves: bool
) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "s.kohakutr"
        record(path, steps, broken, saves=saves, states=True)
        found: list[tuple[Messages, int]] = []
        for _ in range(3):
            resumed = amberlog.resume(path)
            with resumed.store as store:
                found.append((resumed.agents[AGENT].conversation, len(store.events)))

        assert found[1:] == found[:1] * 2


@ANY
@given(steps=STEPS, states=st.booleans())
def test_an_older_branch_is_told_alike_with_snapshots_and_without(
    steps: list[Step], *, states: bool
) -> None:
    with tempfile.TemporaryDirectory() as made:
        kept, bare = Path(made) / "kept.kohakutr", Path(made) / "bare.kohakutr"
        record(kept, [("turn", 0, 1), *steps], None, saves=True, states=states)
        record(bare, [("turn", 0, 1), *steps], None, saves=False, states=states)

        assert messages_of(kept, {1: 1}) == messages_of(bare, {1: 1})

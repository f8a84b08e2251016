"""Every session file of the peer's, read as the peer reads it, for reading and for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amberlog import SessionStore
from support.kohaku import BY_NAME, SESSIONS, Fixture, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

Opened = tuple[Fixture, SessionStore]

MODES = {"read-only": SessionStore.open_readonly, "writable": SessionStore}
CASES = [(fixture.name, mode) for fixture in SESSIONS for mode in MODES]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(case).replace(" ", "_"))
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Yields a fixture with the store that has it open; the tests only read."""
    name, mode = request.param
    path = BY_NAME[name].unpack(tmp_path_factory.mktemp("fixture"))
    with MODES[mode](path) as store:
        yield BY_NAME[name], store


def test_every_row_of_every_table_has_the_peers_value(opened: Opened) -> None:
    fixture, store = opened
    tables = {
        "meta": store.meta,
        "state": store.state,
        "channels": store.channels,
        "subagents": store.subagents,
        "jobs": store.jobs,
        "conversation": store.conversation,
        "turn_rollup": store.turn_rollup,
    }

    read = {
        name: {key.decode(): value for key, value in table.records()}
        for name, table in tables.items()
    }

    assert plain(read) == fixture.expected("tables")


def test_meta_session_id_and_agents_are_the_peers(opened: Opened) -> None:
    fixture, store = opened

    meta = store.load_meta()

    assert plain(meta) == fixture.expected("meta")
    assert store.session_id == fixture.expected("session_id")
    assert store.discover_agents_from_events() == fixture.expected("agents_discovered")
    assert store.discover_attached_agents() == fixture.expected("attached")


def test_the_events_of_a_namespace_have_the_peers_keys_values_and_order(opened: Opened) -> None:
    fixture, store = opened
    namespaces = fixture.names("events")

    for namespace in namespaces:
        rows = fixture.expected("events", namespace)
        assert isinstance(rows, dict)
        by_key = {key: store.events[key] for key in rows}
        in_order = store.get_events(namespace)

        assert plain(by_key) == rows
        assert plain(in_order) == list(rows.values())
    assert set(store.namespaces()) == set(namespaces)
    assert len(store.events) == sum(len(fixture.names("events", name)) for name in namespaces)


def test_all_events_are_in_the_peers_order(opened: Opened) -> None:
    fixture, store = opened

    keys = [key for key, _ in store.get_all_events()]

    assert keys == fixture.expected("all_event_keys_by_ts")


def test_the_highest_id_is_the_peers(opened: Opened) -> None:
    fixture, store = opened

    assert store.max_event_id() == fixture.expected("max_event_id")


def test_an_event_is_found_by_its_id(opened: Opened) -> None:
    fixture, store = opened

    for namespace in fixture.names("events"):
        rows = fixture.expected("events", namespace)
        assert isinstance(rows, dict)
        for row in rows.values():
            assert plain(store.get_event_by_id(namespace, row["event_id"])) == row


def test_events_after_an_id_are_those_with_higher_ids(opened: Opened) -> None:
    fixture, store = opened

    for namespace in fixture.names("events"):
        events = store.get_events(namespace)
        middle = events[len(events) // 2]["event_id"]
        assert isinstance(middle, int)

        later = store.get_events(namespace, since_event_id=middle)

        assert later == [
            event
            for event in events
            if isinstance(event["event_id"], int) and event["event_id"] > middle
        ]


def test_the_state_of_an_agent_is_the_peers(opened: Opened) -> None:
    fixture, store = opened

    for agent in fixture.names("per_agent"):
        read = {
            "conversation_snapshot": store.load_conversation(agent),
            "scratchpad": store.load_scratchpad(agent),
            "triggers": store.load_triggers(agent),
            "rollups": store.list_turn_rollups(agent),
            "resumable_events": store.get_resumable_events(agent),
            "token_usage": store.token_usage(
                agent, include_subagents=True, include_attached=True, by_turn=True
            ),
        }

        for name, value in read.items():
            assert plain(value) == fixture.expected("per_agent", agent, name), (agent, name)


def test_a_turn_rollup_is_read_by_its_turn(opened: Opened) -> None:
    fixture, store = opened

    for agent in fixture.names("per_agent"):
        rollups = fixture.expected("per_agent", agent, "rollups")
        assert isinstance(rollups, list)
        for rollup in rollups:
            assert store.get_turn_rollup(agent, rollup["turn_index"]) == rollup


def test_the_counters_of_all_loops_are_the_peers(opened: Opened) -> None:
    fixture, store = opened

    assert plain(store.token_usage_all_loops()) == fixture.expected("token_usage_all_loops")


def test_the_messages_of_a_channel_are_the_peers(opened: Opened) -> None:
    fixture, store = opened

    for channel in fixture.names("channels"):
        assert store.get_channel_messages(channel) == fixture.expected("channels", channel)


def test_the_runs_of_sub_agents_are_the_peers(opened: Opened) -> None:
    fixture, store = opened
    runs = fixture.expected("subagent_runs")
    assert isinstance(runs, list)

    assert plain(store.list_subagent_runs()) == runs
    for run in runs:
        place = (run["parent"], run["name"], run["run"])
        assert store.load_subagent_meta(*place) == run["meta"]
        assert store.find_subagent_run(run["job_id"], parent=run["parent"]) == run
        assert run in store.list_subagent_runs(parent=run["parent"], name=run["name"])


def test_the_conversations_of_sub_agents_are_the_peers(opened: Opened) -> None:
    fixture, store = opened
    conversations = fixture.expected("subagent_conversations")
    assert isinstance(conversations, dict)

    for place, text in conversations.items():
        parent, name, run = place.rsplit(":", 2)
        assert store.load_subagent_conversation(parent, name, int(run)) == text


def test_verify_finds_nothing_wrong_with_what_the_peer_wrote(opened: Opened) -> None:
    _, store = opened

    report = store.verify()

    assert report.ok, report.problems

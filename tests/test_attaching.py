"""Agents that are attached to the agent of a session, and sub-agents that it ran."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import (
    AlreadyAttachedError,
    Attachment,
    ForkNotStableError,
    NotAttachedError,
    NullSessionStore,
    Session,
    SessionDamagedError,
    SessionStore,
)
from amberlog.attaching import (
    AttachableAgent,
    attach_agent_to_session,
    detach_agent_from_session,
    fork_path,
)
from support import independent
from support.children import environment
from support.kohaku import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Config:
    name: str


@dataclass
class Router:
    outputs: list[object] = field(default_factory=list)

    def add_secondary(self, output: object) -> None:
        self.outputs.append(output)

    def remove_secondary(self, output: object) -> None:
        self.outputs.remove(output)


@dataclass
class Job:
    job_id: str


@dataclass
class Executor:
    jobs: list[object]

    def list_pending_jobs(self) -> list[object]:
        return self.jobs


@dataclass
class Agent:
    config: Config
    output_router: Router = field(default_factory=Router)
    executor: Executor | None = None


@dataclass
class Output:
    """Records under a namespace, and holds the last words back until it is asked."""

    agent: str
    store: SessionStore
    of: AttachableAgent
    namespace: str
    held: str = ""

    def flush_sync(self) -> None:
        self.store.append_event(self.namespace, "text_chunk", {"content": self.held})


def agent(name: str) -> Agent:
    return Agent(Config(name))


@pytest.fixture
def session(store: SessionStore) -> Session:
    """Returns a session that the agent `host` runs."""
    store.init_meta("demo", "agent", "", "/w", ["host"])
    return Session(store, agent=agent("host"))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    """Yields another session."""
    with SessionStore(tmp_path / "other.kohakutr") as store:
        yield Session(store)


def lineage(session: Session) -> list[tuple[object, ...]]:
    fields = ("type", "agent_name", "role", "attached_by", "session_id", "attach_seq")
    events = session.store.get_events("host")
    return [tuple(event[name] for name in fields) for event in events]


def test_an_attached_agent_has_a_namespace_of_its_own(session: Session) -> None:
    attachment = session.attach_agent(agent("helper"), "critic")

    session.store.append_event(attachment.namespace, "text_chunk", {"content": "hm"})

    assert attachment == Attachment("host", "critic", 0, "helper")
    assert attachment.namespace == "host:attached:critic:0"
    assert session.store.discover_attached_agents() == [
        {"host": "host", "role": "critic", "attach_seq": 0, "namespace": attachment.namespace}
    ]
    assert session.store.load_meta()["viewer_default_agent"] == attachment.namespace
    assert session.store.load_meta()["agents"] == ["host"]


def test_the_log_of_the_host_says_who_came_and_went(session: Session) -> None:
    helper = agent("helper")

    attach_agent_to_session(helper, session, "critic", attached_by="somebody")
    detach_agent_from_session(helper)

    assert lineage(session) == [
        ("agent_attached", "helper", "critic", "somebody", "demo", 0),
        ("agent_detached", "helper", "critic", "helper", "demo", 0),
    ]


def test_an_agent_that_comes_again_gets_the_next_number(session: Session, path: Path) -> None:
    helper = agent("helper")
    session.attach_agent(helper, "critic")
    session.detach_agent(helper)
    session.store.close()

    with SessionStore(path) as store:
        again = Session(store, agent=session.agent).attach_agent(helper, "critic")
        first = Session(store).attach_agent(agent("another"), "role:with:colons")

    assert again.attach_seq == 1
    assert first.namespace == "host:attached:role:with:colons:0"
    state = independent.rows(path, "state")
    assert state["attach_seq:host:critic"] == 1
    assert state["attach_seq:host:role:with:colons"] == 0


def test_attaching_to_the_same_session_again_changes_nothing(session: Session) -> None:
    helper = agent("helper")
    first = session.attach_agent(helper, "critic", output=Output)

    assert session.attach_agent(helper, "critic", output=Output) == first
    assert len(lineage(session)) == 1
    assert len(helper.output_router.outputs) == 1


def test_an_agent_is_attached_to_one_session_only(session: Session, other: Session) -> None:
    helper = agent("helper")
    session.attach_agent(helper, "critic")

    with pytest.raises(AlreadyAttachedError):
        other.attach_agent(helper, "critic")
    with pytest.raises(NotAttachedError):
        other.detach_agent(helper)

    session.detach_agent(helper)
    assert other.attach_agent(helper, "critic").host == "host"


def test_an_agent_that_is_not_attached_cannot_be_detached(session: Session) -> None:
    with pytest.raises(NotAttachedError, match="helper"):
        session.detach_agent(agent("helper"))
    with pytest.raises(NotAttachedError, match="helper"):
        detach_agent_from_session(agent("helper"))


def test_the_output_of_an_attached_agent_is_plugged_in_and_out(session: Session) -> None:
    helper = agent("helper")

    attachment = session.attach_agent(helper, "critic", output=Output)
    (output,) = helper.output_router.outputs
    assert isinstance(output, Output)
    output.held = "last words"
    session.detach_agent(helper)

    assert (output.agent, output.of, output.namespace) == ("helper", helper, attachment.namespace)
    assert not helper.output_router.outputs
    events = session.store.get_events(attachment.namespace)
    assert [event["content"] for event in events] == ["last words"]


def test_an_output_that_cannot_be_made_leaves_the_agent_detached(session: Session) -> None:
    helper = agent("helper")

    def broken(*_: object) -> object:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        session.attach_agent(helper, "critic", output=broken)

    assert [row[0] for row in lineage(session)] == ["agent_attached", "agent_detached"]
    assert session.attach_agent(helper, "critic").attach_seq == 1


def test_a_subscriber_hears_of_an_attachment(session: Session) -> None:
    heard: list[object] = []
    session.store.subscribe(lambda _, event: heard.append(event["type"]))

    session.attach_agent(agent("helper"), "critic")

    assert heard == ["agent_attached"]


def test_two_processes_never_give_one_number_twice(session: Session) -> None:
    script = (
        "import sys, amberlog\n"
        "store = amberlog.SessionStore(sys.argv[1])\n"
        "print(*[store.attach_agent('host', 'r', 'a').attach_seq for _ in range(50)])\n"
        "store.close(update_status=False)\n"
    )
    command = [sys.executable, "-c", script, session.path]
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) for _ in range(2)
    ]

    numbers = [int(n) for child in children for n in child.communicate()[0].split()]

    assert sorted(numbers) == list(range(100))


def test_a_session_that_keeps_nothing_numbers_attachments_too() -> None:
    session = Session(NullSessionStore(), agent=agent("host"))
    helper = agent("helper")

    first = session.attach_agent(helper, "critic")
    session.detach_agent(helper)

    assert first.namespace == "host:attached:critic:0"
    assert session.attach_agent(helper, "critic").attach_seq == 1


def test_an_empty_role_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="role"):
        session.attach_agent(agent("helper"), "")

    assert not lineage(session)


@pytest.mark.parametrize("stored", [[{"role": "user"}], {"messages": [{"role": "user"}], "x": 1}])
def test_both_shapes_of_a_sub_agents_conversation_are_read(
    store: SessionStore, stored: object
) -> None:
    store.save_subagent("alice", "explore", 0, {"job_id": "j"}, json.dumps(stored))
    store.save_subagent("alice", "explore", 1, {"job_id": "k"})

    assert store.load_subagent_messages("alice", "explore", 0) == [{"role": "user"}]
    assert store.load_subagent_messages("alice", "explore", 1) is None


@pytest.mark.parametrize("stored", ["{", '"text"', "[1]", "{}"])
def test_what_is_no_conversation_is_named(store: SessionStore, stored: str) -> None:
    store.save_subagent("alice", "explore", 0, {}, stored)

    with pytest.raises(SessionDamagedError, match="alice:explore:0"):
        store.load_subagent_messages("alice", "explore", 0)


def test_the_conversations_of_the_peers_sub_agents_are_read(tmp_path: Path) -> None:
    fixture = BY_NAME["terrarium"]

    with SessionStore.open_readonly(fixture.unpack(tmp_path)) as store:
        runs = store.list_subagent_runs()
        found = [
            store.load_subagent_messages(str(run["parent"]), str(run["name"]), int(str(run["run"])))
            for run in runs
        ]

    assert runs
    assert all(isinstance(messages, list) for messages in found if messages is not None)
    assert any(found)


def test_a_fork_lies_beside_its_parent(session: Session, tmp_path: Path) -> None:
    _, point = session.store.append_event("host", "user_message", {"content": "a"})
    session.store.append_event("host", "text_chunk", {"content": "b"})

    child = asyncio.run(session.fork(point, name="what if"))

    assert Path(child.path) == tmp_path / "session-what if.kohakutr.v2"
    assert (child.name, child.agent) == ("what if", None)
    assert [event["content"] for event in child.store.get_events("host")] == ["a"]
    assert child.store.meta["name"] == "what if"
    child.store.close()


def test_forks_at_once_do_not_lose_each_other(session: Session) -> None:
    _, point = session.store.append_event("host", "user_message", {"content": "a"})

    async def both() -> list[Session]:
        return await asyncio.gather(*(session.fork(point) for _ in range(3)))

    children = asyncio.run(both())

    noted = session.store.meta["forked_children"]
    assert isinstance(noted, list)
    assert {entry["path"] for entry in noted} == {child.path for child in children}
    for child in children:
        child.store.close()


def test_a_fork_through_a_pending_job_of_the_agent_is_refused(session: Session) -> None:
    _, point = session.store.append_event("host", "tool_call", {"call_id": "c", "name": "bash"})
    busy = Agent(Config("host"), executor=Executor([Job("c"), {"call_id": "d"}, Job("")]))

    with pytest.raises(ForkNotStableError, match="c"):
        asyncio.run(Session(session.store, agent=busy).fork(point))


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b", "\x1b[2J", ".hidden", "x" * 300])
def test_a_name_that_is_no_name_of_a_file_is_refused(session: Session, name: str) -> None:
    _, point = session.store.append_event("host", "user_message", {"content": "a"})

    with pytest.raises(ValueError, match="name"):
        asyncio.run(session.fork(point, name=name))


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        ("a.kohakutr", "a-x.kohakutr.v2"),
        ("a.kohakutr.v2", "a-x.kohakutr.v2"),
        ("a.b.kohakutr", "a.b-x.kohakutr.v2"),
        ("a.kt", "a-x.kohakutr.v2"),
    ],
)
def test_the_name_of_a_fork_comes_before_the_ending(parent: str, child: str) -> None:
    assert fork_path(Path("dir") / parent, "x") == Path("dir") / child

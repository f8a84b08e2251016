"""Giving a runtime what its agents had."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import Resumed, SessionStore, TriggerRegistry
from amberlog.resuming import Handover
from support.agentlike import AGENT, Agentlike
from support.kohaku import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Timer:
    """A trigger that can be made again."""

    def __init__(self, every: int) -> None:
        self.every = every

    @classmethod
    def from_resume_dict(cls, data: dict[str, object]) -> Timer:
        every = data["every"]
        assert isinstance(every, int)
        return cls(every)


class Broken:
    """A trigger that cannot."""

    @classmethod
    def from_resume_dict(cls, data: dict[str, object]) -> Broken:
        raise RuntimeError(f"no socket for {data}")


class Runtime:
    """Notes all that it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[object, ...]] = []

    def restore_conversation(self, agent: str, messages: list[dict[str, object]]) -> None:
        self.given.append(("conversation", agent, len(messages)))

    def restore_scratchpad(self, agent: str, scratchpad: dict[str, object]) -> None:
        self.given.append(("scratchpad", agent, scratchpad))

    def add_trigger(self, agent: str, trigger_id: str, trigger: object) -> None:
        self.given.append(("trigger", agent, trigger_id, type(trigger)))

    def attach_subagent(
        self,
        parent: str,
        name: str,
        run: int,
        meta: Mapping[str, object],
        messages: list[dict[str, object]] | None,
    ) -> None:
        self.given.append(("subagent", parent, name, run, meta.get("job_id"), messages))

    def on_resume(self, events: list[dict[str, object]]) -> None:
        self.given.append(("events", len(events)))


def entry(trigger_id: str, name: str, **data: object) -> dict[str, object]:
    return {"trigger_id": trigger_id, "type": name, "module": __name__, "data": data}


@pytest.fixture
def session(path: Path) -> Iterator[SessionStore]:
    """Yields a session with a turn, a scratchpad, sub-agents and triggers."""
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "conf.yaml", "/w", [AGENT], {"model": "m"})
        Agentlike(store, saves=True, states=True).take([("turn", 0, 1)])
        triggers = [entry("t1", "Timer", every=5), entry("t2", "Broken"), entry("t3", "Unknown")]
        store.save_state(AGENT, scratchpad={"plan": "go"}, triggers=triggers)
        said = [{"role": "user", "content": "look"}]
        for run, shape in enumerate((said, {"messages": said})):
            store.save_subagent(AGENT, "explore", run, {"job_id": f"j{run}"}, json.dumps(shape))
        store.save_subagent(AGENT, "explore", 2, {"job_id": "j2"})
        yield store


def test_a_runtime_gets_all_that_it_has_methods_for(session: SessionStore) -> None:
    runtime = Runtime()
    registry = TriggerRegistry([Timer])
    registry.register(Broken)

    handover = amberlog.resume(session).into(runtime, triggers=registry)

    look = [{"role": "user", "content": "look"}]
    assert runtime.given == [
        ("conversation", AGENT, 4),
        ("scratchpad", AGENT, {"plan": "go"}),
        ("trigger", AGENT, "t1", Timer),
        ("subagent", AGENT, "explore", 0, "j0", look),
        ("subagent", AGENT, "explore", 1, "j1", look),
        ("subagent", AGENT, "explore", 2, "j2", None),
        ("events", 9),
    ]
    assert handover.runtime is runtime
    assert [made.trigger_id for made in handover.triggers] == ["t1"]
    failures = [(one.state.trigger_id, one.reason) for one in handover.failures]
    assert failures == [
        ("t2", "RuntimeError: no socket for {}"),
        ("t3", f"the class {__name__}.Unknown is not registered"),
    ]


def test_a_runtime_without_methods_takes_nothing(session: SessionStore) -> None:
    handover = amberlog.resume(session).into(object(), triggers=TriggerRegistry([Timer]))

    assert [type(made.trigger) for made in handover.triggers] == [Timer]


def test_a_runtime_may_make_its_triggers_itself(session: SessionStore) -> None:
    class Maker:
        def __init__(self) -> None:
            self.asked: list[tuple[object, ...]] = []

        def make_trigger(self, type: str, module: str, data: dict[str, object]) -> str:  # noqa: A002  # as the protocol
            self.asked.append((type, module, data))
            if type == "Unknown":
                raise LookupError("never heard of it")
            return type

    maker = Maker()

    handover = amberlog.resume(session).into(maker)

    assert maker.asked[0] == ("Timer", __name__, {"every": 5})
    assert [made.trigger for made in handover.triggers] == ["Timer", "Broken"]
    assert [one.reason for one in handover.failures] == ["never heard of it"]


def test_a_class_is_imported_only_when_that_is_asked_for(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Found:\n    @classmethod\n    def from_resume_dict(cls, data): return cls()\n"
    (tmp_path / "found_trigger.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        states = [{"trigger_id": "t", "type": "Found", "module": "found_trigger", "data": {}}]
        system = [{"trigger_id": "u", "type": "system", "module": "os", "data": {"x": 1}}]
        store.save_state(AGENT, triggers=[*states, *system])
        resumed = amberlog.resume(store)

        kept_out = resumed.into(object())
        imported_early = "found_trigger" in sys.modules
        let_in = resumed.into(object(), import_triggers=True)

    assert [one.state.trigger_id for one in kept_out.failures] == ["t", "u"]
    assert not imported_early
    assert [made.trigger_id for made in let_in.triggers] == ["t"]
    assert [one.state.trigger_id for one in let_in.failures] == ["u"]


def test_what_no_file_keeps_is_built_of_the_configuration(session: SessionStore) -> None:
    built: list[tuple[str, dict[str, object]]] = []

    def build(config_path: str, config_snapshot: Mapping[str, object]) -> Runtime:
        built.append((config_path, dict(config_snapshot)))
        return Runtime()

    resumed = amberlog.resume(session)
    handover = resumed.into(build=build)

    assert built == [("conf.yaml", {"model": "m"})]
    assert isinstance(handover.runtime, Runtime)
    assert handover.runtime.given[0][0] == "conversation"
    with pytest.raises(ValueError, match="either a runtime or a build"):
        resumed.into()
    with pytest.raises(ValueError, match="either a runtime or a build"):
        resumed.into(Runtime(), build=build)


def test_triggers_are_those_of_the_state_and_those_that_only_events_tell_of(path: Path) -> None:
    with SessionStore(path) as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 0)])
        for event in (
            {"triggers": [entry("gone", "Timer"), entry("old", "Timer", every=1)]},
            {"trigger": entry("old", "Timer", every=2)},
            {"trigger_id": "flat", "trigger_type": "Timer", "module": "m", "data": {"every": 3}},
            {"trigger_id": "gone", "removed": True},
            {"trigger": entry("both", "Timer", every=4)},
        ):
            store.append_event(AGENT, "trigger_state", event)
        store.save_state(AGENT, triggers=[entry("both", "Timer", every=5), entry("row", "Timer")])

        found = amberlog.resume(store).agents[AGENT]

    assert found.source == "snapshot"
    assert [(one.trigger_id, one.type, dict(one.data)) for one in found.triggers] == [
        ("old", "Timer", {"every": 2}),
        ("flat", "Timer", {"every": 3}),
        ("both", "Timer", {"every": 5}),
        ("row", "Timer", {}),
    ]


def test_a_class_that_moved_is_found_by_its_name_unless_there_are_two() -> None:
    other = type("Timer", (Timer,), {"__module__": "elsewhere"})
    registry = TriggerRegistry([Timer])

    alone = registry.find("Timer", "an.old.module")
    registry.register(other)

    assert alone is Timer
    assert registry.find("Timer", "an.old.module") is None
    assert registry.find("Timer", "elsewhere") is other
    with pytest.raises(TypeError, match="from_resume_dict"):
        registry.register(object)  # type: ignore[type-var]  # what is refused


def test_triggers_of_the_peers_sessions_are_read(tmp_path: Path) -> None:
    path = BY_NAME["single_agent"].unpack(tmp_path)

    resumed = amberlog.resume(path, readonly=True)
    resumed.store.close()

    (trigger,) = resumed.agents["alice"].triggers
    assert (trigger.type, trigger.module) == (
        "TimerTrigger",
        "kohakuterrarium.modules.trigger.timer",
    )
    assert dict(trigger.data) == {"interval": 60, "prompt": "check the queue"}


def test_the_page_shows_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parent.parent / "docs" / "resume.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with SessionStore("sessions/work.kohakutr") as store:
        store.init_meta("s", "agent", "", "/w", [AGENT])
        Agentlike(store, saves=True, states=True).take([("turn", 0, 1)])
        timer = {"trigger_id": "t", "type": "Timer", "module": "m", "data": {"every": 1}}
        store.save_state(AGENT, triggers=[timer])
    names: dict[str, object] = {"TimerTrigger": Timer}

    for block in blocks:
        exec(block, names)  # noqa: S102  # our own page

    resumed, handover = names["resumed"], names["handover"]
    assert isinstance(resumed, Resumed)
    assert isinstance(handover, Handover)
    resumed.store.close()
    assert len(blocks) == 2
    assert [made.trigger_id for made in handover.triggers] == ["t"]

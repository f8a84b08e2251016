"""What a runtime may have methods for, and how it is given what its agents had."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from amberlog._triggers import (
    RestoredTrigger,
    TriggerFailure,
    TriggerRegistry,
    TriggerState,
    make,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amberlog._subagents import ResumedSubagent

logger = logging.getLogger("amberlog")


@runtime_checkable
class TakesConversation(Protocol):
    """A runtime that takes conversations."""

    def restore_conversation(self, agent: str, messages: list[dict[str, object]]) -> object:
        """Makes these the messages of an agent."""


@runtime_checkable
class TakesScratchpad(Protocol):
    """A runtime that takes scratchpads."""

    def restore_scratchpad(self, agent: str, scratchpad: dict[str, object]) -> object:
        """Makes this the scratchpad of an agent."""


@runtime_checkable
class MakesTriggers(Protocol):
    """A runtime that makes its triggers itself."""

    def make_trigger(self, type: str, module: str, data: dict[str, object]) -> object:  # noqa: A002  # the name of the field
        """Makes a trigger; one that cannot be made is reported by raising."""


@runtime_checkable
class TakesTriggers(Protocol):
    """A runtime that takes the triggers that were made for it."""

    def add_trigger(self, agent: str, trigger_id: str, trigger: object) -> object:
        """Gives an agent a trigger."""


@runtime_checkable
class TakesSubagents(Protocol):
    """A runtime that takes the runs of sub-agents."""

    def attach_subagent(
        self,
        parent: str,
        name: str,
        run: int,
        meta: Mapping[str, object],
        messages: list[dict[str, object]] | None,
    ) -> object:
        """Takes one run of a sub-agent, with its messages where they were kept."""


@runtime_checkable
class Repaints(Protocol):
    """A runtime that paints the history again."""

    def on_resume(self, events: list[dict[str, object]]) -> object:
        """Paints the events of one agent."""


class AgentParts(Protocol):
    """What is handed over of an agent."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def conversation(self) -> list[dict[str, object]]:
        """Its messages."""

    @property
    def scratchpad(self) -> Mapping[str, object]:
        """Its scratchpad."""

    @property
    def triggers(self) -> tuple[TriggerState, ...]:
        """Its triggers."""

    @property
    def subagents(self) -> tuple[ResumedSubagent, ...]:
        """The runs of its sub-agents."""

    @property
    def events(self) -> list[dict[str, object]]:
        """The events to repaint."""


@dataclass(frozen=True, slots=True)
class Handover:
    """What became of handing a session over.

    Attributes:
        runtime: The runtime that took it.
        triggers: The triggers that were made.
        failures: The triggers that could not be made, each with the reason.
    """

    runtime: object
    triggers: tuple[RestoredTrigger, ...]
    failures: tuple[TriggerFailure, ...]


def hand_over(
    runtime: object,
    agents: Sequence[AgentParts],
    registry: TriggerRegistry,
    *,
    may_import: bool,
) -> Handover:
    """Gives a runtime what its agents had, as far as it has methods for it."""
    made: list[RestoredTrigger] = []
    failed: list[TriggerFailure] = []
    for agent in agents:
        if isinstance(runtime, TakesConversation):
            runtime.restore_conversation(agent.name, agent.conversation)
        if isinstance(runtime, TakesScratchpad):
            runtime.restore_scratchpad(agent.name, dict(agent.scratchpad))
        for state in agent.triggers:
            result = _trigger(runtime, agent.name, state, registry, may_import=may_import)
            if isinstance(result, TriggerFailure):
                failed.append(result)
            else:
                made.append(result)
        if isinstance(runtime, TakesSubagents):
            for run in agent.subagents:
                runtime.attach_subagent(run.parent, run.name, run.run, run.meta, run.conversation)
        if isinstance(runtime, Repaints):
            runtime.on_resume(agent.events)
    return Handover(runtime, tuple(made), tuple(failed))


def _trigger(
    runtime: object,
    agent: str,
    state: TriggerState,
    registry: TriggerRegistry,
    *,
    may_import: bool,
) -> RestoredTrigger | TriggerFailure:
    try:
        if isinstance(runtime, MakesTriggers):
            trigger = runtime.make_trigger(state.type, state.module, dict(state.data))
        else:
            trigger = make(state, registry, may_import=may_import)
            if isinstance(runtime, TakesTriggers):
                runtime.add_trigger(agent, state.trigger_id, trigger)
    except LookupError as error:
        reason = str(error.args[0]) if error.args else type(error).__name__
        failure = TriggerFailure(agent, state, reason, error)
    except Exception as error:  # noqa: BLE001  # one trigger's class must not stop the others
        failure = TriggerFailure(agent, state, f"{type(error).__name__}: {error}", error)
    else:
        return RestoredTrigger(agent, state.trigger_id, trigger)
    logger.warning("trigger %s of %s not restored: %s", state.trigger_id, agent, failure.reason)
    return failure

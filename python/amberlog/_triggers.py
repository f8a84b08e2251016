"""Triggers of a resumed agent: what is kept of them, and which classes may be made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class TriggerState:
    """What a session keeps of a trigger.

    Attributes:
        trigger_id: Its id; empty when it has none.
        type: The name of its class.
        module: The module that the class was in.
        data: What the class makes the trigger of.
    """

    trigger_id: str
    type: str
    module: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RestoredTrigger:
    """A trigger that was made again.

    Attributes:
        agent: The agent that it belongs to.
        trigger_id: Its id.
        trigger: The trigger.
    """

    agent: str
    trigger_id: str
    trigger: object


@dataclass(frozen=True, slots=True)
class TriggerFailure:
    """A trigger that could not be made again.

    Attributes:
        agent: The agent that it belongs to.
        state: What the session keeps of it.
        reason: Why, in one line.
        error: What was raised, where something was.
    """

    agent: str
    state: TriggerState
    reason: str
    error: Exception | None


@runtime_checkable
class ResumableTrigger(Protocol):
    """A class whose triggers can be made again."""

    @classmethod
    def from_resume_dict(cls, data: dict[str, object]) -> object:
        """Returns the trigger that was described by `data`."""


Resumable = TypeVar("Resumable", bound=ResumableTrigger)


class TriggerRegistry:
    """The classes that triggers may be made of.

    A session's file names classes. Only those that are registered here are ever used for it, so
    that a file cannot run code of its own choice.
    """

    def __init__(self, classes: Iterable[type[ResumableTrigger]] = ()) -> None:
        self._by_name: dict[str, list[type[ResumableTrigger]]] = {}
        for trigger_class in classes:
            self.register(trigger_class)

    def register(self, trigger_class: type[Resumable]) -> type[Resumable]:
        """Allows a class, by its name; returns it, so that this can be a decorator.

        Raises:
            TypeError: It is no class with a `from_resume_dict`.
        """
        if not callable(getattr(trigger_class, "from_resume_dict", None)):
            raise TypeError(f"{trigger_class!r} is no class with a from_resume_dict")
        known = self._by_name.setdefault(trigger_class.__name__, [])
        if trigger_class not in known:
            known.append(trigger_class)
        return trigger_class

    def find(self, name: str, module: str = "") -> type[ResumableTrigger] | None:
        """Returns the class of that name: the one of that module, or else the only one there is."""
        known = self._by_name.get(name, [])
        of_module = [one for one in known if one.__module__ == module]
        if of_module:
            return of_module[-1]
        # A class may have moved since; which of several is meant cannot be told.
        return known[0] if len(known) == 1 else None


def triggers_of(stored: object, events: Iterable[Mapping[str, object]]) -> tuple[TriggerState, ...]:
    """Returns the triggers of an agent: those of its state, and those that only events tell of.

    Args:
        stored: The `triggers` slot of its state.
        events: Its `trigger_state` events, oldest first. One holds the list of all triggers under
            `triggers`, or one trigger under `trigger` or in its own fields, with its class under
            `trigger_type`; `removed` takes the trigger away.
    """
    told: dict[str, TriggerState] = {}
    for event in events:
        listed = event.get("triggers")
        if isinstance(listed, list):
            told = _by_id(_states(listed))
            continue
        one = event.get("trigger")
        fields = one if isinstance(one, Mapping) else {**event, "type": event.get("trigger_type")}
        state = _state(fields)
        if event.get("removed"):
            told.pop(_key(state), None)
        else:
            told[_key(state)] = state
    kept = _by_id(_states(stored if isinstance(stored, list) else []))
    return tuple({**told, **kept}.values())


def _states(rows: list[object]) -> list[TriggerState]:
    return [_state(row if isinstance(row, Mapping) else {}) for row in rows]


def _by_id(states: list[TriggerState]) -> dict[str, TriggerState]:
    return {_key(state): state for state in states}


def _key(state: TriggerState) -> str:
    return state.trigger_id or f"{state.module}\0{state.type}\0{sorted(state.data)}"


def _state(row: Mapping[str, object]) -> TriggerState:
    data = row.get("data")
    return TriggerState(
        trigger_id=_text(row.get("trigger_id")),
        type=_text(row.get("type")),
        module=_text(row.get("module")),
        data=dict(data) if isinstance(data, Mapping) else {},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def make(state: TriggerState, registry: TriggerRegistry, *, may_import: bool) -> object:
    """Returns the trigger that a state describes.

    Raises:
        LookupError: No registered class has that name, and it may not or cannot be imported.
        Exception: Whatever the class raises.
    """
    if not state.type:
        raise LookupError("it does not name its class")
    known = registry.find(state.type, state.module)
    if known is None and may_import and state.module:
        known = _imported(state)
    if known is None:
        name = f"{state.module}.{state.type}" if state.module else state.type
        raise LookupError(f"the class {name} is not registered")
    return known.from_resume_dict(dict(state.data))


def _imported(state: TriggerState) -> type[ResumableTrigger]:
    found: object = getattr(import_module(state.module), state.type, None)
    if isinstance(found, type) and issubclass(found, ResumableTrigger):
        return found
    raise LookupError(f"{state.module}.{state.type} is no class with a from_resume_dict")

"""What a fork and the session that it was made of say about each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from typing_extensions import Self

    from amberlog._handle import StoreHandle

Mutation = Callable[[dict[str, object]], Mapping[str, object] | None]
"""What makes another event of the one at a fork's point, or None of it."""

# A session that does not state its version is of the first.
_UNSTATED_VERSION = 1


@dataclass(frozen=True, slots=True)
class Child:
    """A session that is about to be forked off.

    Attributes:
        parent_id: The id of the session that it is made of.
        parent_path: Where that one lies.
        parent_version: The version of its file.
        lineage: What that one says about its own origin.
        session_id: The id of the child.
        point: The last event that it keeps.
        mutation: What the callable is called that changed that event, where one did.
        name: The title of the child, where it gets one.
        created_at: When it is made.
    """

    parent_id: str
    parent_path: str
    parent_version: object
    lineage: Mapping[str, object]
    session_id: str
    point: int
    mutation: str | None
    name: str | None
    created_at: str

    @classmethod
    def of(cls, parent: StoreHandle, point: int, mutate: Mutation | None, name: str | None) -> Self:
        """Returns the child that a fork of `parent` at `point` will be."""
        known = parent.meta.get("lineage")
        mutation = None if mutate is None else getattr(mutate, "__name__", None) or "custom"
        return cls(
            parent_id=parent.session_id,
            parent_path=parent.path,
            parent_version=parent.meta.get("format_version", _UNSTATED_VERSION),
            lineage=known if isinstance(known, dict) else {},
            session_id=f"{parent.session_id}-fork-{uuid4().hex[:8]}",
            point=point,
            mutation=mutation,
            name=name,
            created_at=datetime.now(timezone.utc).isoformat(),
        )

    def meta(self) -> list[tuple[str, object]]:
        """Returns the fields of its meta that are not those of its parent."""
        fork: dict[str, object] = {
            "parent_session_id": self.parent_id,
            "parent_format_version": self.parent_version,
            "fork_point": self.point,
            "fork_mutation": self.mutation,
            "fork_created_at": self.created_at,
            "parent_path": self.parent_path,
        }
        fields: list[tuple[str, object]] = [
            ("session_id", self.session_id),
            ("conversation_id", str(uuid4())),
            ("created_at", self.created_at),
            ("last_active", self.created_at),
            ("status", "paused"),
            ("lineage", {**self.lineage, "fork": fork}),
        ]
        return fields if self.name is None else [*fields, ("name", self.name)]

    def entry(self, path: str) -> dict[str, object]:
        """Returns what its parent notes of it."""
        return {
            "session_id": self.session_id,
            "path": path,
            "fork_point": self.point,
            "fork_created_at": self.created_at,
        }


def mutated(event: dict[str, object], mutate: Mutation) -> dict[str, object] | None:
    """Returns what `mutate` makes of an event, with the type and id of the event where it has none.

    Raises:
        RuntimeError: `mutate` raised.
        TypeError: `mutate` returned neither a mapping nor None.
    """
    given: dict[str, object] = {name: event[name] for name in ("type", "event_id") if name in event}
    try:
        result = mutate(event)
    except Exception as error:
        raise RuntimeError(f"mutate raised {type(error).__name__}: {error}") from error
    if result is None:
        return None
    if not isinstance(result, Mapping):
        raise TypeError(f"mutate must return a mapping or None, not {type(result).__name__}")
    return {**given, **result}

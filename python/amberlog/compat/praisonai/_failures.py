"""Telling the peer's hooks of what could not be stored or read."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog.compat.praisonai._peer import peer

if TYPE_CHECKING:
    from amberlog.chat import PersistFailure


def fire(failure: PersistFailure) -> None:
    """Runs the hooks for `SESSION_PERSIST_FAILED`; does nothing where the peer is not installed."""
    registry, types = peer("hooks.registry"), peer("hooks.types")
    events, runner = peer("hooks.events"), peer("hooks.runner")
    if registry is None or types is None or events is None or runner is None:
        return
    hooks = registry.get_default_registry()
    event = types.HookEvent.SESSION_PERSIST_FAILED
    if not hooks.has_hooks(event):
        return
    told = events.SessionPersistFailedInput(
        session_id=failure.session_id,
        cwd=str(Path.cwd()),
        event_name=event.value,
        timestamp=datetime.now(timezone.utc).isoformat(),
        role=failure.role,
        content=failure.content,
        error=failure.error,
        spilled=failure.spilled,
        spill_path=failure.spill_path,
    )
    runner.HookRunner(hooks).execute_sync(event, told)


__all__ = ["fire"]

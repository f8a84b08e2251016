"""Which session goes on where another one was retired."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog._versions import latest_readable_version
from amberlog.errors import SessionNotFoundError, SessionNotResumableError
from amberlog.session import SessionStore

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

SUCCESSOR = "resume_successor"
"""The field of a session's meta that says that it was retired, and for which session."""

LONGEST_CHAIN = 64
"""How many sessions may have followed one another."""

_FIELDS = ("conversation_id", SUCCESSOR, "live_graph_manifest", "agents")


@dataclass(frozen=True, slots=True)
class Successor:
    """The session that goes on for another one.

    Attributes:
        path: Where it lies; a relative path begins at the directory of the retired one.
        conversation_id: The conversation that it must hold.
        agents: The agents that it must have.
    """

    path: Path
    conversation_id: str
    agents: frozenset[str]


def successor_of(meta: Mapping[str, object], file: Path) -> Successor | None:
    """Returns the successor that the meta of a session names; None when it was not retired.

    Args:
        meta: What the session says about itself.
        file: The session, for the error.

    Raises:
        SessionNotResumableError: The retirement is not finished, the session was split, or the
            mark is not understood.
    """
    mark = meta.get(SUCCESSOR)
    if mark is None:
        return None
    if not isinstance(mark, dict):
        raise _refusal(file, "its successor mark is not a map")
    if mark.get("state") != "ready":
        raise _refusal(file, "it is being retired, and its successor is not ready")
    targets = mark.get("targets")
    if mark.get("kind") != "merge" or not isinstance(targets, list) or len(targets) != 1:
        raise _refusal(file, "it was split: choose one of its successors")
    target = targets[0] if isinstance(targets[0], dict) else {}
    place, identity = target.get("path"), target.get("conversation_id")
    if not isinstance(place, str) or not place or "\0" in place:
        raise _refusal(file, "its successor has no path")
    if not isinstance(identity, str) or not identity:
        raise _refusal(file, "its successor has no conversation id")
    names = mark.get("agents", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _refusal(file, "the agents of its successor are not a list of names")
    return Successor(file.parent / place, identity, frozenset(names))


def resolve_successor(
    path: str | os.PathLike[str], *, session_dir: str | os.PathLike[str] | None = None
) -> Path:
    """Returns the session to go on with instead of the one at `path`, which is that one mostly.

    Of every session on the way the newest version that can be read counts. Nothing is changed,
    and a successor that cannot be had is never replaced by the session that was retired.

    Args:
        path: A session.
        session_dir: No session outside of this directory is followed to; that of `path` when it is
            left out.

    Raises:
        SessionNotFoundError: There is no session at `path`.
        SessionNotResumableError: A successor is missing, lies outside of the directory, holds
            another conversation or lacks an agent, or the chain has a cycle or does not end.
    """
    current = Path(path).expanduser()
    root = (current.parent if session_dir is None else Path(session_dir).expanduser()).resolve()
    seen: set[Path] = set()
    agents: frozenset[str] = frozenset()
    identity: str | None = None
    for _ in range(LONGEST_CHAIN):
        current = _within(latest_readable_version(_within(current, root)), root)
        if current in seen:
            raise _refusal(current, "its successors lead back to it")
        seen.add(current)
        meta = _meta_of(current, is_first=len(seen) == 1)
        if identity is not None and meta.get("conversation_id") != identity:
            raise _refusal(current, "it holds another conversation than the one it succeeds")
        successor = successor_of(meta, current)
        if successor is None:
            if lost := sorted(agents - _members(meta)):
                raise _refusal(current, f"it lacks agents of those it succeeds: {', '.join(lost)}")
            return current
        agents |= successor.agents
        identity, current = successor.conversation_id, successor.path
    raise _refusal(Path(path), f"it has more than {LONGEST_CHAIN} successors")


def _within(path: Path, root: Path) -> Path:
    resolved = path.resolve()
    if not resolved.is_relative_to(root):
        raise _refusal(resolved, f"it lies outside of `{root}`")
    return resolved


def _meta_of(path: Path, *, is_first: bool) -> dict[str, object]:
    try:
        with SessionStore.open_readonly(path) as store:
            return {name: store.meta.get(name) for name in _FIELDS}
    except SessionNotFoundError as error:
        if is_first:
            raise
        raise _refusal(path, "it is missing, though another session names it") from error


def _members(meta: Mapping[str, object]) -> set[str]:
    manifest = meta.get("live_graph_manifest")
    listed = meta.get("agents")
    if isinstance(manifest, dict):
        creatures = manifest.get("creatures")
        found = creatures if isinstance(creatures, list) else []
        listed = [creature.get("name") for creature in found if isinstance(creature, dict)]
    return {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()


def _refusal(file: Path, why: str) -> SessionNotResumableError:
    return SessionNotResumableError(f"cannot resume `{file}`: {why}", path=str(file))

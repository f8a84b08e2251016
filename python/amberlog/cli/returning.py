"""The commands that show what a session can be gone on with. Each returns the exit code."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypedDict

from amberlog import lineage
from amberlog.cli.lookup import session_file
from amberlog.cli.terminal import block, emit, line, preview, text_of, text_of_event
from amberlog.last import LastSession, last_session
from amberlog.resuming import resume as come_back
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from amberlog.resuming import Resumed, ResumedAgent
    from amberlog.types import UserGroup

_LONG = 2_000


class ContestedTurn(TypedDict):
    """A turn that has several branches."""

    turn: int
    branches: list[int]
    selected: int | None
    groups: list[UserGroup]


def resume(
    session: str | None,
    agent: str | None,
    branches: Sequence[str],
    limit: int,
    *,
    as_json: bool,
) -> int:
    """Paints the end of a session's history, and shows what a resume restores and repairs."""
    view = dict(_branch(branch) for branch in branches)
    found = _found(session)
    # What is gone on with may be another file: a newer version, or a successor.
    resumed = come_back(found.path, agent=agent, view=view or None, readonly=True)
    with resumed.store:
        if as_json:
            emit(_document(resumed, found))
            return 0
        _print_head(resumed, found)
        for one in resumed.agents.values():
            _paint(resumed.store, one, view, limit)
        for one in resumed.agents.values():
            _print_agent(one)
    if not resumed.repairs:
        line("nothing was repaired")
    return 0


def branches(session: str | None, agent: str | None, *, as_json: bool) -> int:
    """Prints the turns that have several branches, by what the user said."""
    found = _found(session)
    with SessionStore.open_readonly(found.path) as store:
        names = [agent] if agent is not None else store.namespaces()
        turns = {name: _turns(store, name) for name in names}
        path = store.path
    if as_json:
        emit({"path": path, "skipped": _skipped(found), "agents": turns})
        return 0
    for name, contested in turns.items():
        if contested:
            line(name, "bold")
        for turn in contested:
            shown = turn["selected"]
            line(f"  turn {turn['turn']}: branch {shown} of {turn['branches']} is shown")
            for group in turn["groups"]:
                mark = "*" if shown in group["branches"] else " "
                line(f"  {mark} {group['branches']}  {preview(group['content'])}")
    if not any(turns.values()):
        line("no turn has more than one branch")
    return 0


def _found(session: str | None) -> LastSession:
    return last_session() if session is None else LastSession(session_file(session), ())


def _branch(text: str) -> tuple[int, int]:
    turn, colon, branch = text.partition(":")
    if not (colon and turn.isascii() and turn.isdigit() and branch.isascii() and branch.isdigit()):
        raise ValueError(f"--branch must be TURN:BRANCH, two numbers, not {text!r}")
    return int(turn), int(branch)


def _turns(store: SessionStore, agent: str) -> list[ContestedTurn]:
    events = store.get_events(agent)
    stored = store.state.get(f"{agent}:branch_view")
    view = stored if isinstance(stored, dict) else None
    selected = store.branch_path(agent)
    groups = lineage.collect_user_groups(events, branch_view=view)
    return [
        {
            "turn": turn,
            "branches": found["branches"],
            "selected": selected.get(turn),
            "groups": groups[turn]["groups"],
        }
        for turn, found in lineage.collect_branch_metadata(events, branch_view=view).items()
        if len(found["branches"]) > 1
    ]


def _skipped(found: LastSession) -> list[dict[str, str]]:
    return [{"path": str(one.path), "reason": one.reason} for one in found.skipped]


def _document(resumed: Resumed, found: LastSession) -> dict[str, object]:
    return {
        "path": resumed.store.path,
        "session_id": resumed.store.session_id,
        "skipped": _skipped(found),
        "meta": dict(resumed.meta),
        "agents": {name: _fields(agent) for name, agent in resumed.agents.items()},
    }


def _fields(agent: ResumedAgent) -> dict[str, object]:
    return {
        "source": agent.source,
        "turn": agent.turn_index,
        "branch": agent.branch_id,
        "parent_branch_path": agent.parent_branch_path,
        "messages": agent.conversation,
        "scratchpad": dict(agent.scratchpad),
        "state": dict(agent.state),
        "triggers": [
            {
                "trigger_id": trigger.trigger_id,
                "type": trigger.type,
                "module": trigger.module,
                "data": dict(trigger.data),
            }
            for trigger in agent.triggers
        ],
        "subagents": [{"name": run.name, "run": run.run} for run in agent.subagents],
        "watermark": agent.watermark,
        "events_read": agent.events_read,
        "repairs": [
            {"kind": repair.kind, "call_id": repair.call_id, "what": str(repair)}
            for repair in agent.repairs
        ],
    }


def _print_head(resumed: Resumed, found: LastSession) -> None:
    line(f"session {resumed.store.session_id}", "bold")
    line(f"  file  {resumed.store.path}")
    for key in ("status", "last_active", "config_path", "pwd"):
        if resumed.meta.get(key):
            line(f"  {key}  {preview(resumed.meta[key])}")
    for one in found.skipped:
        line(f"  passed over  {one.path}: {one.reason}")


def _paint(store: SessionStore, agent: ResumedAgent, view: dict[int, int], limit: int) -> None:
    if limit == 0:
        return
    shown = store.branch_path(agent.name, view or None)
    newest = store.iter_events(agent.name, reverse=True)
    live = list(islice((event for event in newest if _is_shown(event, shown)), limit))
    line(f"history of {agent.name}", "bold")
    for speaker, text in _spoken(lineage.normalize_resumable_events(reversed(live))):
        line(f"  {speaker}")
        block(text if len(text) <= _LONG else text[:_LONG] + "…")


def _is_shown(event: Mapping[str, object], shown: Mapping[int, int]) -> bool:
    turn, branch = event.get("turn_index"), event.get("branch_id")
    return not (isinstance(turn, int) and isinstance(branch, int)) or shown.get(turn) == branch


def _spoken(events: Iterable[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """Yields who said or did what; the pieces of one answer are put together."""
    answer: list[str] = []
    for event in events:
        kind = str(event.get("type"))
        if kind in ("text_chunk", "text"):
            answer.append(text_of(event.get("content")))
            continue
        speaker = _SPEAKERS.get(kind)
        if speaker is None:
            continue
        if answer:
            yield "assistant", "".join(answer)
            answer = []
        yield speaker, _words(event)
    if answer:
        yield "assistant", "".join(answer)


_SPEAKERS = {
    "user_message": "user",
    "tool_call": "call",
    "tool_result": "result",
    "subagent_call": "sub-agent",
    "subagent_result": "sub-agent's result",
    "trigger_fired": "trigger",
    "compact_complete": "summary",
    "context_cleared": "context cleared",
    "processing_error": "error",
}


def _words(event: Mapping[str, object]) -> str:
    if event.get("_synthetic_resume"):
        return f"{event.get('name')}: {event.get('error')}"
    return text_of_event(event)


def _print_agent(agent: ResumedAgent) -> None:
    line(f"{agent.name} goes on", "bold")
    place = "" if agent.turn_index is None else f" at turn {agent.turn_index}.{agent.branch_id}"
    line(f"  {len(agent.conversation)} messages from {agent.source}{place}")
    if agent.scratchpad:
        line(f"  scratchpad  {', '.join(agent.scratchpad)}")
    for trigger in agent.triggers:
        line(f"  trigger  {trigger.trigger_id} {trigger.type} {preview(str(dict(trigger.data)))}")
    if runs := agent.subagents:
        line(f"  sub-agents  {', '.join(f'{run.name} {run.run}' for run in runs)}")
    for repair in agent.repairs:
        line(f"  repaired  {repair}")

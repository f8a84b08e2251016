"""One chat session as a bundle, and back.

The messages become events, which are searched and listed like those of any runtime, with the
conversation as it stood. The document goes with them, so that what events cannot say comes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

from amberlog.chat import SessionData, SessionMessage

if TYPE_CHECKING:
    from amberlog.session import SessionStore

AGENT = "assistant"
_DOCUMENT = "chat:document"
_WRITTEN = "chat:max_event_id"

Event = tuple[str, dict[str, object]]


def write_bundle(store: SessionStore, document: Mapping[str, object]) -> None:
    """Records a chat session in a new bundle.

    Raises:
        TypeError: A value of it cannot be stored so that it comes back equal; or `ValueError`.
    """
    session = SessionData.from_dict(document)
    agent = session.agent_name or AGENT
    store.init_meta(session.session_id, "agent", "", "", [agent])
    anchor = 0
    if session.last_compaction is not None:
        anchor = min(max(session.last_compaction.message_index, 0), len(session.messages))
    turn = _record(store, agent, session.archived_messages, 0)
    turn = _record(store, agent, session.messages[:anchor], turn)
    if session.last_compaction is not None and store.max_event_id():
        store.append_compaction_checkpoint(agent, session.last_compaction.summary)
    turn = _record(store, agent, session.messages[anchor:], turn)
    store.save_conversation(agent, session.get_working_history())
    written = store.max_event_id()
    store.state.put_many(
        [
            (_DOCUMENT, json.dumps(document, ensure_ascii=False)),
            (_WRITTEN, written),
            # A resume goes on from the conversation with what comes after this event.
            (f"{agent}:snapshot_event_id", written),
        ]
    )
    store.update_status("paused")
    times = {"created_at": session.created_at, "last_active": session.updated_at}
    store.meta.put_many(list(times.items()))


def read_bundle(store: SessionStore) -> dict[str, object]:
    """Returns the chat session of a bundle.

    Of one that `write_bundle` made it is the document, as long as nothing was recorded since. Else
    the messages are those that its first agent would resume with.
    """
    kept = store.state.get(_DOCUMENT)
    document: dict[str, object] = json.loads(kept) if isinstance(kept, str) else {}
    if document and store.state.get(_WRITTEN) == store.max_event_id():
        return document
    meta = store.load_meta()
    agents = [str(name) for name in cast("Sequence[object]", meta.get("agents") or [])]
    agent = next(iter([*agents, *store.namespaces()]), AGENT)
    restored = store.restore_conversation(agent).messages
    created = str(meta.get("created_at") or datetime.now(timezone.utc).isoformat())
    session = SessionData.from_dict(document or {"session_id": store.session_id})
    session.created_at = created
    session.updated_at = str(meta.get("last_active") or created)
    session.agent_name = session.agent_name or agent
    session.last_compaction = None
    session.messages = [_message(one, created) for one in restored]
    return session.to_dict()


def _record(store: SessionStore, agent: str, messages: Sequence[SessionMessage], turn: int) -> int:
    for events in _turns(messages):
        turn += events[0][0] == "user_message"
        store.append_events(agent, events, turn_index=max(turn, 1))
    return turn


def _turns(messages: Sequence[SessionMessage]) -> Iterator[list[Event]]:
    events: list[Event] = []
    for message in messages:
        if message.role == "user" and events:
            yield events
            events = []
        events += _events(message)
    if events:
        yield events


def _events(message: SessionMessage) -> list[Event]:
    stamp: dict[str, object] = {}
    if isinstance(message.timestamp, float):
        stamp["ts"] = message.timestamp
    said = message.content or ""
    if message.role == "user":
        return [("user_message", {"content": said, **stamp})]
    if message.role == "tool":
        return [("tool_result", {"call_id": message.tool_call_id or "", "output": said, **stamp})]
    if message.role != "assistant":
        return [(f"{message.role}_message", {"content": said, **stamp})]
    events: list[Event] = [("text_chunk", {"content": said, **stamp})] if said else []
    calls = message.tool_calls if isinstance(message.tool_calls, list) else []
    return events + [("tool_call", {**_call(call), **stamp}) for call in calls]


def _call(call: Mapping[str, object]) -> dict[str, object]:
    function = call.get("function")
    asked = function if isinstance(function, Mapping) else {}
    arguments = asked.get("arguments")
    try:
        args: object = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        args = arguments
    return {"name": asked.get("name") or "", "call_id": call.get("id") or "", "args": args}


def _message(stored: Mapping[str, object], created: str) -> SessionMessage:
    # A snapshot says no times; one made up now would be another one with each migration.
    try:
        moment = datetime.fromisoformat(created).timestamp()
    except ValueError:
        moment = 0.0
    return SessionMessage.from_dict({"timestamp": moment, **stored})


__all__ = ["read_bundle", "write_bundle"]

"""Sessions of the first format, made without the package: no version, no ids, no turns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.independent import encoded, write

if TYPE_CHECKING:
    import random
    from pathlib import Path

Event = dict[str, object]
START = 1_700_000_000.0


def dated(events: list[Event]) -> list[Event]:
    """Returns events with a time each, in their order."""
    return [{"ts": START + number, **event} for number, event in enumerate(events)]


def make(
    path: Path,
    logs: dict[str, list[Event]],
    snapshots: dict[str, list[Event]] | None = None,
    **tables: dict[str, object],
) -> Path:
    """Makes a session out of the logs and the messages of its agents."""
    meta = {"session_id": "old", "config_type": "agent", "agents": sorted(snapshots or {})}
    write(path, "meta", {name: encoded(value) for name, value in meta.items()})
    rows = {
        f"{owner}:e{number:06d}": encoded(event)
        for owner, events in logs.items()
        for number, event in enumerate(events)
    }
    write(path, "events", rows)
    # The oldest files hold the messages as JSON text.
    texts = {
        agent: json.dumps({"messages": messages}).encode()
        for agent, messages in (snapshots or {}).items()
    }
    write(path, "conversation", texts)
    for table in ("state", "channels", "subagents", "jobs"):
        records = tables.get(table, {})
        write(path, table, {key: encoded(value) for key, value in records.items()})
    return path


def turn(number: int) -> list[Event]:
    """Returns the events of a turn in which a tool is called."""
    return [
        {"type": "user_input", "content": f"question {number}"},
        {"type": "processing_start"},
        {"type": "text", "content": f"I look into {number}."},
        {"type": "tool_call", "name": "read", "call_id": f"c{number}", "args": {"path": "a.py"}},
        {"type": "tool_result", "name": "read", "call_id": f"c{number}", "output": "1 line"},
        {"type": "text", "content": f"Answer {number}."},
        {"type": "processing_end"},
    ]


def random_event(chance: random.Random, number: int) -> Event:
    """Returns an event as the writers of the first format may have written it."""
    words = chance.choice(["", "word", "some longer text that is searched", "日本 🎉"])
    call = f"c{chance.randrange(4)}"
    args: object = chance.choice(
        [None, "{}", "text", {}, {"path": 'é"', "n": [1, 2.5, None, True]}, [1], 0]
    )
    event: Event = chance.choice(
        [
            {"type": "user_input", "content": words},
            {"type": "user_input", "content": [{"type": "text", "text": words}]},
            {"type": "text", "content": words},
            {"type": "text"},
            {"type": "text_chunk", "content": words, "chunk_seq": chance.randrange(9)},
            {"type": "text_chunk", "content": words, "chunk_seq": None},
            {"type": "tool_call", "name": "read", "call_id": call, "args": args},
            {"type": "tool_call", "name": "read", "id": call},
            {"type": "tool_result", "name": "read", "call_id": call, "output": words},
            {"type": "tool_result", "job_id": call, "error": words, "exit_code": 1},
            {"type": "subagent_call", "name": "explore", "job_id": "j", "turn_index": 7},
            {"type": "subagent_result", "job_id": "j", "output": words},
            {"type": "compact_start", "round": number},
            {"type": "compact_complete", "summary": words, "round": 1, "messages_compacted": 3},
            {"type": "compact_complete", "content": words, "replaced_to_event_id": 5},
            {"type": "compact_complete", "event_id": 0, "replaced_from_event_id": 2},
            {"type": "trigger_fired", "content": words, "spawned_in_turn": 3},
            {"type": "token_usage", "total_tokens": number, "migrated": "no", "branch_id": 4},
            {"type": "context_cleared", "messages_cleared": number},
            {"type": "activity:odd", "detail": {"deep": [words]}},
            {"type": ""},
            {"content": words},
        ]
    )
    return {**event, "ts": START + number}


def random_message(chance: random.Random) -> Event:
    """Returns a message as a snapshot of the first format may hold it."""
    words = chance.choice(["", "hello there", "日本 🎉"])
    calls = [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    return chance.choice(
        [
            {"role": "system", "content": words},
            {"role": "user", "content": words},
            {"role": "User", "content": [{"type": "text", "text": words}]},
            {"role": "assistant", "content": words},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "assistant", "content": words, "tool_calls": calls},
            {"role": "assistant", "content": [{"type": "text", "text": words}], "tool_calls": []},
            {"role": "tool", "name": "read", "tool_call_id": "c1", "content": words},
            {"role": "tool", "call_id": "c1", "content": words},
            {"role": None, "content": words},
            {"content": words},
        ]
    )


def random_session(path: Path, chance: random.Random) -> Path:
    """Makes a session of two agents, each with a log, with messages, with both or with neither."""
    logs, snapshots = {}, {}
    for agent in ("alice", "böb"):
        if chance.random() < 0.7:
            logs[agent] = [random_event(chance, n) for n in range(chance.randrange(1, 40))]
        if chance.random() < 0.7:
            snapshots[agent] = [random_message(chance) for _ in range(chance.randrange(12))]
    return make(
        path,
        logs,
        snapshots,
        state={"alice:scratchpad": {"plan": "go"}, "alice:turn_count": 2},
        channels={"tasks:m000000": {"sender": "alice", "content": "please", "ts": START}},
        subagents={"alice:explore:0:meta": {"job_id": "j"}, "alice:explore:0:conversation": "[]"},
        jobs={"j": {"state": "done"}} if chance.random() < 0.5 else {},
    )

"""A session with something of everything that a session can hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amberlog import SessionStore

SCALARS: dict[str, object] = {
    "true": True,
    "false": False,
    "none": None,
    "zero": 0,
    "float zero": 0.0,
    "int": -17,
    "float": 1.5,
    "whole float": 3.0,
    "trillion": 10**12,
    "largest": 2**64 - 1,
    "smallest": -(2**63),
    "text": "plain",
    "empty text": "",
    "empty list": [],
    "empty map": {},
}
MESSAGES: list[dict[str, object]] = [
    {"role": "system", "content": "You are Alice."},
    {"role": "user", "content": "Where is the parser?", "metadata": {"turn_index": 1}},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "src/parser.rs"},
    {"role": "assistant", "content": "It is in src/parser.rs.\0 令牌 🎉"},
]


def record_everything(store: SessionStore) -> None:
    """Puts at least one row into every table."""
    store.init_meta("sample", "terrarium", "/c", "/w", ["alice"], {"x": 1}, terrarium_name="team")
    for name, value in SCALARS.items():
        store.state[f"scalar:{name}"] = value
    for turn in range(1, 4):
        said = f"question number {turn} about the parser module"
        store.append_event("alice", "user_input", {"content": said}, turn_index=turn)
        store.append_event(
            "alice", "tool_call", {"args": {"deep": [1, 2.5, None, True]}}, turn_index=turn
        )
        store.append_event(
            "alice", "tool_result", {"output": f"found parser {turn} there"}, turn_index=turn
        )
        store.append_event(
            "アリス:二", "text_chunk", {"content": f"die Straße 令牌 {turn} 🎉"}, turn_index=turn
        )
        store.save_turn_rollup("alice", turn, {"tokens_in": 10 * turn, "tokens_out": turn})
    store.save_channel_message("tasks", {"sender": "alice", "content": "please review the parser"})
    store.save_channel_message("tasks", {"sender": "alice", "content": [{"type": "text"}]})
    conversation = json.dumps([{"role": "user", "content": "look"}])
    store.save_subagent("alice", "explore", 0, {"job_id": "j1", "turns": 2}, conversation)
    store.save_job("j1", {"state": "done", "exit_code": 0})
    branch = {"turn_index": 3, "branch_id": 1, "parent_branch_path": [[1, 1], [2, 1]]}
    store.save_branch_snapshot("alice", MESSAGES, branch=branch, watermark=12)
    store.save_state("alice", scratchpad={"plan": "go"}, turn_count=3, compact_count=0)

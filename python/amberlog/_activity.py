"""What a runtime reports of its work, as the fields of the events that are kept of it.

Each function takes the name and the text of a report with its metadata, and returns fields. What
the metadata lacks has the default that readers of these events expect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Metadata = Mapping[str, object]
Fields = dict[str, object]
Shape = Callable[[str, str, Metadata], Fields]

_LABEL = re.compile(r"([^\[\]\r\n]+)\[[0-9a-fA-F]{6}\]")

REASONING = (
    "reasoning_content",
    "reasoning_summary",
    "reasoning_details",
    "reasoning",
    "_kt_assistant_segments",
    "_kt_antigravity_content",
    "_kt_tool_call_extra",
)
"""What a provider wants back with an assistant message."""


def split_label(detail: str) -> tuple[str, str]:
    """Returns the label and the rest of a text `[label] rest`; without a label it is `unknown`."""
    if detail.startswith("["):
        label, found, rest = detail[1:].partition("] ")
        if found:
            return label, rest
        if detail.endswith("]"):
            return detail[1:-1], ""
    return "unknown", detail


def plain(value: object) -> object:
    """Returns a value with its tuples as lists: a store keeps lists only."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def number(value: object) -> int:
    """Returns a count of tokens; 0 for what is none."""
    return int(value) if isinstance(value, int | float) else 0


def text(value: object) -> str:
    """Returns a text; empty for what is none."""
    return value if isinstance(value, str) else ""


def _fields(
    *texts: str, counts: tuple[str, ...] = (), rest: Mapping[str, object] | None = None
) -> Shape:
    defaults: Fields = {**dict.fromkeys(texts, ""), **dict.fromkeys(counts, 0), **(rest or {})}

    def shape(name: str, detail: str, metadata: Metadata) -> Fields:
        del name, detail
        return {key: metadata.get(key, default) for key, default in defaults.items()}

    return shape


def _tool_name(label: str, metadata: Metadata) -> str:
    job = text(metadata.get("job_id"))
    given = text(metadata.get("tool_name"))
    return given or (job.rsplit("_", 1)[0] if "_" in job else _unlabelled(label))


def _unlabelled(label: str) -> str:
    labelled = _LABEL.fullmatch(label)
    return labelled[1] if labelled else label


def _tool_call(name: str, detail: str, metadata: Metadata) -> Fields:
    del detail
    fields: Fields = {
        "name": metadata.get("tool_name") or _unlabelled(name),
        "call_id": metadata.get("job_id", ""),
        "args": metadata.get("args", {}),
    }
    if metadata.get("tool_call_id"):
        fields["tool_call_id"] = metadata["tool_call_id"]
        fields["tool_call_arguments"] = metadata.get("tool_call_arguments")
    return fields


def _tool_done(name: str, detail: str, metadata: Metadata) -> Fields:
    fields = _result(name, detail, metadata, exit_code=0)
    if metadata.get("canvas_preview"):
        fields["canvas_preview"] = metadata["canvas_preview"]
    if isinstance(metadata.get("tool_metadata"), Mapping):
        fields["tool_metadata"] = metadata["tool_metadata"]
    return fields


def _tool_error(name: str, detail: str, metadata: Metadata) -> Fields:
    return {**_result(name, detail, metadata, exit_code=1), **_failure(detail, metadata)}


def _result(name: str, detail: str, metadata: Metadata, *, exit_code: int) -> Fields:
    return {
        "name": _tool_name(name, metadata),
        "call_id": metadata.get("job_id", ""),
        "output": metadata.get("result", metadata.get("output", detail)),
        "exit_code": metadata.get("exit_code", exit_code),
    }


def _failure(detail: str, metadata: Metadata) -> Fields:
    return {
        "error": metadata.get("error", detail),
        "interrupted": bool(metadata.get("interrupted", False)),
        "cancelled": bool(metadata.get("cancelled", False)),
        "final_state": metadata.get("final_state", "error"),
    }


def subagent_name(name: str, metadata: Metadata) -> str:
    """Returns the name of a sub-agent: the reported one, else what its job is called after."""
    given = metadata.get("subagent") or metadata.get("subagent_name")
    if isinstance(given, str) and given:
        return given
    job = str(metadata.get("job_id") or "")
    if name == "agent" and job.startswith("agent_") and "_" in job[len("agent_") :]:
        return job[len("agent_") :].rsplit("_", 1)[0]
    return name


def subagent_call(name: str, detail: str, metadata: Metadata) -> Fields:
    """Returns the fields of a call of a sub-agent."""
    return {
        "name": subagent_name(name, metadata),
        "task": metadata.get("task", detail),
        "job_id": metadata.get("job_id", ""),
        "background": bool(metadata.get("background", False)),
        "llm_name": metadata.get("llm_name", ""),
        "model": metadata.get("model", ""),
    }


def subagent_result(
    name: str, detail: str, metadata: Metadata, call: Metadata, *, failed: bool
) -> Fields:
    """Returns the fields of a sub-agent's result; `call` holds those of its call."""
    fields: Fields = {
        "name": subagent_name(name, metadata),
        "job_id": metadata.get("job_id", ""),
        "output": metadata.get("result", detail),
    }
    if failed:
        fields |= {"success": False, **_failure(detail, metadata)}
    return fields | {
        "tools_used": metadata.get("tools_used", []),
        "turns": metadata.get("turns", 0),
        "duration": metadata.get("duration", 0),
        "llm_name": metadata.get("llm_name") or call.get("llm_name", ""),
        "model": metadata.get("model") or call.get("model", ""),
        **_tokens(metadata),
    }


def _subagent_tokens(name: str, detail: str, metadata: Metadata) -> Fields:
    del detail
    job = metadata.get("job_id", "")
    return {"name": subagent_name(name, metadata), "job_id": job, **_tokens(metadata)}


def subagent_tool(name: str, detail: str, metadata: Metadata, activity: str) -> Fields:
    """Returns the fields of what a sub-agent does with a tool."""
    return {
        "subagent": metadata.get("subagent", name),
        "tool_name": metadata.get("tool", ""),
        "activity": activity.replace("subagent_", ""),
        "detail": metadata.get("detail", detail),
        "job_id": metadata.get("job_id", ""),
    }


def _tokens(metadata: Metadata) -> Fields:
    def count(name: str, short: str) -> object:
        value = metadata.get(name)
        return metadata.get(short, 0) if value is None else value

    prompt = count("prompt_tokens", "tokens_in")
    completion = count("completion_tokens", "tokens_out")
    total = metadata.get("total_tokens")
    if total is None:
        total = number(prompt) + number(completion)
    fields: Fields = {
        "total_tokens": total or 0,
        "prompt_tokens": prompt or 0,
        "completion_tokens": completion or 0,
        "cached_tokens": count("cached_tokens", "tokens_cached") or 0,
    }
    if "cost_usd" in metadata:
        fields["cost_usd"] = metadata["cost_usd"]
    return fields


def _reasoning(name: str, detail: str, metadata: Metadata) -> Fields:
    del name, detail
    given = {key: metadata.get(key) for key in REASONING}
    return {key: value for key, value in given.items() if value not in (None, "", [], {})}


def _compaction(name: str, detail: str, metadata: Metadata) -> Fields:
    del name, detail
    optional = (
        "replaced_from_event_id",
        "replaced_to_event_id",
        "compact_path",
        "compact_source_path",
    )
    return {
        "round": metadata.get("round", 0),
        "summary": metadata.get("summary", ""),
        "messages_compacted": metadata.get("messages_compacted", 0),
        **{key: metadata.get(key) for key in optional},
        "compact_result_event_ids": metadata.get("compact_result_event_ids", []),
        **{key: metadata.get(key) for key in ("turn_index", "branch_id", "parent_branch_path")},
    }


def _processing_error(name: str, detail: str, metadata: Metadata) -> Fields:
    del name
    return {
        "error_type": metadata.get("error_type", "Error"),
        "error": metadata.get("error", detail),
    }


def _tool_wait(name: str, detail: str, metadata: Metadata) -> Fields:
    del detail
    return {
        "tool": metadata.get("tool", name),
        "wait_ms": metadata.get("wait_ms", 0),
        "reason": metadata.get("reason", "serial_lock"),
    }


def _compact_decision(name: str, detail: str, metadata: Metadata) -> Fields:
    del name, detail
    return {
        "reason": metadata.get("reason", "unknown"),
        "tokens_before": metadata.get("tokens_before", 0),
        "tokens_after": metadata.get("tokens_after", 0),
        "skipped": bool(metadata.get("skipped", False)),
    }


def _hook_timing(name: str, detail: str, metadata: Metadata) -> Fields:
    del detail
    return {
        "hook": metadata.get("hook", name),
        "plugin": metadata.get("plugin", ""),
        "duration_ms": metadata.get("duration_ms", 0),
        "blocked": bool(metadata.get("blocked", False)),
    }


def _scratchpad_write(name: str, detail: str, metadata: Metadata) -> Fields:
    del detail
    return {
        "agent": metadata.get("agent"),
        "key": metadata.get("key", name),
        "action": metadata.get("action", "set"),
        "size_bytes": metadata.get("size_bytes", 0),
    }


_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")
_CACHE = {"agent": None, "cache_write": 0, "cache_read": 0, "cache_hit_ratio": 0.0}
_BACKGROUND = {"job_id": "", "kind": "tool", "label": ""}

EVENTS: dict[str, tuple[str, Shape]] = {
    "trigger_fired": ("trigger_fired", _fields("trigger_id", "channel", "sender", "content")),
    "tool_start": ("tool_call", _tool_call),
    "tool_done": ("tool_result", _tool_done),
    "tool_error": ("tool_result", _tool_error),
    "subagent_token_update": ("subagent_token_usage", _subagent_tokens),
    "token_usage": ("token_usage", _fields(counts=_USAGE)),
    "turn_token_usage": ("turn_token_usage", _fields(counts=("turn_index", *_USAGE))),
    "compact_start": ("compact_start", _fields(counts=("round",))),
    "compact_skipped": ("compact_skipped", _fields("reason", counts=("round",))),
    "compact_decision": ("compact_decision", _compact_decision),
    "compact_complete": ("compact_complete", _compaction),
    "context_cleared": ("context_cleared", _fields(counts=("messages_cleared",))),
    "background_result": ("background_result", _fields(rest=_BACKGROUND)),
    "processing_complete": (
        "processing_complete",
        _fields("trigger_channel", "trigger_sender", "output_preview"),
    ),
    "processing_error": ("processing_error", _processing_error),
    "tool_wait": ("tool_wait", _tool_wait),
    "plugin_hook_timing": ("plugin_hook_timing", _hook_timing),
    "cache_stats": ("cache_stats", _fields(rest=_CACHE)),
    "assistant_reasoning": ("assistant_reasoning", _reasoning),
    "scratchpad_write": ("scratchpad_write", _scratchpad_write),
}
"""For each kind of report the type of its event and what makes its fields."""

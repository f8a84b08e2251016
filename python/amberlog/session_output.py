"""The recorder that a runtime plugs in as one of its outputs."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from amberlog import _activity as activity
from amberlog._track import Stamps, Track
from amberlog.types import ChildRun, TurnSnapshot, Unit

if TYPE_CHECKING:
    from amberlog.session import SessionStore
    from amberlog.types import StoredEvent

logger = logging.getLogger(__name__)

_SHOWN = ("ask_text", "confirm", "selection", "card")
_WRITTEN_BY_THE_RUNTIME = ("user_input", "resume_batch", "model_recovery")
_OF_AGENT = ("cache_stats", "scratchpad_write")


class OutputEvent(Protocol):
    """What a runtime emits."""

    @property
    def type(self) -> str:
        """What kind of event it is."""

    @property
    def content(self) -> object:
        """Its text, or the parts of a message."""

    @property
    def payload(self) -> Mapping[str, object]:
        """Its fields."""

    @property
    def id(self) -> str | None:
        """What a later event calls it by."""

    @property
    def interactive(self) -> bool:
        """Whether it waits for an answer."""

    @property
    def surface(self) -> str:
        """Where it is shown."""


class SessionOutput:
    """Records what an agent does, as an output module of its runtime.

    Every call has stored what it was told when it returns, and raises when it could not. Streamed
    text is the exception: it becomes one event at the next thing that is not text, and at most
    half a second or 512 characters of it are lost when the process is killed before. What such a
    process left is recorded when the next output is made for the agent.

    The end of a turn (its event, the open text, the snapshot with watermark and branch, the
    scratchpad, the run record) is one transaction, and on disk when `on_processing_end` is done.

    Turn and branch are read from the agent: `_turn_index`, `_branch_id`, `_parent_branch_path`.

    Args:
        agent_name: The agent's name.
        store: The session.
        agent: The agent; None where there is nothing to ask it for.
        capture_activity: Whether reports of tools, sub-agents and so on are recorded.
        event_key_prefix: The namespace of an attached agent; its name otherwise.
    """

    def __init__(
        self,
        agent_name: str,
        store: SessionStore,
        agent: object,
        *,
        capture_activity: bool = True,
        event_key_prefix: str | None = None,
    ) -> None:
        self._agent_name = agent_name
        self._namespace = event_key_prefix or agent_name
        self._store = store
        self._agent = agent
        self._captures = capture_activity
        self._has_own_totals = event_key_prefix is None
        self._track = Track(store, self._namespace)
        self._tasks: dict[str, activity.Fields] = {}
        self._totals: dict[str, int] | None = None
        self._round: tuple[StoredEvent, Stamps] | None = None
        self._known_path: tuple[object, tuple[tuple[int, int], ...]] | None = None

    async def start(self) -> None:
        """Does nothing: what an earlier process left was recorded when this was made."""

    async def stop(self) -> None:
        """Records that the agent was stopped, and flushes."""
        self._track.write(more=Unit(state=self._track.run.stopped()))

    async def write(self, content: str) -> None:
        """Takes text of the assistant."""
        self._track.text(content, self._stamps())

    async def write_stream(self, chunk: str) -> None:
        """Takes a piece of the assistant's text."""
        self._track.text(chunk, self._stamps())

    async def flush(self) -> None:
        """Records the open text as an event."""
        self._track.write()

    async def drain(self) -> None:
        """Does nothing: nothing waits to be written."""

    def flush_sync(self) -> None:
        """Records the open text as an event."""
        self._track.write()

    async def on_processing_start(self, *, request_id: str | None = None) -> None:
        """Records that the agent begins to work on something."""
        self._track.chunk_seq = 0
        stamps = self._stamps()
        fields = {} if request_id is None else {"request_id": request_id}
        more = Unit(state=self._track.run.started(stamps.turn_index))
        self._record("processing_start", fields, more)

    async def on_processing_end(self) -> None:
        """Records the end of the work with all that a later resume starts from, and syncs."""
        end = self._stamps().event("processing_end", {})
        pad = self._scratchpad()
        slots = {} if pad is None else {f"{self._namespace}:scratchpad": pad}
        more = Unit(state={**self._track.run.ended(), **slots}, snapshot=self._snapshot())
        # A sync takes milliseconds, which the event loop has better uses for.
        await self._store.run(self._track.write, end, more=more, sync=True)

    def on_activity(self, activity_type: str, detail: str) -> None:
        """Takes a report of the agent's work."""
        self.on_activity_with_metadata(activity_type, detail, {})

    def on_activity_with_metadata(
        self, activity_type: str, detail: str, metadata: Mapping[str, object]
    ) -> None:
        """Takes a report of the agent's work with what belongs to it."""
        if self._captures:
            name, rest = activity.split_label(detail)
            self._report(activity_type, name, rest, metadata)

    def on_assistant_image(
        self,
        url: str,
        *,
        detail: str = "auto",
        source_type: str | None = None,
        source_name: str | None = None,
        revised_prompt: str | None = None,
    ) -> None:
        """Records an image of the assistant; its bytes are an artifact."""
        optional = {
            "source_type": source_type,
            "source_name": source_name,
            "revised_prompt": revised_prompt,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        self._record("assistant_image", {"url": url, "detail": detail, **given})

    def on_supersede(self, event_id: str) -> None:
        """Records that something shown to the user is settled."""
        if self._captures:
            self._record("ui_supersede", {"ui_event_id": event_id})

    async def emit(self, event: OutputEvent) -> None:
        """Takes an event of the runtime's own kind."""
        payload = event.payload or {}
        words = event.content if isinstance(event.content, str) else ""
        match event.type:
            case "text":
                self._track.text(words, self._stamps())
            case "assistant_round_start":
                self._begin_round()
            case "assistant_message":
                self._end_round(payload["message"])
            case "processing_start":
                request = payload.get("request_id")
                await self.on_processing_start(request_id=activity.text(request) or None)
            case "processing_end":
                await self.on_processing_end()
            case "assistant_image":
                self._image(payload)
            case kind if kind in _WRITTEN_BY_THE_RUNTIME:
                pass
            case _:
                self._emit_activity(event, payload, words)

    def _emit_activity(self, event: OutputEvent, payload: Mapping[str, object], words: str) -> None:
        if event.type == "ui_supersede":
            self.on_supersede(activity.text(payload.get("event_id")))
        elif event.type not in _SHOWN:
            self.on_activity_with_metadata(event.type, words, payload)
        elif self._captures:
            shown = {
                "ui_event_id": event.id,
                "interactive": bool(event.interactive),
                "surface": event.surface,
                "payload": dict(payload),
            }
            self._record(event.type, shown)

    def _image(self, payload: Mapping[str, object]) -> None:
        names = ("source_type", "source_name", "revised_prompt")
        given = {name: payload[name] for name in names if payload.get(name) is not None}
        shown = {"url": payload["url"], "detail": payload.get("detail", "auto"), **given}
        self._record("assistant_image", shown)

    def _begin_round(self) -> None:
        stamps = self._stamps()
        (start,) = self._track.write(stamps.event("assistant_round_start", {}))
        # A round is told whole only when both of its events state their path or neither does.
        stays = Stamps(stamps.turn_index, stamps.branch_id, stamps.path, not start.states_path)
        self._round = (start, stays)

    def _end_round(self, message: object) -> None:
        begun, self._round = self._round, None
        if begun is None:
            self._track.write()
            return
        start, stamps = begun
        fields = {"message": activity.plain(message), "round_start_event_id": start.event_id}
        self._track.write(stamps.event("assistant_message", fields))

    def _report(self, kind: str, name: str, detail: str, metadata: Mapping[str, object]) -> None:
        match kind:
            case "user_input_injected":
                return  # the runtime has recorded it with its branch
            case "subagent_start":
                self._subagent_start(name, detail, metadata)
            case "subagent_done" | "subagent_error":
                self._subagent_end(name, detail, metadata, failed=kind == "subagent_error")
            case _ if kind in activity.EVENTS:
                event_type, shape = activity.EVENTS[kind]
                fields = shape(name, detail, metadata)
                if kind in _OF_AGENT and fields["agent"] is None:
                    fields["agent"] = self._agent_name
                if fields or kind != "assistant_reasoning":
                    self._record(event_type, fields, self._beside(kind, metadata))
            case _ if kind.startswith("subagent_tool_"):
                fields = activity.subagent_tool(name, detail, metadata, kind)
                self._record("subagent_tool", fields)
            case _:
                fields = {"name": name, "detail": detail, **metadata}
                self._record(f"activity:{kind}", fields)

    def _beside(self, kind: str, metadata: Mapping[str, object]) -> Unit | None:
        """What is stored with the event of a report."""
        if kind == "token_usage":
            self._add_tokens(metadata)
            prompt = metadata.get("prompt_tokens", 0)
            return self._usage(metadata.get("context_tokens", prompt))
        if kind in ("compact_complete", "context_cleared") and "context_tokens" in metadata:
            return self._usage(metadata["context_tokens"])
        turn = metadata.get("turn_index")
        if kind != "turn_token_usage" or not isinstance(turn, int) or turn < 1:
            return None
        return Unit(rollups=self._rollup(turn, metadata))

    def _rollup(self, turn: int, metadata: Mapping[str, object]) -> dict[str, activity.Fields]:
        rollup = {
            "agent": self._namespace,
            "turn_index": turn,
            "started_at": metadata.get("started_at"),
            "ended_at": metadata.get("ended_at"),
            "tokens_in": activity.number(metadata.get("prompt_tokens")),
            "tokens_out": activity.number(metadata.get("completion_tokens")),
            "tokens_cached": activity.number(metadata.get("cached_tokens")),
            "cost_usd": metadata.get("cost_usd"),
        }
        return {f"{self._namespace}:turn:{turn:06d}": rollup}

    def _known_totals(self) -> dict[str, int]:
        if self._totals is None:
            kept = self._store.load_token_usage(self._namespace)
            self._totals = {
                kind: activity.number(kept.get(f"total_{name}_tokens"))
                for kind, name in (
                    ("prompt", "input"),
                    ("completion", "output"),
                    ("cached", "cached"),
                )
            }
        return self._totals

    def _add_tokens(self, metadata: Mapping[str, object]) -> None:
        totals = self._known_totals()
        given = metadata.get("totals")
        for kind in totals:
            if self._has_own_totals and isinstance(given, Mapping):
                totals[kind] = activity.number(given.get(kind))
            else:
                totals[kind] += activity.number(metadata.get(f"{kind}_tokens"))

    def _usage(self, last_prompt: object) -> Unit:
        totals = self._known_totals()
        usage = {
            "total_input_tokens": totals["prompt"],
            "total_output_tokens": totals["completion"],
            "total_cached_tokens": totals["cached"],
            "last_prompt_tokens": activity.number(last_prompt),
        }
        return Unit(state={f"{self._namespace}:token_usage": usage})

    def _subagent_start(self, name: str, detail: str, metadata: Mapping[str, object]) -> None:
        call = activity.subagent_call(name, detail, metadata)
        job = activity.text(call["job_id"])
        if job:
            self._tasks[job] = call
        self._record("subagent_call", call)

    def _subagent_end(
        self, name: str, detail: str, metadata: Mapping[str, object], *, failed: bool
    ) -> None:
        job = activity.text(metadata.get("job_id"))
        call = self._tasks.pop(job, {})
        result = activity.subagent_result(name, detail, metadata, call, failed=failed)
        output = activity.text(result["output"])
        task = activity.text(call.get("task"))
        taken = ("job_id", "turns", "tools_used", "duration", "llm_name", "model")
        meta = {
            **{name: activity.plain(result[name]) for name in taken},
            "task": task,
            "success": not failed,
            "output_preview": output[:500],
            "source": "session_output",
            "ts": time.time(),
        }
        talk = [{"role": "user", "content": task}, {"role": "assistant", "content": output}]
        run = ChildRun(self._agent_name, activity.text(result["name"]), job, meta, json.dumps(talk))
        self._record("subagent_result", result, Unit(run=run))

    def _record(
        self, event_type: str, fields: Mapping[str, object], more: Unit | None = None
    ) -> None:
        whole = activity.plain(fields)
        assert isinstance(whole, dict)  # noqa: S101  # a mapping stays one
        self._track.write(self._stamps().event(event_type, whole), more=more)

    def _stamps(self) -> Stamps:
        turn, branch = _positive(self._agent, "_turn_index"), _positive(self._agent, "_branch_id")
        pairs = self._path(turn, branch)
        if turn is None or branch is None:
            return Stamps(None, None, pairs)
        return Stamps(turn, branch, pairs)

    def _path(self, turn: int | None, branch: int | None) -> tuple[tuple[int, int], ...] | None:
        """The agent's parent path; within a turn it is read once, since it is one pair a turn."""
        path = getattr(self._agent, "_parent_branch_path", None)
        if not isinstance(path, list):
            return None
        known = (id(path), len(path), turn, branch)
        if self._known_path is None or self._known_path[0] != known:
            self._known_path = (known, tuple((pair[0], pair[1]) for pair in path))
        return self._known_path[1]

    def _snapshot(self) -> TurnSnapshot:
        stamps = self._stamps()
        branch = None
        if stamps.turn_index is not None:
            branch = {
                "turn_index": stamps.turn_index,
                "branch_id": stamps.branch_id,
                "parent_branch_path": activity.plain(stamps.path),
                "context_cutoff_event_id": _count(self._agent, "_context_cutoff_event_id"),
            }
        return TurnSnapshot(self._messages(), branch, self._compact_state())

    def _compact_state(self) -> dict[str, object] | None:
        manager = getattr(self._agent, "compact_manager", None)
        if manager is None:
            return None
        last = getattr(manager, "_last_compact_time", 0.0)
        return {
            "compact_count": _count(manager, "_compact_count"),
            "last_compact_time": float(last) if isinstance(last, int | float) else 0.0,
        }

    def _messages(self) -> list[Mapping[str, object]] | None:
        """The controller's messages; None where it has none to give, and the log is told."""
        conversation = getattr(getattr(self._agent, "controller", None), "conversation", None)
        ask = getattr(conversation, "snapshot_messages", None)
        if not callable(ask):
            return None
        try:
            messages = ask()
        except Exception:  # the log tells the conversation too
            logger.warning("the controller gave no messages", exc_info=True)
            return None
        return messages if isinstance(messages, list) else None

    def _scratchpad(self) -> dict[str, object] | None:
        session = getattr(self._agent, "session", None)
        give = getattr(getattr(session, "scratchpad", None), "to_dict", None)
        pad = give() if session is not None and callable(give) else None
        return pad if isinstance(pad, dict) else None


def _positive(owner: object, name: str) -> int | None:
    value = getattr(owner, name, None)
    return value if isinstance(value, int) and value > 0 else None


def _count(owner: object, name: str) -> int:
    return _positive(owner, name) or 0

"""One turn of a conversation while it is recorded."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from amberlog._round import Round, arguments_text
from amberlog.types import ChildRun, NewEvent, TurnSnapshot, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from amberlog._track import Stamps, Track

INTERRUPTED = "Interrupted"
_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens")


class Turn:
    """What happened on one user request. `Recorder.turn` makes it; it is used in a `with`.

    Entering stores the request, leaving stores the end of the turn: each is one transaction, and
    the second is on disk when it is done. What lies between is stored call by call, but for
    streamed text: that becomes one event at the next thing that is not text, and at most half a
    second or 512 characters of it are lost when the process is killed before.

    An exception that leaves the `with` is recorded as an interruption, and goes on.

    Args:
        track: Writes the events.
        stamps: Where they belong.
        content: The user's words, or the parts of a message.
        scratchpad: What the agent remembers; stored at the end.
    """

    def __init__(
        self,
        track: Track,
        stamps: Stamps,
        content: str | Sequence[Mapping[str, object]],
        scratchpad: Mapping[str, object],
    ) -> None:
        self._track = track
        self._stamps = stamps
        self._content = content if isinstance(content, str) else [dict(part) for part in content]
        self._scratchpad = scratchpad
        self._round: Round | None = None
        self._calls: dict[str, str] = {}
        self._children: dict[str, tuple[str, str]] = {}
        self._used = dict.fromkeys(_USAGE, 0)
        self._began = 0.0
        self.is_open = False

    @property
    def turn_index(self) -> int:
        """The number of the turn, from 1."""
        return self._stamps.turn_index or 0

    @property
    def branch_id(self) -> int:
        """Which of the turn's alternatives this is, from 1."""
        return self._stamps.branch_id or 0

    def __enter__(self) -> Self:
        self._began = time.time()
        self._track.chunk_seq = 0
        asked = [
            self._event(kind, {"content": self._content}) for kind in ("user_input", "user_message")
        ]
        begins = Unit(state=self._track.run.started(self.turn_index))
        self._track.write(*asked, self._event("processing_start", {}), more=begins)
        self.is_open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        events = self._end_of_round() if error is None else self._interruption(error)
        self.is_open = False
        usage: dict[str, object] = {**self._used, "total_tokens": self._total()}
        if usage["total_tokens"]:
            fields = {"turn_index": self.turn_index, **usage}
            events.append(self._event("turn_token_usage", fields))
        events.append(self._event("processing_end", {}))
        pad = {f"{self._track.namespace}:scratchpad": dict(self._scratchpad)}
        branch = {
            "turn_index": self.turn_index,
            "branch_id": self.branch_id,
            "parent_branch_path": [list(pair) for pair in self._stamps.path or ()],
            "context_cutoff_event_id": 0,
        }
        more = Unit(
            state={**self._track.run.ended(), **(pad if self._scratchpad else {})},
            rollups=self._rollup(),
            snapshot=TurnSnapshot(branch=branch),
        )
        self._track.write(*events, more=more, sync=True)

    def text(self, piece: str) -> None:
        """Takes text of the assistant, whole or as it streams in."""
        if piece:
            self._answer().pieces.append(piece)
            self._track.text(piece, self._stamps)

    def reasoning(self, piece: str) -> None:
        """Takes what the assistant thinks; it is stored with its answer."""
        if piece:
            self._answer().thoughts.append(piece)

    def image(self, url: str, *, detail: str = "auto") -> None:
        """Records an image of the assistant; its bytes are an artifact."""
        self._check_open()
        self._track.write(self._event("assistant_image", {"url": url, "detail": detail}))

    def tool_call(
        self, name: str, args: Mapping[str, object] | None = None, *, call_id: str | None = None
    ) -> str:
        """Records that the assistant calls a tool, and returns the id of the call.

        Args:
            name: The tool.
            args: Its arguments.
            call_id: The provider's id of the call; made up when left out.
        """
        answer = self._answer()
        job = call_id or f"{name}_{uuid.uuid4().hex[:8]}"
        if job in self._calls:
            raise ValueError(f"call_id: the call {job!r} waits for its result already")
        arguments = arguments_text(args or {})
        fields = {
            "name": name,
            "call_id": job,
            "args": dict(args or {}),
            "tool_call_id": job,
            "tool_call_arguments": arguments,
        }
        self._track.write(self._event("tool_call", fields))
        answer.call(job, name, arguments)
        self._calls[job] = name
        return job

    def tool_result(
        self,
        call_id: str,
        output: object,
        *,
        error: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        """Records what a call came to. The answer that made the call ends here.

        Args:
            call_id: The id of the call.
            output: What the tool returned.
            error: What went wrong.
            exit_code: 0 by default, and 1 with an error.

        Raises:
            ValueError: No call of that id waits for a result.
        """
        self._check_open()
        name = self._calls.get(call_id)
        if name is None:
            raise ValueError(f"call_id: no call {call_id!r} waits for a result")
        code = (1 if error else 0) if exit_code is None else exit_code
        fields = {"name": name, "call_id": call_id, "output": output, "exit_code": code}
        if error is not None:
            fields |= {"error": error, **_outcome("error", interrupted=False)}
        self._track.write(*self._end_of_round(), self._event("tool_result", fields))
        self._round = None
        del self._calls[call_id]

    def token_usage(self, prompt: int, completion: int, cached: int = 0) -> None:
        """Records the tokens of one request to the model, and adds them to the agent's."""
        self._check_open()
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "cached_tokens": cached,
        }
        known = self._track.store.load_token_usage(self._track.namespace)
        totals: dict[str, object] = {"last_prompt_tokens": prompt}
        for name, count in (("input", prompt), ("output", completion), ("cached", cached)):
            before = known.get(f"total_{name}_tokens", 0)
            totals[f"total_{name}_tokens"] = (before if isinstance(before, int) else 0) + count
        more = Unit(state={f"{self._track.namespace}:token_usage": totals})
        self._track.write(self._event("token_usage", usage), more=more)
        for name in _USAGE:
            self._used[name] += usage[name]

    def subagent_call(self, name: str, task: str, *, background: bool = False) -> str:
        """Records that a sub-agent is started, and returns the id of its job."""
        self._check_open()
        job = f"agent_{name}_{uuid.uuid4().hex[:8]}"
        fields = {"name": name, "task": task, "job_id": job, "background": background}
        self._track.write(self._event("subagent_call", fields))
        self._children[job] = (name, task)
        return job

    def subagent_result(
        self,
        job_id: str,
        output: str,
        *,
        error: str | None = None,
        turns: int = 0,
        messages: Sequence[Mapping[str, object]] | None = None,
    ) -> None:
        """Records what a sub-agent came to, and its conversation as a run of its own.

        Args:
            job_id: The id of its job.
            output: What it returned.
            error: What went wrong.
            turns: How many turns it took.
            messages: Its conversation; its task and its output when left out.

        Raises:
            ValueError: No sub-agent of that job is at work.
        """
        self._check_open()
        if job_id not in self._children:
            raise ValueError(f"job_id: no sub-agent works on {job_id!r}")
        name, task = self._children[job_id]
        fields: dict[str, object] = {"name": name, "job_id": job_id, "output": output}
        fields["turns"] = turns
        if error is not None:
            outcome = _outcome("error", interrupted=False)
            fields |= {"error": error, "success": False, **outcome}
        talk = messages or [
            {"role": "user", "content": task},
            {"role": "assistant", "content": output},
        ]
        meta = {
            "job_id": job_id,
            "task": task,
            "turns": turns,
            "tools_used": [],
            "success": error is None,
            "output_preview": output[:500],
            "ts": time.time(),
        }
        run = ChildRun(self._track.namespace, name, job_id, meta, json.dumps(list(talk)))
        self._track.write(self._event("subagent_result", fields), more=Unit(run=run))
        del self._children[job_id]

    def event(self, event_type: str, data: Mapping[str, object]) -> int:
        """Records any other event of the turn, and returns its id."""
        self._check_open()
        (stored,) = self._track.write(self._event(event_type, data))
        return stored.event_id

    def _event(self, event_type: str, data: Mapping[str, object]) -> NewEvent:
        return self._stamps.event(event_type, data)

    def _check_open(self) -> None:
        if not self.is_open:
            raise ValueError("the turn is not open: use it in a `with`")

    def _answer(self) -> Round:
        self._check_open()
        if self._round is None:
            (start,) = self._track.write(self._event("assistant_round_start", {}))
            # A round is told whole only when both of its events state their path or neither does.
            stamps = replace(self._stamps, may_omit_path=not start.states_path)
            self._round = Round(start.event_id, stamps)
        return self._round

    def _end_of_round(self) -> list[NewEvent]:
        answer = self._round
        if answer is None:
            return []
        fields = {"message": answer.message(), "round_start_event_id": answer.start_event_id}
        return [answer.stamps.event("assistant_message", fields)]

    def _interruption(self, error: BaseException) -> list[NewEvent]:
        events = self._end_of_round() if self._calls else []
        for call_id, name in self._calls.items():
            fields = {"name": name, "call_id": call_id, "output": INTERRUPTED, "exit_code": 1}
            fields |= {"error": INTERRUPTED, **_outcome("interrupted", interrupted=True)}
            events.append(self._event("tool_result", fields))
        for job_id, (name, _) in self._children.items():
            fields = {"name": name, "job_id": job_id, "output": INTERRUPTED, "success": False}
            fields |= {"error": INTERRUPTED, **_outcome("interrupted", interrupted=True)}
            events.append(self._event("subagent_result", fields))
        fields = {"error_type": type(error).__name__, "error": str(error), "interrupted": True}
        events.append(self._event("processing_error", fields))
        return events

    def _total(self) -> int:
        return self._used["prompt_tokens"] + self._used["completion_tokens"]

    def _rollup(self) -> dict[str, dict[str, object]]:
        rollup = {
            "agent": self._track.namespace,
            "turn_index": self.turn_index,
            "started_at": self._began,
            "ended_at": time.time(),
            "tokens_in": self._used["prompt_tokens"],
            "tokens_out": self._used["completion_tokens"],
            "tokens_cached": self._used["cached_tokens"],
            "cost_usd": None,
        }
        return {f"{self._track.namespace}:turn:{self.turn_index:06d}": rollup}


def _outcome(final_state: str, *, interrupted: bool) -> dict[str, object]:
    return {"interrupted": interrupted, "cancelled": False, "final_state": final_state}

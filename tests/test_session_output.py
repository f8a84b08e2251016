"""The recorder of a runtime, judged by the rows that it leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionOutput, SessionStore
from support.independent import rows

if TYPE_CHECKING:
    from pathlib import Path

AGENT = "main"
SYSTEM: dict[str, object] = {"role": "system", "content": "be kind"}


class Conversation:
    """Messages as a runtime's controller holds them."""

    def __init__(self) -> None:
        self.messages: list[dict[str, object]] = [SYSTEM]

    def snapshot_messages(self) -> list[dict[str, object]]:
        return list(self.messages)


class Agent:
    """An agent as far as its recorder looks at it."""

    def __init__(self) -> None:
        self._turn_index = 1
        self._branch_id = 1
        self._parent_branch_path: list[tuple[int, int]] = []
        self.controller = SimpleNamespace(conversation=Conversation())
        pad = {"goal": "find it"}
        self.session = SimpleNamespace(scratchpad=SimpleNamespace(to_dict=lambda: pad))
        self.compact_manager = SimpleNamespace(_compact_count=2, _last_compact_time=5.0)

    def go_to(self, turn: int, branch: int, parents: list[tuple[int, int]]) -> None:
        self._turn_index, self._branch_id = turn, branch
        self._parent_branch_path = parents


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.kohakutr"


def emitted(kind: str, content: str = "", **payload: object) -> SimpleNamespace:
    return SimpleNamespace(
        type=kind, content=content, payload=payload, id="ui_1", interactive=True, surface="chat"
    )


def events(path: Path) -> list[dict[str, object]]:
    return [event for event in rows(path, "events").values() if isinstance(event, dict)]


def test_streamed_text_is_one_event_at_the_next_thing_that_is_not_text(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, Agent())

        async def speak() -> None:
            await output.on_processing_start(request_id="r1")
            await output.write_stream("I will ")
            await output.write("look.")
            output.on_activity_with_metadata(
                "tool_start",
                "[bash[ab12cd]] ls",
                {"job_id": "bash_ab12cd34", "args": {"command": "ls"}, "tool_call_id": "call_1"},
            )

        asyncio.run(speak())

    found = events(path)
    assert [event["type"] for event in found] == ["processing_start", "text_chunk", "tool_call"]
    assert found[0]["request_id"] == "r1"
    assert (found[1]["content"], found[1]["chunk_seq"]) == ("I will look.", 0)
    assert (found[2]["name"], found[2]["call_id"]) == ("bash", "bash_ab12cd34")


def test_the_end_of_a_turn_agrees_with_the_controller(path: Path) -> None:
    agent = Agent()
    agent.go_to(2, 3, [(1, 1)])
    agent.controller.conversation.messages.append({"role": "user", "content": "hello"})
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, agent)

        async def end() -> None:
            await output.write("The answer")
            await output.on_processing_end()

        asyncio.run(end())

    found, state = events(path), rows(path, "state")
    assert [event["type"] for event in found] == ["text_chunk", "processing_end"]
    assert rows(path, "conversation")[AGENT] == [SYSTEM, {"role": "user", "content": "hello"}]
    assert state[f"{AGENT}:snapshot_event_id"] == found[-1]["event_id"]
    assert state[f"{AGENT}:snapshot_branch"] == {
        "turn_index": 2,
        "branch_id": 3,
        "context_cutoff_event_id": 0,
        "parent_branch_path": [[1, 1]],
    }
    assert state[f"{AGENT}:scratchpad"] == {"goal": "find it"}
    assert state[f"{AGENT}:compact_count"] == 2


def test_a_round_is_its_start_and_the_whole_message(path: Path) -> None:
    message = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, Agent())

        async def speak() -> None:
            for event in (
                emitted("assistant_round_start"),
                emitted("text", "yes"),
                emitted("assistant_message", message=message),
                emitted("user_input", "not mine"),
            ):
                await output.emit(event)

        asyncio.run(speak())

    start, chunk, end = events(path)
    assert (start["type"], chunk["content"]) == ("assistant_round_start", "yes")
    assert (end["message"], end["round_start_event_id"]) == (message, start["event_id"])


def test_both_ends_of_a_round_on_an_older_branch_state_the_path(path: Path) -> None:
    agent = Agent()
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, agent)
        for place in ((1, 1, []), (1, 2, []), (2, 1, [(1, 1)])):
            agent.go_to(*place)
            asyncio.run(output.emit(emitted("assistant_round_start")))
            asyncio.run(output.emit(emitted("assistant_message", message={"role": "assistant"})))

    paths = [event.get("parent_branch_path") for event in events(path)]
    assert paths == [None, None, None, None, [[1, 1]], [[1, 1]]]


def test_a_subagent_without_a_record_of_its_own_gets_one(path: Path) -> None:
    job = {"job_id": "agent_explorer_1"}
    with SessionStore(path) as store:
        store.save_subagent(AGENT, "kept", 0, {"job_id": "job_kept"}, "[]")
        output = SessionOutput(AGENT, store, Agent())
        output.on_activity_with_metadata("subagent_start", "[agent] look", {**job, "model": "m"})
        output.on_activity_with_metadata(
            "subagent_error", "[agent] stopped", {**job, "interrupted": True, "tokens_in": 7}
        )
        output.on_activity_with_metadata("subagent_done", "[kept] ok", {"job_id": "job_kept"})

    runs = rows(path, "subagents")
    call, result, _ = events(path)
    meta = runs[f"{AGENT}:explorer:0:meta"]
    assert isinstance(meta, dict)
    assert (call["type"], call["name"], call["task"]) == ("subagent_call", "explorer", "look")
    assert (result["interrupted"], result["prompt_tokens"], result["model"]) == (True, 7, "m")
    assert (meta["success"], meta["task"], meta["source"]) == (False, "look", "session_output")
    assert [key for key in runs if key.endswith(":meta")] == [
        f"{AGENT}:explorer:0:meta",
        f"{AGENT}:kept:0:meta",
    ]


def test_token_counts_go_on_from_the_stored_ones(path: Path) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 1, "total_tokens": 15}
    for _ in range(2):
        with SessionStore(path) as store:
            output = SessionOutput(AGENT, store, None, event_key_prefix="host:attached:r:0")
            output.on_activity_with_metadata("token_usage", "", used)
            output.on_activity_with_metadata("turn_token_usage", "", {"turn_index": 1, **used})

    rollup = rows(path, "turn_rollup")["host:attached:r:0:turn:000001"]
    assert isinstance(rollup, dict)
    assert (rollup["tokens_in"], rollup["tokens_out"], rollup["cost_usd"]) == (10, 5, None)
    assert rows(path, "state")["host:attached:r:0:token_usage"] == {
        "total_input_tokens": 20,
        "total_output_tokens": 10,
        "total_cached_tokens": 2,
        "last_prompt_tokens": 10,
    }


def test_without_activity_only_the_conversation_is_recorded(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, None, capture_activity=False)
        output.on_activity("tool_start", "[bash] ls")
        output.on_supersede("ui_1")
        output.on_assistant_image("artifacts/a.png", source_type="tool")
        asyncio.run(output.emit(emitted("confirm")))

    (image,) = events(path)
    assert (image["type"], image["url"], image["source_type"]) == (
        "assistant_image",
        "artifacts/a.png",
        "tool",
    )


def test_an_unknown_report_is_kept_under_its_kind(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, None)
        output.on_activity_with_metadata("job_cancelled", "[bash] by user", {"pair": (1, 2)})

    (event,) = events(path)
    assert (event["type"], event["name"], event["detail"], event["pair"]) == (
        "activity:job_cancelled",
        "bash",
        "by user",
        [1, 2],
    )


def test_long_text_is_on_disk_before_it_is_an_event(path: Path) -> None:
    with SessionStore(path) as store:
        output = SessionOutput(AGENT, store, Agent())
        asyncio.run(output.write("x" * 600))
        mirrored = store.state[f"{AGENT}:open_text"]
        output.flush_sync()
        after = store.state[f"{AGENT}:open_text"]

    assert (mirrored, after) == ("x" * 600, "")
    assert [event["content"] for event in events(path)] == ["x" * 600]


def test_what_was_left_open_is_recorded_where_it_belongs(path: Path) -> None:
    agent = Agent()
    with SessionStore(path) as store:
        store.append_event(AGENT, "user_message", {"content": "q"}, turn_index=4, branch_id=2)
        store.append_event(AGENT, "plugin_note", {})
        store.state[f"{AGENT}:open_text"] = "half an ans"

        SessionOutput(AGENT, store, agent)
        SessionOutput(AGENT, store, agent)

    found = events(path)
    assert len(found) == 3
    assert {key: found[2][key] for key in ("content", "finalize", "turn_index", "branch_id")} == {
        "content": "half an ans",
        "finalize": "recovered",
        "turn_index": 4,
        "branch_id": 2,
    }
    assert rows(path, "state")[f"{AGENT}:open_text"] == ""

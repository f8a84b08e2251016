"""The real peer and we write one session in turns, and neither loses or hides anything."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from amberlog import SessionLockedError, SessionStore
from support.children import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "turns.py"
ROUNDS = 50
AGENTS = ("alice", "alice:explorer")
Seen = dict[str, object]


class TakeTurn(Protocol):
    def __call__(self, path: Path, number: int, *texts: str) -> Seen:
        """Has the peer take one turn; returns what it saw before it added to it."""


@contextmanager
def peer() -> Iterator[TakeTurn]:
    """Yields a call that has the peer take one turn."""
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as child:
        assert child.stdin
        assert child.stdout
        orders, answers = child.stdin, child.stdout

        def take_turn(path: Path, number: int, *texts: str) -> Seen:
            order = {"path": str(path), "round": number, "texts": texts}
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            answer = answers.readline()
            assert answer, "the peer ended"
            return cast("Seen", json.loads(answer))

        yield take_turn
        orders.close()


@dataclass
class Model:
    """What the session must hold, told by what each side has appended."""

    logs: dict[str, list[str]] = field(default_factory=lambda: {agent: [] for agent in AGENTS})
    messages: list[str] = field(default_factory=list)
    conversation: list[dict[str, object]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def peer_took(self, number: int) -> None:
        for agent in AGENTS:
            self.logs[agent] += [f"peer wrote part {part} in round{number}" for part in range(2)]
        self.messages.append(f"peer{number}")
        self.conversation.append({"role": "assistant", "content": f"p{number}"})

    def keys_of(self, text: str) -> list[str]:
        return sorted(
            f"{agent}:e{at:06d}"
            for agent, log in self.logs.items()
            for at, content in enumerate(log)
            if text in content
        )


def append_ours(store: SessionStore, number: int, model: Model) -> None:
    """Takes our turn: events one by one and in a batch, a message, a snapshot, state."""
    for agent in AGENTS:
        said = f"amber wrote first in round{number}"
        more = [f"amber wrote {word} in round{number}" for word in ("second", "third")]
        store.append_event(agent, "user_input", {"content": said}, turn_index=number, branch_id=1)
        store.append_events(
            agent,
            [("text_chunk", {"content": text}) for text in more],
            turn_index=number,
            branch_id=1,
        )
        model.logs[agent] += [said, *more]
    store.save_channel_message("tasks", {"sender": "amber", "content": f"amber{number}"})
    model.messages.append(f"amber{number}")
    model.conversation.append({"role": "user", "content": f"a{number}"})
    if number % 3:
        branch = {"turn_index": number, "branch_id": 1, "parent_branch_path": []}
        store.save_branch_snapshot(
            "alice", model.conversation, branch=branch, watermark=store.max_event_id()
        )
    else:
        store.save_conversation("alice", model.conversation)
    store.save_state("alice", scratchpad={"written by": f"amber{number}"})


def check_ours(store: SessionStore, number: int, model: Model) -> None:
    """Checks that we see all of it, in order, and find it."""
    for agent in AGENTS:
        assert [event["content"] for event in store.get_events(agent)] == model.logs[agent]
    everything = [event for _, event in store.get_all_events()]
    ids = sorted(cast("int", event["event_id"]) for event in everything)
    assert ids == list(range(1, len(ids) + 1))
    assert store.max_event_id() == len(ids)
    said = [message["content"] for message in store.get_channel_messages("tasks")]
    assert said == model.messages
    assert store.load_conversation("alice") == model.conversation
    assert store.load_scratchpad("alice") == {"written by": f"peer{number}"}
    for text in (f"peer wrote part 0 in round{number}", f"amber wrote third in round{number}"):
        hits = [str(hit["meta"]["event_key"]) for hit in store.search(f'"{text}"', k=1_000)]
        assert sorted(hits) == model.keys_of(text)


def check_peers(seen: Seen, number: int, model: Model) -> None:
    """Checks that the peer saw all of it before it added its own."""
    events = cast("dict[str, dict[str, object]]", seen["events"])
    for agent in AGENTS:
        log = [events[f"{agent}:e{at:06d}"]["content"] for at in range(len(model.logs[agent]))]
        assert log == model.logs[agent]
    assert len(events) == sum(map(len, model.logs.values()))
    messages = cast("list[dict[str, object]]", seen["messages"])
    assert [message["content"] for message in messages] == model.messages
    assert seen["conversation"] == model.conversation
    assert seen["scratchpad"] == {"written by": f"amber{number}"}
    found = cast("dict[str, list[str]]", seen["found"])
    assert found == {text: model.keys_of(text) for text in found}
    assert all(found.values())


@pytest.mark.parametrize("kept_open", [False, True], ids=["closed between", "kept open"])
def test_fifty_rounds_in_turn_with_the_peer_lose_nothing(
    kept_open: bool,  # noqa: FBT001  # a parameter of the test
    path: Path,
) -> None:
    model = Model()

    with peer() as take_turn, ExitStack() as handles:
        store = handles.enter_context(SessionStore(path)) if kept_open else None
        for number in range(1, ROUNDS + 1):
            with ExitStack() as turn:
                ours = store or turn.enter_context(SessionStore(path))
                append_ours(ours, number, model)
                ours.flush()
            texts = [f"amber wrote second in round{number}"]
            texts += [f"peer wrote part 1 in round{number - 1}"] if number > 1 else []
            seen = take_turn(path, number, *texts)
            check_peers(seen, number, model)
            model.peer_took(number)
            with ExitStack() as turn:
                ours = store or turn.enter_context(SessionStore(path))
                check_ours(ours, number, model)
                report = ours.verify()
            assert report.ok, report.problems


def test_our_branch_snapshots_are_found_by_the_peer_and_the_peers_by_us(path: Path) -> None:
    said: list[dict[str, object]] = [{"role": "user", "content": "hello"}]
    branch = {"turn_index": 1, "branch_id": 1, "parent_branch_path": []}

    with peer() as take_turn:
        with SessionStore(path) as store:
            store.append_event("alice", "user_message", {"content": "hello"}, turn_index=1)
            store.save_branch_snapshot("alice", said, branch=branch, watermark=1)
        seen = take_turn(path, 2)
        take_turn(path, 3)
        with SessionStore(path) as store:
            found = store.load_branch_snapshot("alice", {3: 1})

    ours = cast("dict[str, object]", seen["branch"])
    assert (ours["messages"], ours["watermark"]) == (said, 1)
    assert found is not None
    assert found["path"] == [[3, 1]]
    assert found["messages"] == [
        *said,
        *({"role": "assistant", "content": f"p{n}"} for n in (2, 3)),
    ]


def test_a_writer_lock_keeps_the_peer_out_and_the_peers_keeps_us_out(path: Path) -> None:
    code = (
        "import sys\n"
        "from kohakuterrarium.session.store import SessionStore\n"
        "store = SessionStore(sys.argv[1], writer_lock=True)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
        "store.close()\n"
    )
    start = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE

    with SessionStore(path):
        refused = subprocess.run(
            start, env=environment(), capture_output=True, text=True, timeout=60, check=False
        )
    with subprocess.Popen(start, env=environment(), text=True, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout
        held = holder.stdout.readline()
        with pytest.raises(SessionLockedError) as raised:
            SessionStore(path)
        pid = holder.pid
        holder.communicate()

    assert "SessionLockedError" in refused.stderr
    assert held == "held\n"
    assert raised.value.holder_pid == pid


def test_what_a_killed_peer_left_behind_misleads_neither_search(path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from kohakuterrarium.session.store import SessionStore\n"
        "store = SessionStore(sys.argv[1])\n"
        "for number in range(7):\n"
        "    said = {'content': f'vanishing words number{number}'}\n"
        "    store.append_event('alice', 'text_chunk', said)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment(), check=False)
    with SessionStore(path) as store:
        survivors = [str(event["content"]) for event in store.get_events("alice")]
        appended = [
            store.append_event("alice", "user_input", {"content": f"something else {number}"})
            for number in range(5)
        ]
        found = sorted(str(hit["meta"]["event_key"]) for hit in store.search("vanishing", k=99))

    with peer() as take_turn:
        seen = take_turn(path, 1, "vanishing", "something else")

    kept = [f"alice:e{number:06d}" for number in range(len(survivors))]
    assert len(survivors) < 7
    assert survivors == [f"vanishing words number{number}" for number in range(len(survivors))]
    assert [key for key, _ in appended] == [f"alice:e{len(kept) + n:06d}" for n in range(5)]
    assert [event_id for _, event_id in appended] == [8, 9, 10, 11, 12]
    assert found == kept
    assert seen["found"] == {"vanishing": kept, "something else": [key for key, _ in appended]}

"""Recording the turns of an agent that is plain code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amberlog._track import Stamps, Track
from amberlog.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amberlog.session import SessionStore


class Recorder:
    """Records what one agent does, a turn at a time, and gives back the conversation.

    ```python
    recorder = Recorder(store, "main")
    with recorder.turn("list the files") as turn:
        turn.text("I will look.")
        call = turn.tool_call("bash", {"command": "ls"})
        turn.tool_result(call, "README.md")
        turn.text("There is one file.")
    ```

    Making one goes on where the agent's last recorded turn was; text that a killed process left
    open is recorded then. Its cost does not grow with the session.

    Args:
        store: The session.
        agent: The agent's name.

    Attributes:
        scratchpad: What the agent remembers; stored at the end of each turn.
    """

    def __init__(self, store: SessionStore, agent: str) -> None:
        self._store = store
        self._agent = agent
        self._track = Track(store, agent)
        self._turn: Turn | None = None
        self.scratchpad: dict[str, object] = store.load_scratchpad(agent)
        place = store.position(agent)
        self._lineage: tuple[tuple[int, int], ...] = ()
        if place is not None:
            last = (place.turn_index, place.branch_id or 1)
            self._lineage = (*place.parent_branch_path, last)

    @property
    def lineage(self) -> tuple[tuple[int, int], ...]:
        """Turn and branch of every turn of the conversation as it goes on."""
        return self._lineage

    def turn(self, content: str | Sequence[Mapping[str, object]]) -> Turn:
        """Returns the next turn, to be used in a `with`.

        Args:
            content: The user's words, or the parts of a message.

        Raises:
            ValueError: The turn before is still open.
        """
        number = self._lineage[-1][0] + 1 if self._lineage else 1
        return self._begin(number, content)

    def edit(self, turn_index: int, content: str | Sequence[Mapping[str, object]]) -> Turn:
        """Returns a new branch of a turn, with another request; the turns after it are left.

        What was recorded stays, and the branches before can be shown again.

        Raises:
            ValueError: The conversation has no such turn, or a turn is still open.
        """
        if all(turn != turn_index for turn, _ in self._lineage):
            raise ValueError(f"turn_index: the conversation has no turn {turn_index}")
        return self._begin(turn_index, content)

    def regenerate(self, turn_index: int | None = None) -> Turn:
        """Returns a new branch of a turn, the last one by default, with the same request.

        Raises:
            ValueError: The conversation has no such turn, or a turn is still open.
        """
        wanted = self._lineage[-1][0] if turn_index is None and self._lineage else turn_index or 0
        branch = dict(self._lineage).get(wanted)
        asked = self._store.iter_events(self._agent, types=["user_message"], reverse=True)
        for event in asked:
            if (event.get("turn_index"), event.get("branch_id")) == (wanted, branch):
                content = event.get("content")
                return self.edit(wanted, content if isinstance(content, str | list) else "")
        raise ValueError(f"turn_index: the conversation has no turn {wanted}")

    def compact(
        self,
        summary: str,
        *,
        from_event_id: int | None = None,
        to_event_id: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> bool:
        """Lets a summary stand in for older events, as `append_compaction_checkpoint` does."""
        self._track.write()
        return self._store.append_compaction_checkpoint(
            self._agent,
            summary,
            from_event_id=from_event_id,
            to_event_id=to_event_id,
            metadata=metadata,
        )

    def history(self, max_messages: int | None = None) -> list[dict[str, object]]:
        """Returns the messages that a model is sent next, as `get_working_history` does."""
        self._track.write()
        return self._store.get_working_history(self._agent, max_messages)

    def _begin(self, number: int, content: str | Sequence[Mapping[str, object]]) -> Turn:
        if self._turn is not None and self._turn.is_open:
            raise ValueError("the turn before is still open")
        path = tuple(pair for pair in self._lineage if pair[0] < number)
        branch = self._store.max_branch_id(self._agent, number) + 1
        self._lineage = (*path, (number, branch))
        self._turn = Turn(self._track, Stamps(number, branch, path), content, self.scratchpad)
        return self._turn

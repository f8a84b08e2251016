"""One answer of a model while it is recorded: its text, its thoughts, its calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from amberlog._track import Stamps


@dataclass(slots=True)
class Round:
    """What a model said so far in one answer.

    Attributes:
        start_event_id: The event that began it.
        stamps: Where its end belongs.
        pieces: Its text.
        thoughts: Its reasoning.
        calls: Its calls of tools, as a chat message has them.
    """

    start_event_id: int
    stamps: Stamps
    pieces: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, object]] = field(default_factory=list)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        """Adds a call."""
        function = {"name": name, "arguments": arguments}
        self.calls.append({"id": call_id, "type": "function", "function": function})

    def message(self) -> dict[str, object]:
        """Returns the whole answer as a chat message."""
        message: dict[str, object] = {"role": "assistant", "content": "".join(self.pieces)}
        if self.calls:
            message["tool_calls"] = self.calls
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        return message


def arguments_text(args: object) -> str:
    """Returns the arguments of a call as the JSON text that a chat message has."""
    return json.dumps(args, ensure_ascii=False, default=str)

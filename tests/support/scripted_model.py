"""A model on this machine that says what it is told to, by the protocol of OpenAI's completions."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, object]


class ScriptedModel(ThreadingHTTPServer):
    """Answers each request with the next message of a script, and notes what it was sent.

    Attributes:
        asked: The messages of each request, oldest first.
    """

    def __init__(self, script: list[Message]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[list[Message]] = []
        self._script = iter(script)

    @property
    def url(self) -> str:
        """Where the model is."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        """Returns the completion of a request."""
        self.asked.append(cast("list[Message]", request["messages"]))
        message = next(self._script)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": "scripted",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # the base's name
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        body = json.dumps(cast("ScriptedModel", self.server).answer(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base's name
        """Says nothing."""


@contextmanager
def scripted_model(*script: Message) -> Iterator[ScriptedModel]:
    """Runs a model for the length of a block."""
    model = ScriptedModel(list(script))
    thread = threading.Thread(target=model.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        thread.join()
        model.server_close()


__all__ = ["Message", "ScriptedModel", "scripted_model"]

"""An embedding endpoint on this machine that answers what a test wrote down for it."""

from __future__ import annotations

import json
from collections.abc import Mapping  # the hints of a dataclass are read at run time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Reply:
    """One answer: a status, a body (None: vectors for what was asked), and headers."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False


@dataclass
class Endpoint:
    """What was asked, and what is still to be answered; after that, vectors."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    released: Event = field(default_factory=Event)

    def inputs(self) -> list[list[str]]:
        return [body["input"] for body in self.bodies]  # type: ignore[misc]  # lists of texts

    def next_reply(self) -> Reply:
        return self.replies.pop(0) if self.replies else Reply()


def vector_of(text: str) -> list[float]:
    """Returns what the endpoint makes of a text: its length, and the code of its first letter."""
    return [float(len(text)), float(ord(text[0])), 1.0]


def vectors_for(texts: list[str]) -> dict[str, object]:
    # Backwards: the order of an answer is that of its `index`.
    entries = [{"index": at, "embedding": vector_of(text)} for at, text in enumerate(texts)]
    return {"object": "list", "data": entries[::-1]}


@contextmanager
def serving(*replies: Reply) -> Iterator[Endpoint]:
    """Runs an endpoint that first gives these replies."""
    endpoint = Endpoint(replies=list(replies))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(endpoint))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            endpoint.bodies.append(asked)
            endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
            endpoint.paths.append(self.path)
            reply = endpoint.next_reply()
            if reply.hangs:
                endpoint.released.wait()
                self.close_connection = True
                return
            body = vectors_for(asked["input"]) if reply.body is None else reply.body
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(reply.status)
            for name, value in {**reply.headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name
            """Says nothing: a test's output is its own."""

    return Handler

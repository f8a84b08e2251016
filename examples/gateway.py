"""A chat bot over HTTP that remembers thousands of conversations, and outlives its process.

    python examples/gateway.py --dir chats --port 8700
    curl -s localhost:8700/conversations/telegram:42/messages -H 'Content-Type: application/json' \
        -d '{"text": "Remember that I like tea."}'
    curl -s localhost:8700/conversations/telegram:42/messages -H 'Content-Type: application/json' \
        -d '{"text": "What did we say about tea?"}'
    curl -s 'localhost:8700/search?q=tea'

A conversation has an id outside (`telegram:42`) that leads to its session. Whoever gets an answer
may be sure that both the words and the answer are on disk. Kill it whenever you like.

`--home json` keeps each conversation in a file of its own; else all are rows of one database. The
model is the one that `examples/agent.py` uses: an OpenAI-compatible endpoint where the environment
names one, else a script. `GATEWAY_TOKEN`, where it is set, is the bearer token of every request.

Needs `amberlog[server]`.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import socket
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import uvicorn
from fastapi import Body, Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse

from agent import Endpoint, Message, Model, ModelError, Reply
from amberlog.chat import DefaultSessionStore, SqliteSessionStore, SqliteTranscriptStore
from amberlog.errors import SessionBusyError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOT = "gateway"
MOST_MESSAGES = 40
"""A conversation longer than this goes on from a summary."""
MOST_FOUND = 5
"""How many places the bot quotes."""
MOST_CHARACTERS = 16_000
"""The longest message that is taken."""
LOCKS = 64

_RECALL = re.compile(r"what did we say about\s+(?P<words>.+?)\s*\?*", re.IGNORECASE)
_SUMMARISE: Message = {"role": "system", "content": "Summarise the conversation so far."}


@dataclass(frozen=True, slots=True)
class Script:
    """Stands in for a model; what it answers depends on the conversation alone."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the next message by the one before it."""
        last = messages[-1]
        if last["role"] == "system":
            said = [str(one["content"]) for one in messages if one["role"] == "user"]
            return Reply(f"Earlier there were {len(said)} requests, the last of them: {said[-1]}")
        return Reply(f"I have noted: {last['content']}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a message led to.

    Attributes:
        session_id: The session of the conversation.
        text: The answer.
    """

    session_id: str
    text: str


@dataclass(slots=True)
class Gateway:
    """Conversations by their ids outside.

    Attributes:
        store: Where they are kept.
        model: What answers.
    """

    store: DefaultSessionStore
    model: Model
    _locks: list[threading.Lock] = field(
        default_factory=lambda: [threading.Lock() for _ in range(LOCKS)]
    )

    def take(self, outside: str, text: str) -> Answer:
        """Takes a message and returns the answer; both are on disk then.

        Raises:
            ModelError: There is no answer. The message is kept.
            SessionError: It cannot be kept.
        """
        # One turn of a conversation after the other; those of others go on meanwhile.
        with self._locks[hash(outside) % LOCKS]:
            session_id = self._session(outside)
            self.store.add_user_message(session_id, text)
            answer = self._recalled(session_id, text) or self._asked(session_id)
            self.store.add_assistant_message(session_id, answer)
            self._compact_if_long(session_id)
            return Answer(session_id, answer)

    def history(self, outside: str) -> list[Message]:
        """Returns what was said in a conversation, oldest first.

        Raises:
            LookupError: There is no such conversation.
        """
        session = self.store.get_by_gateway_session(outside)
        if session is None:
            raise LookupError(f"there is no conversation {outside!r}")
        said = [*session.archived_messages, *session.messages]
        return [{"role": one.role, "content": one.content} for one in said]

    def search(self, words: str, limit: int) -> list[Message]:
        """Returns the conversations that best hold the words, whoever's they are."""
        return [hit.as_dict() for hit in self.store.search(words, limit=limit)]

    def _session(self, outside: str) -> str:
        known = self.store.get_by_gateway_session(outside)
        if known is not None:
            return known.session_id
        made = f"{BOT}-{uuid4().hex}"
        # Makes the session and its route in one write: killed after it, there is none without the
        # other.
        self.store.set_gateway_info(made, outside, BOT)
        return made

    def _asked(self, session_id: str) -> str:
        return self.model.reply(self.store.get_working_history(session_id)).text

    def _recalled(self, session_id: str, text: str) -> str | None:
        """Answers what was said about something, from the caller's own conversation alone."""
        asked = _RECALL.fullmatch(text.strip())
        if asked is None:
            return None
        words = asked["words"].lower()
        session = self.store.get_session(session_id)
        # The last message is the question.
        said = [*session.archived_messages, *session.messages][:-1]
        found = [
            f"{one.role}: {one.content}"
            for one in said
            if words in str(one.content).lower() and not _RECALL.fullmatch(str(one.content).strip())
        ]
        if not found:
            return f"Nothing about {asked['words']}."
        return "\n".join(found[-MOST_FOUND:])

    def _compact_if_long(self, session_id: str) -> None:
        history = self.store.get_working_history(session_id)
        if len(history) > MOST_MESSAGES:
            summary = self.model.reply([*history, _SUMMARISE]).text
            self.store.append_compaction_checkpoint(session_id, summary)


def create_app(gateway: Gateway, token: str | None = None) -> FastAPI:
    """Returns the application over a gateway.

    Args:
        gateway: The conversations.
        token: The bearer token that every request must carry; None asks for none.
    """
    guards = [] if token is None else [Depends(_guard(token))]
    app = FastAPI(title="gateway", dependencies=guards)
    app.add_exception_handler(SessionError, _refused)
    app.add_exception_handler(ModelError, _refused)
    app.add_exception_handler(LookupError, _refused)

    @app.post("/conversations/{outside:path}/messages")
    def message(
        outside: str,
        text: Annotated[str, Body(embed=True, min_length=1, max_length=MOST_CHARACTERS)],
    ) -> dict[str, str]:
        """Takes a message and returns the answer."""
        answer = gateway.take(outside, text)
        return {"session_id": answer.session_id, "reply": answer.text}

    @app.get("/conversations/{outside:path}")
    def conversation(outside: str) -> dict[str, object]:
        """Returns what was said in a conversation."""
        return {"outside": outside, "messages": gateway.history(outside)}

    @app.get("/conversations")
    def conversations(
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    ) -> dict[str, object]:
        """Returns the conversations, those last spoken in first."""
        return {"conversations": gateway.store.list_sessions(limit)}

    @app.get("/search")
    def search(
        q: Annotated[str, Query(min_length=1)], limit: Annotated[int, Query(ge=1, le=100)] = 5
    ) -> dict[str, object]:
        """Returns the conversations that best hold the words."""
        return {"hits": gateway.search(q, limit)}

    return app


def _guard(token: str) -> Callable[[str], None]:
    def check(authorization: Annotated[str, Header()] = "") -> None:
        if not secrets.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, "a bearer token is needed")

    return check


async def _refused(request: Request, error: Exception) -> JSONResponse:
    del request
    status = 503 if isinstance(error, SessionBusyError) else 500
    if isinstance(error, LookupError):
        status = 404
    if isinstance(error, ModelError):
        status = 502
    return JSONResponse({"detail": str(error)}, status_code=status)


def opened(home: str, directory: Path) -> DefaultSessionStore:
    """Returns the store of a home; no window: a summary is the model's, not a count."""
    if home == "json":
        return SqliteSessionStore(str(directory), retention="keep_all")
    return SqliteTranscriptStore(str(directory), retention="keep_all")


def model_of_environment() -> Model:
    """Returns the model that the environment names, or the script."""
    url = os.environ.get("OPENAI_BASE_URL")
    if not url:
        return Script()
    key, model = os.environ.get("OPENAI_API_KEY", ""), os.environ.get("AGENT_MODEL", "gpt-4o-mini")
    return Endpoint(url, key, model)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until it is interrupted, and returns the exit code."""
    parser = argparse.ArgumentParser(description="A chat bot with durable conversations.")
    parser.add_argument("--dir", type=Path, default=Path("chats"), help="where they are kept")
    parser.add_argument("--home", choices=["transcript", "json"], default="transcript")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8700, help="0 for any that is free")
    options = parser.parse_args(arguments)
    token = os.environ.get("GATEWAY_TOKEN") or None
    if token is None and options.host not in {"127.0.0.1", "localhost", "::1"}:
        print("gateway: GATEWAY_TOKEN is needed to serve others", file=sys.stderr)
        return 2
    try:
        gateway = Gateway(opened(options.home, options.dir), model_of_environment())
        listener = socket.create_server((options.host, options.port))
    except (SessionError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    with listener:
        print(f"listening on http://{options.host}:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(create_app(gateway, token), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())

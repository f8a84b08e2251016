"""Which file a session argument means, and what was said last in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import config
from amberlog._versions import session_in_name
from amberlog.cli.terminal import text_of
from amberlog.errors import SessionNotFoundError

if TYPE_CHECKING:
    from amberlog.session import SessionStore

_SPEAKERS = {"user_message": "user", "text_chunk": "assistant", "text": "assistant"}


def session_file(argument: str) -> Path:
    """Returns the file that an argument means: a path, or a session's exact name.

    What exists as a path, or has a separator in it, is a path. A name is looked up in the
    session directory, where the highest version of a session stands for all of them.

    Raises:
        SessionNotFoundError: There is no session of that name.
    """
    path = Path(argument).expanduser()
    if argument and (path.exists() or path.name != argument or os.sep in argument):
        return path
    directory = config.session_dir()
    candidates = [
        (found[1], file.name, file)
        for file in (directory.iterdir() if directory.is_dir() else ())
        if (found := session_in_name(file.name)) and found[0] == argument
    ]
    if candidates:
        return max(candidates)[-1]
    if argument and (directory / argument).exists():
        return directory / argument
    raise SessionNotFoundError(
        f"there is no session named `{argument}` in `{directory}`", path=str(directory)
    )


def last_said(store: SessionStore, agent: str, count: int) -> list[tuple[str, str]]:
    """Returns role and text of an agent's last messages.

    They are those of its newest snapshot, and what its events hold beyond the snapshot's
    watermark: that is what a session that was killed in the middle of a turn has left.
    """
    if count == 0:
        return []
    messages = store.load_conversation(agent)
    said = [(str(m.get("role")), text_of(m.get("content"))) for m in (messages or [])[-count:]]
    watermark = store.state.get(f"{agent}:snapshot_event_id")
    if messages is not None and not isinstance(watermark, int):
        return said
    newer = store.iter_events(
        agent,
        since=watermark if isinstance(watermark, int) and messages is not None else None,
        types=_SPEAKERS,
        limit=count,
        reverse=True,
    )
    said.extend(
        (_SPEAKERS[str(event["type"])], text_of(event.get("content")))
        for event in reversed(list(newer))
    )
    return said[-count:]

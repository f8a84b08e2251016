"""Replaying what the peer answered on its own directories, for tests of the chat stores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

from amberlog.chat import SessionData, SessionHit, SessionSummary

FIXTURES = Path(__file__).parent.parent / "fixtures" / "praison"


def groups() -> list[dict[str, object]]:
    """Returns the peer's answers, by the directory that they were given on."""
    text = (FIXTURES / "expected.json").read_text(encoding="utf-8")
    return cast("list[dict[str, object]]", json.loads(text)["groups"])


def copy_of(fixture: str, place: Path) -> Path:
    """Returns a copy of a directory of the peer."""
    return Path(shutil.copytree(FIXTURES / fixture, place / fixture))


def plain(value: object) -> object:
    """Returns a value as the peer's answers are noted: objects as dicts with their type."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, SessionData):
        return {"__type__": "SessionData", **value.to_dict()}
    if isinstance(value, SessionHit):
        return {"__type__": "SessionHit", **value.as_dict()}
    if isinstance(value, SessionSummary):
        return {"__type__": "SessionSummary", **value.as_dict()}
    return value


__all__ = ["FIXTURES", "copy_of", "groups", "plain"]

"""Sentences to embed: of real dialogues and runs where they are at hand, else made of words."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST, MOST = 12, 250
"""Characters of a sentence."""
WORDS = """
    the a to of and in is it for on with that please can you we should fix run test build deploy
    database migration billing service failed error timeout retry config token session store
    index search query user login page file path branch commit merge review python rust typing
"""


def _directory() -> Path | None:
    named = os.environ.get("AMBERLOG_DATA")
    return Path(named) if named else None


def _contents(directory: Path) -> Iterator[str]:
    for line in (directory / "locomo" / "locomo_dev.jsonl").read_text("utf-8").splitlines():
        yield from (turn["text"] for turn in json.loads(line)["turns"])
    for line in (directory / "tau-bench" / "gpt-4o-airline.jsonl").read_text("utf-8").splitlines():
        for message in json.loads(line)["messages"]:
            yield str(message.get("content") or "")
    for path in sorted((directory / "swe-agent-traj").glob("*.traj")):
        for message in json.loads(path.read_text("utf-8")).get("history", []):
            yield str(message.get("content") or "")


def sentences(count: int) -> list[str]:
    """Returns different texts; where sentences run out, each is joined to ones after it."""
    directory = _directory()
    if directory is None:
        draw = random.Random(7)
        return [f"{' '.join(draw.choices(WORDS.split(), k=12))} {n}" for n in range(count)]
    found: dict[str, None] = {}
    for text in _contents(directory):
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
            if LEAST <= len(sentence.strip()) <= MOST:
                found[sentence.strip()] = None
    single = list(found)
    step = 1
    while len(found) < count:
        for one, other in zip(single, single[step:], strict=False):
            found[f"{one} {other}"] = None
        step += 1
    return list(found)[:count]


def questions(count: int) -> list[str]:
    """Returns what is asked."""
    directory = _directory()
    if directory is None:
        draw = random.Random(11)
        return [" ".join(draw.choices(WORDS.split(), k=6)) for _ in range(count)]
    lines = (directory / "locomo" / "locomo_dev.jsonl").read_text("utf-8").splitlines()
    asked = [qa["question"] for line in lines for qa in json.loads(line)["qa"]]
    return asked[:count]

"""Measures how well sessions are searched, on real dialogues with known answers.

    python tools/recall_quality.py DATA [--json FILE]

DATA holds `locomo/locomo_dev.jsonl` and `tau-bench/gpt-4o-airline.jsonl`; what they are and where
they come from stands in `docs/recall-quality.md`. Each figure of ours goes through the public API,
one store a LoCoMo conversation and one event a turn. Beside it stands SQLite's FTS5 in the same
run, with the tokenizer `porter unicode61` and the words of the query OR-ed, stop words left out. On
LoCoMo stand also the search by meaning and by both, with the built-in embedder.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amberlog import SessionMemory, SessionStore
from amberlog.embedding import StaticEmbedder

if TYPE_CHECKING:
    from amberlog.memory import SearchMode

DEPTHS = (1, 5, 10, 20)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
UNANSWERED = 5
STOP_WORDS = """
a about an and are as at be been but by can could did do does for from had has have he her his how
i if in into is it its me my no not of on or our she so than that the their them then there they
this to was we were what when where which who why will with would you your
"""
STOP = frozenset(STOP_WORDS.split())

Ranked = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the ids that answer it."""

    text: str
    answers: frozenset[str]
    group: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How well one question was answered."""

    group: str
    recall: tuple[float, ...]
    reciprocal: float
    first: bool


def outcome(question: Question, found: Sequence[str]) -> Outcome:
    """Judges the ids that were found, best first."""
    places = {name: place for place, name in reversed(list(enumerate(found)))}
    hits = [places[name] for name in question.answers if name in places]
    recall = tuple(sum(place < depth for place in hits) / len(question.answers) for depth in DEPTHS)
    best = min(hits, default=None)
    return Outcome(question.group, recall, 0.0 if best is None else 1 / (best + 1), best == 0)


class Plain:
    """FTS5 as one would use it without any of ours."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._names: list[str] = []
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")
        for name, text in texts:
            self._names.append(name)
            self._db.execute("INSERT INTO t (rowid, text) VALUES (?, ?)", (len(self._names), text))

    def __call__(self, query: str, k: int) -> list[str]:
        words = [word for word in re.findall(r"\w+", query.lower()) if word not in STOP]
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        if not asked:
            return []
        select = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid LIMIT ?"
        return [self._names[row - 1] for (row,) in self._db.execute(select, (asked, k))]


def locomo(data: Path) -> Iterable[tuple[list[tuple[str, str]], list[Question]]]:
    """Yields each dialogue: its turns by id, and its questions."""
    with (data / "locomo" / "locomo_dev.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            dialogue = json.loads(line)
            turns = []
            for turn in dialogue["turns"]:
                caption = f" [shares {turn['caption']}]" if turn["caption"] else ""
                turns.append((turn["id"], f"{turn['speaker']}: {turn['text']}{caption}"))
            asked = [
                Question(qa["question"], frozenset(qa["evidence"]), CATEGORIES[qa["category"]])
                for qa in dialogue["qa"]
                if qa["category"] != UNANSWERED and qa["evidence"]
            ]
            yield turns, asked


def tau_bench(data: Path) -> tuple[list[tuple[str, list[dict[str, object]]]], list[Question]]:
    """Returns the sessions by id with their messages, and one question for each task."""
    sessions = []
    tasks: dict[int, set[str]] = defaultdict(set)
    asked: dict[int, str] = {}
    with (data / "tau-bench" / "gpt-4o-airline.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            sessions.append((run["session_id"], run["messages"]))
            tasks[run["task_id"]].add(run["session_id"])
            text = re.sub(rf"{re.escape(run['user_id'])}|\w*\d\w*", " ", run["instruction"])
            asked.setdefault(run["task_id"], text)
    questions = [Question(asked[task], frozenset(names), "task") for task, names in tasks.items()]
    return sessions, questions


def event_of(message: dict[str, object]) -> tuple[str, dict[str, object]] | None:
    """The event that a recorder would write of a message of a chat."""
    content = message.get("content")
    match message["role"]:
        case "user":
            return "user_input", {"content": content}
        case "tool":
            return "tool_result", {"name": message.get("name", ""), "output": content}
        case "assistant":
            calls = message.get("tool_calls")
            if isinstance(calls, list) and calls:
                call = calls[0]["function"]
                return "tool_call", {"name": call["name"], "args": json.loads(call["arguments"])}
            return "text_chunk", {"content": content}
    return None


def blocks_of(memory: SessionMemory, names: dict[int, str], mode: SearchMode = "fts") -> Ranked:
    """Answers with the turns whose blocks were found."""

    def rank(query: str, k: int) -> list[str]:
        return [names[hit.event_id] for hit in memory.search(query, mode, k)]

    return rank


def sessions_of(memory: SessionMemory) -> Ranked:
    """Answers with the sessions whose blocks have the highest scores together.

    Each score is divided by its rank within the session: a long one does not win by its length.
    Every session is an agent of one store here.
    """

    def rank(query: str, k: int) -> list[str]:
        scores: dict[str, list[float]] = defaultdict(list)
        for hit in memory.search(query, "fts", 100_000):
            found = scores[hit.agent]
            found.append(hit.score / (len(found) + 1))
        return sorted(scores, key=lambda name: -sum(scores[name]))[:k]

    return rank


def measure_locomo(data: Path, place: Path) -> dict[str, list[Outcome]]:
    """Answers the questions of each dialogue from its own turns."""
    found: dict[str, list[Outcome]] = {"amberlog": [], "meaning": [], "both": [], "FTS5": []}
    for number, (turns, questions) in enumerate(locomo(data)):
        plain = Plain(turns)
        with SessionStore(place / f"{number}.kohakutr") as store:
            events = [("user_input", {"content": text}) for _, text in turns]
            ids = [event_id for _, event_id in store.append_events("dialogue", events)]
            names = {event_id: name for event_id, (name, _) in zip(ids, turns, strict=True)}
            with SessionMemory(store, StaticEmbedder()) as memory:
                memory.index()
                asked: dict[str, Ranked] = {
                    "amberlog": blocks_of(memory, names),
                    "meaning": blocks_of(memory, names, "semantic"),
                    "both": blocks_of(memory, names, "hybrid"),
                    "FTS5": plain,
                }
                for question in questions:
                    for who, rank in asked.items():
                        found[who].append(outcome(question, rank(question.text, max(DEPTHS))))
    return found


def measure_tau(data: Path, place: Path) -> dict[str, list[Outcome]]:
    """Answers what a task was with the sessions in which it was tried."""
    found: dict[str, list[Outcome]] = {"amberlog": [], "FTS5": []}
    sessions, questions = tau_bench(data)
    plain = Plain(
        (name, " ".join(str(m.get("content") or m.get("tool_calls")) for m in messages))
        for name, messages in sessions
    )
    with SessionStore(place / "tau.kohakutr") as store:
        for name, messages in sessions:
            events = [event for message in messages if (event := event_of(message)) is not None]
            store.append_events(name, events)
        with SessionMemory(store) as memory:
            ours = sessions_of(memory)
            for question in questions:
                for who, rank in (("amberlog", ours), ("FTS5", plain)):
                    found[who].append(outcome(question, rank(question.text, max(DEPTHS))))
    return found


def summary(rows: Sequence[Outcome]) -> dict[str, float]:
    """Means over questions, in percent but for MRR and hit@1."""
    count = len(rows)
    recall = {
        f"R@{depth}": 100 * sum(row.recall[at] for row in rows) / count
        for at, depth in enumerate(DEPTHS)
    }
    mrr = sum(row.reciprocal for row in rows) / count
    return {"n": count, **recall, "MRR": mrr, "hit@1": sum(row.first for row in rows) / count}


def report(title: str, found: dict[str, list[Outcome]]) -> dict[str, dict[str, float]]:
    """Prints a table, one line a contestant and a group of questions."""
    print(f"\n{title}")
    told = {}
    groups = sorted({row.group for rows in found.values() for row in rows})
    for who, rows in found.items():
        for group in ("all", *groups) if len(groups) > 1 else ("all",):
            figures = summary([row for row in rows if group in ("all", row.group)])
            told[f"{who}, {group}"] = figures
            cells = "  ".join(
                f"{name} {value:.3f}" if name in ("MRR", "hit@1") else f"{name} {value:.1f}"
                for name, value in figures.items()
            )
            print(f"{who:10} {group:12} {cells}")
    return told


def main() -> None:
    """Runs both protocols."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        told = {
            "locomo": report("LoCoMo, turns", measure_locomo(asked.data, Path(scratch))),
            "tau-bench": report("tau-bench, sessions", measure_tau(asked.data, Path(scratch))),
        }
    if asked.json is not None:
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

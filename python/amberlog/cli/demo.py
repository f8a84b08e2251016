"""The demonstration: record a session, kill the writer, lose nothing, read it back."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from amberlog.cli.lookup import last_said
from amberlog.cli.script import CODER, PLANNER
from amberlog.cli.terminal import block, console, emit, line, preview
from amberlog.errors import SessionError
from amberlog.session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUERIES = ("session token refresh", '"quoted phrase"', "umlaut", "back-off never grows")
MORE_APPENDS = 500


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the writer said it had recorded, before it was killed."""

    kind: str
    agent: str
    key: str
    number: int
    spent_us: float


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in the session after the kill."""

    acknowledged: int
    stored: int
    missing: tuple[str, ...]
    out_of_order: int
    problems: int
    open_ms: float
    read_ms: float
    append_us: tuple[float, float]
    searches: tuple[tuple[str, int, float, str], ...]
    tails: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

    @property
    def ok(self) -> bool:
        """Whether everything acknowledged is there, in order and undamaged, and was found."""
        nothing_wrong = not (self.missing or self.out_of_order or self.problems)
        return nothing_wrong and self.acknowledged > 0 and any(s[1] for s in self.searches)


def demo(events: int, *, seed: int | None, keep: Path | None, as_json: bool) -> int:
    """Runs the demonstration; returns 1 when anything that was acknowledged is missing."""
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    if keep is not None and keep.exists():
        raise FileExistsError(17, "the file exists; the demonstration records a new one", str(keep))
    with tempfile.TemporaryDirectory(prefix="amberlog-demo-") as directory:
        path = keep or Path(directory) / "demo.kohakutr"
        acknowledgements = _record_and_kill(path, events, seed)
        survey = _survey(path, acknowledgements)
    recorded_us = sorted(a.spent_us for a in acknowledgements if a.kind == "event")
    if as_json:
        emit(_document(survey, recorded_us, seed, keep))
    else:
        _print(survey, recorded_us, seed, keep)
    return 0 if survey.ok else 1


def _record_and_kill(path: Path, events: int, seed: int) -> list[Acknowledgement]:
    chance = random.Random(seed)  # noqa: S311  # a moment that can be repeated, not a secret
    kill_after = chance.randrange(events // 2, events)
    command = [
        sys.executable,
        "-m",
        "amberlog.cli.recording",
        str(path),
        str(seed),
        str(20 * events),
    ]
    lines: list[bytes] = []
    with subprocess.Popen(  # noqa: S603  # our own module, with arguments of our own
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as writer:
        try:
            stream = writer.stdout or ()
            for acknowledged in stream:
                lines.append(acknowledged)
                if len(lines) == kill_after:
                    # Anywhere within some appends from here, so that the kill may hit any of
                    # the steps that an append is made of.
                    time.sleep(chance.random() / 500)
                    writer.kill()
        finally:
            writer.kill()
    if writer.returncode != -getattr(signal, "SIGKILL", 9) and sys.platform != "win32":
        raise SessionError(f"the writer ended by itself, with code {writer.returncode}")
    # A last line without its end was being written when the kill came.
    return [Acknowledgement(*json.loads(one)) for one in lines if one.endswith(b"\n")]


def _survey(path: Path, acknowledgements: Sequence[Acknowledgement]) -> Survey:
    begun = time.perf_counter()
    with SessionStore(path) as store:
        store.load_meta()
        store.load_conversation(PLANNER)
        open_ms = _ms_since(begun)
        begun = time.perf_counter()
        ids = {key: event["event_id"] for key, event in store.get_all_events()}
        read_ms = _ms_since(begun)
        missing = tuple(a.key for a in acknowledgements if not _is_stored(store, ids, a))
        out_of_order = sum(
            _is_disordered(store, agent, acknowledgements) for agent in (PLANNER, CODER)
        )
        tails = tuple((agent, tuple(last_said(store, agent, 4))) for agent in (PLANNER, CODER))
        searches = tuple(_searched(store, query) for query in QUERIES)
        append_us = _timed_appends(store)
        problems = len(store.verify().problems)
    return Survey(
        acknowledged=len(acknowledgements),
        stored=len(ids),
        missing=missing,
        out_of_order=out_of_order,
        problems=problems,
        open_ms=open_ms,
        read_ms=read_ms,
        append_us=append_us,
        searches=searches,
        tails=tails,
    )


def _is_stored(store: SessionStore, ids: dict[str, object], said: Acknowledgement) -> bool:
    lookups: dict[str, Callable[[], bool]] = {
        "event": lambda: ids.get(said.key) == said.number,
        "message": lambda: said.key in store.channels,
        "run": lambda: said.key in store.subagents,
        "snapshot": lambda: (
            len(store.load_conversation(said.agent, turn=int(said.key)) or ()) == said.number
        ),
    }
    return lookups[said.kind]()


def _is_disordered(
    store: SessionStore, agent: str, acknowledgements: Sequence[Acknowledgement]
) -> bool:
    said = [a.number for a in acknowledgements if a.kind == "event" and a.agent == agent]
    stored = [event["event_id"] for event in store.iter_events(agent)]
    # What was stored but not yet acknowledged can only stand at the end.
    return stored[: len(said)] != said


def _searched(store: SessionStore, query: str) -> tuple[str, int, float, str]:
    begun = time.perf_counter()
    hits = store.search(query, k=10)
    spent = _ms_since(begun)
    first = store.events.get(str(hits[0]["meta"].get("event_key"))) if hits else None
    content = (first.get("content") or first.get("output")) if isinstance(first, dict) else ""
    return query, len(hits), spent, preview(content, 60)


def _timed_appends(store: SessionStore) -> tuple[float, float]:
    spent: list[float] = []
    for number in range(MORE_APPENDS):
        content = f"The session goes on after the kill, event {number}."
        begun = time.perf_counter_ns()
        store.append_event(PLANNER, "text_chunk", {"content": content})
        spent.append((time.perf_counter_ns() - begun) / 1000)
    return _mean_and_p99(sorted(spent))


def _document(
    survey: Survey, recorded_us: Sequence[float], seed: int, keep: Path | None
) -> dict[str, object]:
    mean, p99 = _mean_and_p99(recorded_us)
    return {
        "ok": survey.ok,
        "seed": seed,
        "path": None if keep is None else str(keep),
        "acknowledged": survey.acknowledged,
        "events_stored": survey.stored,
        "missing": list(survey.missing),
        "agents_out_of_order": survey.out_of_order,
        "problems": survey.problems,
        "append_us": {"mean": mean, "p99": p99},
        "append_after_us": {"mean": survey.append_us[0], "p99": survey.append_us[1]},
        "open_ms": survey.open_ms,
        "read_all_ms": survey.read_ms,
        "searches": [
            {"query": query, "hits": hits, "ms": ms, "first": first}
            for query, hits, ms, first in survey.searches
        ],
        "last_messages": {
            agent: [{"role": role, "text": text} for role, text in tail]
            for agent, tail in survey.tails
        },
    }


def _print(survey: Survey, recorded_us: Sequence[float], seed: int, keep: Path | None) -> None:
    for agent, tail in survey.tails:
        line(f"last messages of {agent}, after the kill", "bold")
        for role, text in tail:
            line(f"  {role}")
            block(text)
    found = Table("search", "hits", "ms", "first hit", title="searches in the killed session")
    for query, hits, ms, first in survey.searches:
        found.add_row(Text(query), str(hits), f"{ms:.2f}", Text(first))
    console().print(found)
    mean, p99 = _mean_and_p99(recorded_us)
    facts = Table(title="what was found", show_header=False)
    for name, value in (
        ("acknowledged before the kill", f"{survey.acknowledged} steps"),
        ("missing", str(len(survey.missing))),
        ("agents out of order", str(survey.out_of_order)),
        ("events stored", str(survey.stored)),
        ("problems found by verify", str(survey.problems)),
        ("append before the kill", f"{mean:.1f} µs on average, p99 {p99:.1f} µs"),
        (
            "append after the kill",
            f"{survey.append_us[0]:.1f} µs on average, p99 {survey.append_us[1]:.1f} µs",
        ),
        ("reopen, meta, newest conversation", f"{survey.open_ms:.1f} ms"),
        ("read all events", f"{survey.read_ms:.1f} ms"),
        ("seed", str(seed)),
        *([] if keep is None else [("kept in", str(keep))]),
    ):
        facts.add_row(name, Text(value))
    console().print(facts)
    verdict = "every acknowledged step is there" if survey.ok else "SOMETHING IS MISSING"
    line(verdict, "bold green" if survey.ok else "bold red")


def _mean_and_p99(ordered: Sequence[float]) -> tuple[float, float]:
    if not ordered:
        return 0.0, 0.0
    return fmean(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


def _ms_since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000

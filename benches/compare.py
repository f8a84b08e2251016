"""Prints how this package compares: `python -m benches.compare [--quick]`.

Each measurement runs in a process and a directory of its own, the contestants in turn, so that
what else the machine does meets all of them. The figures are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benches.contestants import ENGINE, OURS, PEER, STDLIB, is_installed
from benches.measure import in_fresh_process
from benches.workload import SIZES, Sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEMORY = Path("/dev/shm")  # noqa: S108  # where a sync costs nothing
BESIDE = (OURS, STDLIB, PEER, ENGINE)


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement: what is measured, at which sizes, and who is measured.

    Attributes:
        figure: The name of a measurement in `benches.measure`.
        given: Its sizes.
        names: Who takes part.
        in_memory: Whether the files lie where a sync costs nothing.
        once: Whether one repeat must do for others than this package, since it takes long.
    """

    figure: str
    given: tuple[int, ...]
    names: tuple[str, ...] = (OURS, STDLIB, PEER)
    in_memory: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table.

    Attributes:
        title: What was measured.
        run: The measurement that it comes from.
        key: The figure of that measurement.
        ratio: How often the peer's figure ours must go into it; None where there is no such demand.
        most: The most that our figure may be; None where there is no such demand.
        against: Whose figure the ratio is of, if not that of the same measurement of the peer.
    """

    title: str
    run: str
    key: str
    ratio: float | None = None
    most: float | None = None
    against: tuple[str, str, str] | None = None


Found = dict[tuple[str, str], dict[str, float]]


def runs(sizes: Sizes) -> dict[str, Run]:
    """Returns every measurement by a name."""
    few, many = sizes.turns
    small, large = sizes.resumed
    grown = (sizes.more, sizes.grown)
    return {
        "append": Run("append", (sizes.events,), BESIDE),
        "batches": Run("batches", (sizes.events,), BESIDE),
        "grown": Run("append", grown, once=True),
        "grown batches": Run("batches", grown, (OURS, STDLIB)),
        "grown, no disk": Run("append", grown, (OURS, STDLIB), in_memory=True),
        "many": Run("many", (sizes.stores, sizes.shared)),
        "empty": Run("empty", ()),
        "few turns": Run("snapshot", (few,), once=True),
        "few turns, plain": Run("plain", (few,), once=True),
        "many turns": Run("snapshot", (many,), (OURS,)),
        "many turns, plain": Run("plain", (many,), (OURS,)),
        "resume small": Run("resume", (small,)),
        "resume large": Run("resume", (large,), once=True),
        "read": Run("read", (sizes.events,), once=True),
    }


def lines(sizes: Sizes) -> list[Line]:
    """Returns the table's lines with what is demanded of each."""
    few, many = sizes.turns
    small, large = sizes.resumed
    peer_append = ("append", PEER, "mean us")
    return [
        Line(f"append, {sizes.events} events: mean us", "append", "mean us", 20),
        Line("  p50 us", "append", "p50 us"),
        Line("  p99 us", "append", "p99 us", 12),
        Line(
            "  mean us against sqlite3",
            "append",
            "mean us",
            1,
            against=("append", STDLIB, "mean us"),
        ),
        Line("  mean us with close (keyword rows level)", "append", "with close us"),
        Line("  bytes written for a byte of payload", "append", "written/payload", most=18),
        Line("  file bytes for a byte of payload", "append", "file/payload"),
        Line("append_events: mean us", "batches", "mean us", 100, against=peer_append),
        Line("  mean us with close", "batches", "with close us"),
        Line(f"append at {sizes.grown} events: mean us", "grown", "mean us", 20),
        Line("  p99 us", "grown", "p99 us", 12),
        Line("  worst us", "grown", "max us"),
        Line("  worst us where a sync is free", "grown, no disk", "max us", most=2_000),
        Line(
            f"append_events at {sizes.grown} events: mean us",
            "grown batches",
            "mean us",
            100,
            against=("grown", PEER, "mean us"),
        ),
        Line(f"{sizes.stores} open stores: open all, ms", "many", "open ms"),
        Line("  append in turn, mean us", "many", "mean us"),
        Line("  close all, ms", "many", "close ms"),
        Line("  growth of memory, MB", "many", "rss MB", most=50),
        Line("  descriptors", "many", "descriptors", most=350),
        Line("empty session, KiB", "empty", "KiB", most=40),
        Line(f"branch snapshot, {few} turns: s", "few turns", "total s", 100),
        Line("  last turns, ms", "few turns", "last ms"),
        Line("  file bytes for a byte of messages", "few turns", "file/messages", most=2.3),
        Line(f"conversation, {few} turns: s", "few turns, plain", "total s"),
        Line("  last turns, ms", "few turns, plain", "last ms"),
        Line("  file bytes for a byte of messages", "few turns, plain", "file/messages", most=2.3),
        Line(f"branch snapshot, {many} turns: last turns, ms", "many turns", "last ms", most=0.3),
        Line("  file bytes for a byte of messages", "many turns", "file/messages", most=2.3),
        Line(
            f"conversation, {many} turns: last turns, ms", "many turns, plain", "last ms", most=0.3
        ),
        Line("  file bytes for a byte of messages", "many turns, plain", "file/messages", most=2.3),
        Line(f"resume at {small} events: ms", "resume small", "all ms", most=2),
        Line(f"resume at {large} events: ms", "resume large", "all ms", most=2),
        Line(
            f"  open at {large} against {small} events",
            "resume large",
            "open ms",
            against=("resume small", OURS, "open ms"),
        ),
        Line("  load_meta, ms", "resume large", "load_meta ms"),
        Line("get_events: us an event", "read", "us an event"),
    ]


def measure(planned: dict[str, Run], repeats: int, console: Console) -> Found:
    """Runs every measurement and returns the median of each figure."""
    seen: dict[tuple[str, str], list[dict[str, float]]] = {}
    for repeat in range(repeats):
        for title, run in planned.items():
            for name in run.names:
                if not is_installed(name) or (repeat and run.once and name != OURS):
                    continue
                console.print(f"[dim]{repeat + 1}/{repeats} {title}: {name}[/dim]")
                place = MEMORY if run.in_memory and MEMORY.is_dir() else None
                figures = in_fresh_process(run.figure, name, *run.given, within=place)
                seen.setdefault((title, name), []).append(figures)
    return {which: _median(figures) for which, figures in seen.items()}


def _median(figures: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in figures) for key in figures[0]}


def table(found: Found, wanted: Iterable[Line]) -> Table:
    """Puts the figures beside each other."""
    made = Table("figure", box=None)
    for heading in (OURS, STDLIB, ENGINE, PEER, "ratio", "demanded", "met"):
        made.add_column(heading, justify="right")
    for line in wanted:
        made.add_row(*_row(found, line))
    return made


def _row(found: Found, line: Line) -> list[str]:
    def figure(run: str, name: str, key: str) -> float | None:
        return found.get((run, name), {}).get(key)

    ours = figure(line.run, OURS, line.key)
    theirs = figure(*(line.against or (line.run, PEER, line.key)))
    ratio = theirs / ours if ours and theirs else None
    others = [_text(figure(line.run, name, line.key)) for name in (STDLIB, ENGINE, PEER)]
    demanded, met = "", ""
    if line.ratio is not None:
        demanded = f">= {line.ratio:g}x"
        met = "?" if ratio is None else "yes" if ratio >= line.ratio else "NO"
    elif line.most is not None and ours is not None:
        demanded = f"<= {line.most:g}"
        met = "yes" if ours <= line.most else "NO"
    shown = "" if ratio is None else f"{ratio:.3g}x"
    return [line.title, _text(ours), *others, shown, demanded, met]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"


def main() -> None:
    """Measures everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the work")
    parser.add_argument("--repeats", type=int, help="how often each measurement is made")
    parser.add_argument("--only", help="only measurements whose name begins like this")
    given = parser.parse_args()
    asked = "quick" if given.quick else os.environ.get("AMBERLOG_BENCH", "full")
    sizes = SIZES[asked]
    planned = runs(sizes)
    if given.only:
        planned = {name: run for name, run in planned.items() if name.startswith(given.only)}
    console = Console(stderr=True)
    found = measure(planned, given.repeats or sizes.rounds, console)
    Console(width=150).print(table(found, [line for line in lines(sizes) if line.run in planned]))


if __name__ == "__main__":
    main()

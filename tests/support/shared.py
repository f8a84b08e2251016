"""Real transcripts that lie beside the repository, where they lie there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("AMBERLOG_SHARED", ROOT.parent / "shared"))
TAU_BENCH = SHARED / "data" / "tau-bench" / "gpt-4o-airline.jsonl"
SWE_AGENT = SHARED / "data" / "swe-agent-traj"

needs_shared_data = pytest.mark.skipif(
    not (TAU_BENCH.is_file() and SWE_AGENT.is_dir()),
    reason=f"no real transcripts in {SHARED / 'data'}; AMBERLOG_SHARED says where they are",
)

Message = dict[str, object]


def tau_bench_runs() -> Iterator[tuple[str, list[Message]]]:
    """Yields the id and the messages of each of the customer-service runs."""
    with TAU_BENCH.open(encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            yield run["session_id"], run["messages"]


def swe_agent_runs() -> Iterator[tuple[str, dict[str, object]]]:
    """Yields the name and the whole document of each coding run."""
    for path in sorted(SWE_AGENT.glob("*.traj")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))

"""The peer's own tests, run on the peer and on ours in its place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers.conformance import table
from support.children import environment

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "conformance.py"
CHECKOUT = os.environ.get("KOHAKUTERRARIUM_CHECKOUT")


@pytest.mark.skipif(
    not CHECKOUT, reason="KOHAKUTERRARIUM_CHECKOUT does not name a clone of KohakuTerrarium"
)
@pytest.mark.parametrize("file", [file.name for file in table()])
def test_what_passes_on_the_peer_passes_on_ours(file: str) -> None:
    start = [sys.executable, str(PROGRAM), str(CHECKOUT), "--file", file]

    done = subprocess.run(
        start, env=environment(), capture_output=True, text=True, timeout=700, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    if "is not in this clone" in done.stdout:
        pytest.skip(f"the clone has no {file}")
    assert re.search(
        rf"^\w {re.escape(file)} +peer +\d+/\d+ +ours +\d+/\d+ +ok$", done.stdout, re.MULTILINE
    )

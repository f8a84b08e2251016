"""The peers' own tests, run on each peer and on ours in its place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers.conformance import File, table
from support.children import environment

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "conformance.py"


@pytest.mark.parametrize("file", table(), ids=lambda file: file.name)
def test_what_passes_on_the_peer_passes_on_ours(file: File) -> None:
    checkout = os.environ.get(file.peer.checkout)
    if not checkout:
        pytest.skip(f"{file.peer.checkout} does not name a clone of the peer's repository")
    start = [sys.executable, str(PROGRAM), checkout, "--peer", file.peer.name, "--file", file.name]

    done = subprocess.run(
        start, env=environment(), capture_output=True, text=True, timeout=700, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    if "is not in this clone" in done.stdout:
        pytest.skip(f"the clone has no {file}")
    assert re.search(
        rf"^\w {re.escape(file.name)} +peer +\d+/\d+ +ours +\d+/\d+ +ok$", done.stdout, re.MULTILINE
    )

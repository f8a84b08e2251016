"""The peer's own tests of its session store, run against ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.children import environment

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parents[1] / "tools" / "peers" / "conformance.py"
CHECKOUT = os.environ.get("KOHAKUTERRARIUM_CHECKOUT")


@pytest.mark.skipif(
    not CHECKOUT, reason="KOHAKUTERRARIUM_CHECKOUT does not name a clone of KohakuTerrarium"
)
def test_the_peers_own_tests_of_its_store_pass_on_ours() -> None:
    start = [sys.executable, str(PROGRAM), str(CHECKOUT), "-q"]

    done = subprocess.run(
        start, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout
    assert re.search(r"^36 passed", done.stdout, re.MULTILINE)

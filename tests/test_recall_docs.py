"""The examples of the page on search."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.children import environment

PAGE = Path(__file__).parent.parent / "docs" / "recall.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_an_example_runs(tmp_path: Path, place: int) -> None:
    program = "from amberlog import SessionStore\n" + EXAMPLES[place]

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 2

"""Runs the tour of the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_tour_of_the_readme_runs(tmp_path: Path) -> None:
    (tour,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", tour],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout == "['user', 'assistant', 'tool', 'assistant']\n"
    assert (tmp_path / "tour.kohakutr").exists()
    assert not (tmp_path / "never.kohakutr").exists()


def test_the_tour_has_at_most_20_lines_of_code() -> None:
    (tour,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)

    lines = [line for line in tour.splitlines() if line.strip()]

    assert len(lines) <= 20

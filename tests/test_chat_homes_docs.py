"""Runs the examples of `docs/chat-homes.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.children import run_code

PAGE = Path(__file__).parent.parent / "docs" / "chat-homes.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = run_code(example)

    assert said == ""
    assert list(tmp_path.glob("chats/*"))

"""Runs the examples of the pages on chat sessions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.children import run_code

DOCS = Path(__file__).parent.parent / "docs"
# What the examples of a page leave behind.
LEFT = {"chat.md": "chats/*.json", "chat-homes.md": "chats/*"}
EXAMPLES = [
    pytest.param(example, left, id=f"{page}-{number}")
    for page, left in LEFT.items()
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(("example", "left"), EXAMPLES)
def test_an_example_of_the_page_runs(
    example: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = run_code(example)

    assert said == ""
    assert list(tmp_path.glob(left))

"""Counts the tests in the output of cargo and pytest and prints one closing line.

Run as `python tally.py LOG STEPS_FAILED`. The exit code is 1 when a test or a step failed, or when
no test ran at all.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
PYTEST = re.compile(r"^=* ?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s(?: \([\d:]+\))? ?=*$")
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def tally(output: str) -> tuple[int, int, int]:
    """Returns how many tests passed, failed and were skipped."""
    passed = failed = skipped = 0
    for raw in output.splitlines():
        line = COLOUR.sub("", raw).strip()
        if found := CARGO.match(line):
            passed += int(found[1])
            failed += int(found[2])
            skipped += int(found[3])
        elif found := PYTEST.match(line):
            counts = {word: int(n) for n, word in (p.split() for p in found[1].split(", "))}
            passed += counts.get("passed", 0)
            failed += sum(counts.get(word, 0) for word in ("failed", "error", "errors", "xpassed"))
            skipped += counts.get("skipped", 0) + counts.get("xfailed", 0)
    return passed, failed, skipped


def main(log: str, steps_failed: str) -> int:
    """Prints the closing line and returns the exit code."""
    passed, failed, skipped = tally(Path(log).read_text(errors="replace"))
    # A step that failed without a failed test, such as a lint, is one failure.
    failed = max(failed, int(steps_failed))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

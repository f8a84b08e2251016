"""Runs the peer's own tests of its session store against ours.

    python tools/peers/conformance.py [CHECKOUT] [options of pytest]

CHECKOUT, or else the environment's KOHAKUTERRARIUM_CHECKOUT, is a clone of KohakuTerrarium. Its
test file is taken out of the clone's HEAD into a directory that is removed at the end, beside a
`conftest.py` that puts our store into the peer's place before the tests import it. Needs the extra
`bench-peers`. The exit code is pytest's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = "tests/unit/test_session_store.py"
CONFTEST = '''\
"""Puts the store of amberlog into the peer's place, before any test module imports it."""

import amberlog
import kohakuterrarium.session.store

kohakuterrarium.session.store.SessionStore = amberlog.SessionStore
'''
PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""


def committed(checkout: Path, path: str) -> bytes:
    """Returns a file of a clone's HEAD; the clone may be bare."""
    show = ["git", "-C", str(checkout), "show", f"HEAD:{path}"]
    return subprocess.run(show, stdout=subprocess.PIPE, check=True).stdout


def run(checkout: Path, path: str, arguments: list[str]) -> int:
    """Runs one file of the peer's tests on our store and returns pytest's exit code."""
    with tempfile.TemporaryDirectory(prefix="amberlog-conformance-") as scratch:
        directory = Path(scratch)
        (directory / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        # A configuration of its own, so that none of the directories above is used.
        (directory / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8")
        (directory / Path(path).name).write_bytes(committed(checkout, path))
        options = ["-p", "no:cacheprovider", *arguments]
        pytest = [sys.executable, "-m", "pytest", *options, str(directory)]
        return subprocess.run(pytest, cwd=directory, env=environment(), check=False).returncode


def environment() -> dict[str, str]:
    """Returns our environment, with relative places to import from made absolute."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = os.pathsep.join(str(Path(place).resolve()) for place in places if place)
    return {**os.environ, "PYTHONPATH": absolute}


def main() -> int:
    """Reads the command line, runs the tests, and returns pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "checkout", nargs="?", type=Path, default=os.environ.get("KOHAKUTERRARIUM_CHECKOUT")
    )
    parser.add_argument("--tests", default=TESTS, help="the file to run, as named in the clone")
    given, rest = parser.parse_known_args()
    if given.checkout is None:
        parser.error("name a clone of KohakuTerrarium, or set KOHAKUTERRARIUM_CHECKOUT")
    return run(Path(given.checkout), given.tests, rest)


if __name__ == "__main__":
    sys.exit(main())

"""Runs the peer's own tests on the peer and on ours in its place, and compares.

    python tools/peers/conformance.py [CHECKOUT] [--peer NAME] [--file NAME ...] [--grade A]

CHECKOUT is a clone of the repository of the peer, or else the environment names one
(KOHAKUTERRARIUM_CHECKOUT, PRAISONAI_CHECKOUT); it may be bare. The peer is kohakuterrarium unless
`--peer praisonaiagents` says another. The tests are taken out of its HEAD into a directory that is
removed at the end, and each file of `conformance.json` runs twice in a process of its own: on the
peer, and with `amberlog.compat` installed before any test is imported. A test that passes on the
peer and not on ours is lost; the table says of some why they may be. The exit code is 1 when
another one is lost.
Needs the extra `bench-peers`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

TABLE = Path(__file__).with_name("conformance.json")
FILE_TIMEOUT_S = 300
CONFTEST = '''\
"""Puts amberlog into the peer's place, before any test module is imported."""

import os

if os.environ["CONFORMANCE_SIDE"] == "ours":
    import amberlog.compat

    amberlog.compat.install(os.environ["CONFORMANCE_PEER"])
'''
PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
timeout = 60
"""


@dataclass(frozen=True)
class Peer:
    """A package whose tests are run.

    Attributes:
        name: What it is imported by.
        checkout: The variable of the environment that names a clone of its repository.
        place: Where in the repository its tests are.
        parts: What of them is taken out.
    """

    name: str
    checkout: str
    place: str
    parts: tuple[str, ...]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("kohakuterrarium", "KOHAKUTERRARIUM_CHECKOUT", "", ("tests",)),
        Peer(
            "praisonaiagents",
            "PRAISONAI_CHECKOUT",
            "src/praisonai-agents",
            ("tests/conftest.py", "tests/unit"),
        ),
    )
}

Outcome = dict[str, str | None]
"""By test what it failed with; None when it passed."""


@dataclass(frozen=True)
class File:
    """A file of a peer's tests, and which of its tests may be lost."""

    name: str
    peer: Peer
    grade: str
    may_be_lost: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """What became of the tests of a file on the peer and on ours."""

    file: File
    peer: Outcome
    ours: Outcome

    def lost(self) -> list[str]:
        """Returns the tests that pass on the peer and not on ours."""
        passed = [test for test, failure in self.peer.items() if failure is None]
        return [test for test in passed if self.ours.get(test, "did not run") is not None]

    def unexplained(self) -> list[str]:
        """Returns the lost tests of which the table says nothing."""
        return [test for test in self.lost() if test not in self.file.may_be_lost]

    def lines(self) -> list[str]:
        """Returns what is printed of it."""
        peer, ours = (_counts(side) for side in (self.peer, self.ours))
        verdict = "LOST" if self.unexplained() else "ok"
        found = [f"{self.file.grade} {self.file.name:48} peer {peer:>8}  ours {ours:>8}  {verdict}"]
        for test in self.lost():
            why = self.file.may_be_lost.get(test)
            found.append(f"      {test}: {why or self.ours.get(test, 'did not run')}")
        return found


def table() -> list[File]:
    """Returns the files of the table."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return [
        File(
            row["file"],
            PEERS[row.get("peer", "kohakuterrarium")],
            row["grade"],
            row.get("may_be_lost", {}),
        )
        for row in rows
    ]


def compare(file: File, tests: Path) -> Comparison:
    """Runs a file on both sides."""
    return Comparison(file, run(file, tests, "peer"), run(file, tests, "ours"))


def run(file: File, tests: Path, side: str) -> Outcome:
    """Runs a file in a process of its own; one that does not end has no outcome."""
    report = tests / f"{side}.xml"
    report.unlink(missing_ok=True)
    path = f"tests/unit/{file.name}.py"
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", path]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=tests,
            env={
                **environment(),
                "CONFORMANCE_SIDE": side,
                "CONFORMANCE_PEER": file.peer.name,
                # What a test leaves at home, another finds there.
                "HOME": tempfile.mkdtemp(dir=tests, prefix="home-"),
            },
            capture_output=True,
            text=True,
            timeout=FILE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    if not report.exists():
        sys.exit(done.stdout + done.stderr)
    cases = ET.parse(report).iter("testcase")  # noqa: S314  # pytest wrote it just now
    return {_name(case): _failure(case) for case in cases}


def unpack(checkout: Path, peer: Peer, into: Path) -> None:
    """Takes the tests out of a clone's HEAD."""
    archive = ["git", "-C", str(checkout), "archive", f"HEAD:{peer.place}", *peer.parts]
    packed = subprocess.run(archive, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(into, filter="data")
    (into / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    # A configuration of its own, so that none of the directories above is used.
    (into / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8")


def environment() -> dict[str, str]:
    """Returns our environment, with relative places to import from made absolute."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = os.pathsep.join(str(Path(place).resolve()) for place in places if place)
    return {**os.environ, "PYTHONPATH": absolute}


def main() -> int:
    """Reads the command line, runs the files, prints the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", nargs="?", type=Path, help="a clone of the peer's repository")
    parser.add_argument("--peer", choices=sorted(PEERS), default="kohakuterrarium")
    parser.add_argument("--file", action="append", help="only this file, as the table names it")
    parser.add_argument("--grade", help="only the files of this grade")
    given = parser.parse_args()
    peer = PEERS[given.peer]
    checkout = given.checkout or os.environ.get(peer.checkout)
    if checkout is None:
        parser.error(f"name a clone of the repository of {peer.name}, or set {peer.checkout}")
    files = [
        file
        for file in table()
        if file.peer is peer
        and (not given.file or file.name in given.file)
        and given.grade in (None, file.grade)
    ]
    if not files:
        parser.error("the table has no such file")
    unexplained = 0
    passed = {"peer": 0, "ours": 0}
    with tempfile.TemporaryDirectory(prefix="amberlog-conformance-") as scratch:
        unpack(Path(checkout), peer, Path(scratch))
        for file in files:
            found = compare(file, Path(scratch))
            print("\n".join(found.lines()), flush=True)
            unexplained += len(found.unexplained())
            for side, outcome in (("peer", found.peer), ("ours", found.ours)):
                passed[side] += sum(failure is None for failure in outcome.values())
    print(f"passed on the peer {passed['peer']}, on ours {passed['ours']}")
    return 1 if unexplained else 0


def _counts(outcome: Outcome) -> str:
    passed = sum(failure is None for failure in outcome.values())
    return f"{passed}/{len(outcome) - passed}" if outcome else "hangs"


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '')}"


def _failure(case: ET.Element) -> str | None:
    failures = [case.find(kind) for kind in ("failure", "error")]
    for failure in failures:
        if failure is not None:
            return (failure.get("message") or "failed").splitlines()[0][:160]
    return None


if __name__ == "__main__":
    sys.exit(main())

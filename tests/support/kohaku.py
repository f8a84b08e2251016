"""The session files that the peer made, unpacked, and what the peer reads from them."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kohaku"

# One path was struck out of the peer's reading; this is what the file says.
MASKED = "<path>"
MIGRATED_FROM = "/tmp/demo/sessions/v1.kohakutr"  # noqa: S108  # a name in a file, not a file


@dataclass(frozen=True, slots=True)
class Fixture:
    """One session file of the peer's, with the peer's own reading of it.

    Attributes:
        name: What tests call it.
        source: The file that is committed, packed or not.
        member: The session's path once it is unpacked.
        expectation: Whose `.expected.json` holds the reading.
        part: Where in that document it stands.
    """

    name: str
    source: str
    member: str
    expectation: str
    part: tuple[str, ...] = ()

    def unpack(self, directory: Path) -> Path:
        """Unpacks the fixture into a directory and returns where its session is."""
        return unpack(self.source, directory, self.member)

    def expected(self, *path: str) -> object:
        """Returns what the peer reads, at a place in its reading."""
        return expected(self.expectation, *self.part, *path)

    def names(self, *path: str) -> list[str]:
        """Returns the keys of the map at a place in the peer's reading."""
        place = self.expected(*path)
        assert isinstance(place, dict)
        return list(place)


def _packed(name: str) -> Fixture:
    return Fixture(name, f"{name}.kohakutr.gz", f"{name}.kohakutr", name)


SESSIONS = (
    Fixture("single_agent", "single_agent.kohakutr", "single_agent.kohakutr", "single_agent"),
    _packed("terrarium"),
    _packed("all_event_types"),
    _packed("branches"),
    _packed("unicode"),
    _packed("vectors"),
    Fixture("artifacts", "artifacts.tar.gz", "artifacts.kohakutr", "artifacts"),
    Fixture("fork parent", "fork.tar.gz", "parent.kohakutr", "fork", ("parent",)),
    Fixture("fork child", "fork.tar.gz", "parent-what-if.kohakutr.v2", "fork", ("child",)),
    Fixture("hot wal", "hotwal.tar.gz", "hotwal.kohakutr", "hotwal"),
    Fixture("migrated", "v1.kohakutr.v2.gz", "v1.kohakutr.v2", "v1", ("migrated",)),
)
"""Every fixture that holds one session in the present format."""

BY_NAME = {fixture.name: fixture for fixture in SESSIONS}


def unpack(source: str, directory: Path, member: str) -> Path:
    """Unpacks a committed file and returns the path of one file in it; times are kept."""
    packed = FIXTURES / source
    target = directory / member
    if source.endswith(".tar.gz"):
        with tarfile.open(packed) as archive:
            archive.extractall(directory, filter="data")
    elif source.endswith(".gz"):
        with gzip.open(packed) as stream, target.open("wb") as out:
            shutil.copyfileobj(stream, out)
    else:
        shutil.copyfile(packed, target)
    return target


def expected(name: str, *path: str) -> object:
    """Returns what an `.expected.json` says at a place."""
    text = (FIXTURES / f"{name}.expected.json").read_text(encoding="utf-8")
    place: object = json.loads(text.replace(MASKED, MIGRATED_FROM))
    for step in path:
        assert isinstance(place, dict)
        place = place[step]
    return place


def plain(value: object) -> object:
    """Returns a value in the form that JSON gives it: keys are text, tuples are lists."""
    return json.loads(json.dumps(value))


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Returns the time and the bytes of every file in a directory and below."""
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }

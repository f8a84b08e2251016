"""Holds the Python side of the house up."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amberlog
from amberlog import _core
from amberlog._null import NullBundle
from amberlog.aio import AsyncSessionStore
from amberlog.errors import SessionError
from amberlog.session import NullSessionStore, SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "amberlog"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TOO_LONG = 500
WRAPPERS = {
    "_conversations.py",
    "_lenient.py",
    "_lock.py",
    "_matrix.py",
    "_meaning.py",
    "_null.py",
    "_null_memory.py",
    "hashed.py",
    "identity.py",
    "index.py",
    "indexed.py",
    "lineage.py",
    "memory.py",
    "migration.py",
    "session.py",
    "static.py",
    "store.py",
    "transcript_store.py",
}
PUBLIC_MODULES = (
    "amberlog",
    "amberlog.aio",
    "amberlog.artifacts",
    "amberlog.attaching",
    "amberlog.chat",
    "amberlog.chat.context",
    "amberlog.chat.gateway",
    "amberlog.chat.encrypted_store",
    "amberlog.chat.identity",
    "amberlog.chat.indexed",
    "amberlog.chat.messages",
    "amberlog.chat.mirror",
    "amberlog.chat.protocols",
    "amberlog.chat.store",
    "amberlog.chat.title",
    "amberlog.chat.workspace",
    "amberlog.chat.transcript_store",
    "amberlog.chat_homes",
    "amberlog.config",
    "amberlog.embedding",
    "amberlog.embedding.api",
    "amberlog.embedding.creating",
    "amberlog.embedding.hashed",
    "amberlog.embedding.local",
    "amberlog.embedding.presets",
    "amberlog.embedding.protocol",
    "amberlog.embedding.static",
    "amberlog.errors",
    "amberlog.hooks",
    "amberlog.index",
    "amberlog.lineage",
    "amberlog.migration",
    "amberlog.reader",
    "amberlog.resuming",
    "amberlog.session",
    "amberlog.types",
    "amberlog.watching",
)


def public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def is_class(value: object) -> bool:
    # An alias such as `Callable[[str], object]` passes for a class in Python 3.10.
    return inspect.isclass(value) and typing.get_origin(value) is None


def tracked_sources() -> Iterator[Path]:
    for folder in ("rust", "python", "tests", "benches", "tools"):
        for pattern in ("*.rs", "*.py", "*.pyi"):
            yield from sorted((ROOT / folder).rglob(pattern))


def imported_names(source: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_a_file_stays_under_500_lines() -> None:
    sources = list(tracked_sources())

    long = [str(path) for path in sources if len(path.read_text().splitlines()) >= TOO_LONG]

    assert sources
    assert not long


def test_only_the_wrappers_import_the_core() -> None:
    sources = [source for source in SOURCES if source.name not in WRAPPERS]

    guilty = [
        str(source)
        for source in sources
        if any(name.startswith("amberlog._core") for name in imported_names(source))
    ]

    assert not guilty


def test_only_config_reads_the_environment() -> None:
    sources = [source for source in SOURCES if source.name != "config.py"]

    guilty = [
        str(source)
        for source in sources
        if "environ" in source.read_text() or "getenv" in source.read_text()
    ]

    assert not guilty


def test_only_errors_defines_exceptions() -> None:
    sources = [source for source in SOURCES if source.name != "errors.py"]

    guilty = [
        f"{source}: {node.name}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]

    assert not guilty
    assert all(
        issubclass(getattr(amberlog.errors, name), SessionError) for name in amberlog.errors.__all__
    )


def test_importing_touches_no_disk(tmp_path: Path) -> None:
    script = (
        "import sys, asyncio, logging, concurrent.futures\n"
        "def hook(event, args):\n"
        "    mode = args[1] if event == 'open' else None\n"
        "    wrote = isinstance(mode, str) and set(mode) & set('wax+')\n"
        "    if wrote or event in ('os.mkdir', 'os.remove', 'os.rename', 'sqlite3.connect'):\n"
        "        print(event, args)\n"
        "sys.addaudithook(hook)\n"
        "import amberlog, amberlog.cli\n"
    )
    home = tmp_path / "home"
    home.mkdir()

    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=home,
        env={"HOME": str(home), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert not done.stdout
    assert not list(home.iterdir())


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    loaded = importlib.import_module(module)
    documented = [
        (name, value)
        for name, value in vars(loaded).items()
        if name in getattr(loaded, "__all__", public(loaded))
        and (is_class(value) or inspect.isfunction(value) or inspect.ismodule(value))
    ]

    bare = [name for name, value in documented if not inspect.getdoc(value)]
    for owner, value in documented:
        if is_class(value):
            bare += [
                f"{owner}.{name}"
                for name in sorted(public(value))
                # The fields of a value are documented in its class.
                if name in vars(value)
                and not inspect.ismemberdescriptor(vars(value)[name])
                and name not in getattr(value, "__dataclass_fields__", ())
                and not inspect.getdoc(vars(value)[name])
            ]

    assert loaded.__doc__
    assert not bare


def test_every_public_name_lives_under_amberlog() -> None:
    values = [getattr(amberlog, name) for name in amberlog.__all__]

    homes = [value.__module__ for value in values if inspect.isclass(value)]

    assert homes
    assert all(home.startswith("amberlog") for home in homes)


def test_a_store_that_keeps_nothing_has_every_verb() -> None:
    bundle_verbs = public(_core.Bundle) - {"open", "open_readonly"}

    missing = public(SessionStore) - public(NullSessionStore)
    missing_beneath = bundle_verbs - public(NullBundle("null.kohakutr"))

    assert not missing
    assert not missing_beneath


def test_the_null_bundle_takes_the_arguments_of_the_bundle() -> None:
    verbs = [
        name
        for name in sorted(public(NullBundle))
        if inspect.isfunction(inspect.getattr_static(NullBundle, name))
    ]

    different = [
        name
        for name in verbs
        if list(inspect.signature(getattr(NullBundle, name)).parameters)
        != list(inspect.signature(getattr(_core.Bundle, name)).parameters)
    ]

    assert verbs
    assert not different


def test_every_verb_can_be_awaited() -> None:
    # `submit` and `run` already are for coroutines, on the store beneath.
    verbs = public(SessionStore) - {"submit", "run"}

    missing = verbs - public(AsyncSessionStore)

    assert not missing


def test_the_version_is_that_of_the_installed_package() -> None:
    installed = importlib.metadata.version("amberlog")

    assert amberlog.__version__ == installed

"""What a caller of the peer may write, ours takes too: every name with every parameter."""

from __future__ import annotations

import importlib
import inspect

import pytest

from amberlog import compat

pytestmark = pytest.mark.peers

PEER = "kohakuterrarium"
MODULES = compat.PEERS[PEER]

# Names of exceptions that belong to Python, which shows no signatures of them.
BUILT_IN = {"add_note", "args", "with_traceback"}

# The peer's protocol of output modules calls it `content`, and so do all others of its modules.
OTHERWISE_NAMED = {("SessionOutput.write", "text")}

# The default of a field may well be None.
MISSING = object()


def both(module: str) -> list[tuple[str, object, object]]:
    """Returns the names that both sides have of a module, the public ones of classes included."""
    theirs = importlib.import_module(f"{PEER}.{module}")
    ours = importlib.import_module(f"amberlog.compat.{PEER}.{module}")
    found: list[tuple[str, object, object]] = []
    for name in ours.__all__:
        one, other = getattr(theirs, name, None), getattr(ours, name)
        found.append((name, one, other))
        if inspect.isclass(one):
            public = {part for part in dir(one) if not part.startswith("_")} - BUILT_IN
            found += [
                (f"{name}.{part}", getattr(one, part), getattr(other, part, MISSING))
                for part in sorted(public)
            ]
    return found


def parameters(target: object) -> dict[str, object]:
    """Returns the kinds of a function's parameters by name."""
    if not inspect.isroutine(target):
        return {}
    return {name: given.kind for name, given in inspect.signature(target).parameters.items()}


@pytest.mark.parametrize("module", MODULES)
def test_ours_has_the_names_of_the_peer_with_their_parameters(module: str) -> None:
    for name, theirs, ours in both(module):
        assert ours is not MISSING, name
        known = parameters(ours)
        for parameter, kind in parameters(theirs).items():
            if (name, parameter) not in OTHERWISE_NAMED:
                assert known.get(parameter) == kind, f"{name}({parameter})"


@pytest.mark.parametrize("module", ["session.errors", "errors", "session.history"])
def test_an_error_of_ours_is_caught_by_what_catches_the_peers(module: str) -> None:
    for name, theirs, ours in both(module):
        if inspect.isclass(theirs) and issubclass(theirs, Exception):
            assert inspect.isclass(ours)
            bases = set(theirs.__mro__) - {theirs}
            assert bases <= set(ours.__mro__), name


def test_every_function_of_history_is_replaced() -> None:
    theirs = importlib.import_module(f"{PEER}.session.history")
    public = {
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == theirs.__name__
    }

    assert public == set(importlib.import_module(f"amberlog.compat.{PEER}.session.history").__all__)

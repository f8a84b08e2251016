"""A bundle by the contract of a peer's store: looser values, and reads that see submitted work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from amberlog._null import AnyBundle

P = ParamSpec("P")
T = TypeVar("T")

_WRITES = frozenset(
    {
        "append",
        "append_many",
        "append_message",
        "compact",
        "fork",
        "put",
        "put_across",
        "record",
        "save_snapshot",
    }
)
_READS = frozenset(
    {
        "all_events",
        "count",
        "event_by_id",
        "events",
        "find_subagent_run",
        "get",
        "items",
        "keys",
        "load_branch_snapshot",
        "load_snapshot",
        "max_branch_id",
        "messages",
        "namespaces",
        "place_of",
        "resumable_events",
        "rollups",
        "search",
        "snapshots",
        "subagent_runs",
        "token_usage",
        "token_usage_all_loops",
        "working_history",
    }
)


class RelaxedBundle:
    """Everything that a bundle is, with looser values and patient reads.

    Values go in as they are, and once more with lists for their tuples when the core refuses their
    types. What is refused is refused before anything is written, so nothing is stored twice, and
    values without tuples cost nothing more.

    Args:
        bundle: The bundle.
        settle: What is called before each read.
    """

    def __init__(self, bundle: AnyBundle, settle: Callable[[], None]) -> None:
        self._bundle = bundle
        self._settle = settle

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._bundle, name)
        if name in _READS:
            self._settle()
        return partial(_relaxed, verb) if name in _WRITES else verb


def _relaxed(write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return write(*args, **kwargs)
    except TypeError:
        named = {name: _argument(value) for name, value in kwargs.items()}
        return write(*map(_argument, args), **named)  # type: ignore[arg-type]  # the same, with lists


def _argument(argument: object) -> object:
    """Returns an argument with lists for the tuples in its values.

    The tuples that arguments are made of themselves, such as key and value, stay.
    """
    if isinstance(argument, tuple):
        return tuple(map(_listed, argument))
    if isinstance(argument, list):
        return [_argument(item) if isinstance(item, tuple) else _listed(item) for item in argument]
    return _listed(argument)


def _listed(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_listed(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return value


__all__ = ["RelaxedBundle"]

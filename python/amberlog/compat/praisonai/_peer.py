"""The peer's own modules, where it is installed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

PEER = "praisonaiagents"


def peer(name: str) -> ModuleType | None:
    """Returns a module of the peer; `None` where there is no such module, or no peer."""
    try:
        return importlib.import_module(f"{PEER}.{name}")
    except ModuleNotFoundError as error:
        if not f"{PEER}.{name}.".startswith(f"{error.name}."):
            raise
        return None


__all__ = ["PEER", "peer"]

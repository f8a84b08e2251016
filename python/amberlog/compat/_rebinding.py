"""Names of a package's modules, bound to other objects for a while."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ABSENT = object()


class Rebinding:
    """Binds names in the modules of one package, and remembers what stood there.

    Args:
        package: The package whose modules are looked through.
    """

    def __init__(self, package: str) -> None:
        self.bound: list[str] = []
        self._package = package
        self._undo: list[tuple[ModuleType, str, object]] = []
        self._made: list[str] = []
        # Whole modules that another has the place of, by name.
        self._replaced: dict[str, ModuleType | None] = {}
        # The objects that changed places, by the identity of the one that went.
        self._ours: dict[int, object] = {}
        self._theirs: dict[int, object] = {}
        # What is looked up by identity must not be freed, or another object may get its identity.
        self._kept: list[object] = []

    def add_module(self, name: str) -> ModuleType:
        """Makes an empty module, so that `import name` finds it."""
        module = ModuleType(name, f"What amberlog has under the name {name}.")
        module.__path__ = []
        sys.modules[name] = module
        self._made.append(name)
        parent, _, stem = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], stem, module)
        return module

    def replace_module(self, name: str, ours: ModuleType, theirs: ModuleType | None) -> None:
        """Puts a module of ours under a name, in the place of the one that is there, if any."""
        self._replaced[name] = theirs
        sys.modules[name] = ours
        parent, _, stem = name.rpartition(".")
        self._set(sys.modules[parent], stem, ours)
        for public in vars(ours)["__all__"]:
            self.bound.append(f"{name}.{public}")
            mine, old = vars(ours)[public], vars(theirs or ours).get(public, _ABSENT)
            if old is not mine and callable(old):
                self._ours[id(old)] = mine
                self._theirs[id(mine)] = old
                self._kept += [mine, old]

    def share_path(self, package: ModuleType, places: list[str]) -> None:
        """Lets a package find modules in more places."""
        self._set(package, "__path__", [*package.__path__, *places])

    def bind(self, module: ModuleType, names: dict[str, object]) -> None:
        """Binds names of a module."""
        for name, ours in names.items():
            theirs = vars(module).get(name, _ABSENT)
            self._set(module, name, ours)
            self.bound.append(f"{module.__name__}.{name}")
            # Only functions and classes have an identity that tells where they come from.
            if theirs is not ours and callable(theirs):
                self._ours[id(theirs)] = ours
                self._theirs[id(ours)] = theirs
                self._kept += [ours, theirs]

    def spread(self) -> None:
        """Binds what was imported from a bound name before, in every module of the package."""
        for module in self._modules():
            for name, value in list(vars(module).items()):
                if id(value) in self._ours:
                    self._set(module, name, self._ours[id(value)])

    def undo(self) -> None:
        """Puts back what stood there, also in modules that were imported since."""
        for name in reversed(self._made):
            made = sys.modules.pop(name, None)
            parent, _, stem = name.rpartition(".")
            if parent in sys.modules and vars(sys.modules[parent]).get(stem) is made:
                delattr(sys.modules[parent], stem)
        self._take_out()
        for module, name, value in reversed(self._undo):
            if value is _ABSENT:
                vars(module).pop(name, None)
            else:
                setattr(module, name, value)
        for module in self._modules():
            for name, value in list(vars(module).items()):
                if id(value) in self._theirs:
                    setattr(module, name, self._theirs[id(value)])

    def _take_out(self) -> None:
        """Takes whole modules out, with what was imported beneath them meanwhile."""
        for name, theirs in self._replaced.items():
            if theirs is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = theirs

    def _set(self, module: ModuleType, name: str, value: object) -> None:
        self._undo.append((module, name, vars(module).get(name, _ABSENT)))
        setattr(module, name, value)

    def _modules(self) -> list[ModuleType]:
        inside = f"{self._package}."
        # An import that is to fail stands there as None.
        loaded: Mapping[str, object] = dict(sys.modules)
        return [
            module
            for name, module in loaded.items()
            if isinstance(module, ModuleType) and (name == self._package or name.startswith(inside))
        ]

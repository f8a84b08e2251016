"""Putting our modules into a peer's place, and taking them out again."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amberlog.compat._rebinding import Rebinding
from amberlog.errors import UnknownPeerError

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from typing_extensions import Self

PEERS: dict[str, tuple[str, ...]] = {
    "kohakuterrarium": (
        "errors",
        "session",
        "session.artifacts",
        "session.attach",
        "session.attachment_service",
        "session.embedding",
        "session.errors",
        "session.history",
        "session.memory",
        "session.memory_async",
        "session.migrations",
        "session.migrations.v1_to_v2",
        "session.output",
        "session.readonly",
        "session.session",
        "session.store",
        "session.version",
        "studio",
        "studio.persistence",
        "studio.persistence.session_index",
        "studio.persistence.session_index.entry",
        "studio.persistence.session_index.hooks",
        "studio.persistence.session_index.reconcile",
        "studio.persistence.session_index.refresh",
        "studio.persistence.session_index.stats",
        "studio.persistence.session_index.store",
    ),
    "praisonaiagents": (
        "session",
        "session.context",
        "session.encrypted_store",
        "session.hierarchy",
        "session.identity",
        "session.protocols",
        "session.sqlite_store",
        "session.sqlite_transcript_store",
        "session.store",
        "session.workspace",
    ),
}
"""The packages that there are drop-in modules for, with the modules of each."""

# Whose modules we take the place of as a whole, since its code assigns names in them and looks for
# its own there; and where ours are.
_WHOLE = {"praisonaiagents": ("session", "amberlog.compat.praisonai")}


@dataclass(frozen=True, slots=True)
class Installation:
    """Our modules in the place of a peer's, until `uninstall` or the end of a `with` block.

    Attributes:
        peer: The package whose names they have.
        is_over_peer: Whether the package itself is installed, so that its other modules use ours.
        replaced: The dotted names that are ours now, in order.
    """

    peer: str
    is_over_peer: bool
    replaced: tuple[str, ...]
    _rebinding: Rebinding = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.uninstall()

    def uninstall(self) -> None:
        """Gives the peer its names back; doing it again changes nothing.

        Modules that were imported meanwhile get the peer's own objects too. Stores that are open
        stay what they are.
        """
        if _installed.get(self.peer) is self:
            del _installed[self.peer]
            self._rebinding.undo()


_installed: dict[str, Installation] = {}


def install(peer: str) -> Installation:
    """Puts our modules under a peer's module names; what is there already stays.

    Where the peer is installed, its modules of these names are imported and get our objects, and
    so does each module of the peer that had imported one of theirs. Modules that are imported
    later find ours. Where it is not installed, the modules are made, and hold only what is ours.
    `docs/compat.md` says which names these are.

    Args:
        peer: The package to stand in for: a key of `PEERS`.

    Raises:
        UnknownPeerError: There are no drop-in modules for that package.
    """
    if peer not in PEERS:
        known = tuple(PEERS)
        raise UnknownPeerError(
            f"no drop-in modules for {peer!r}, only for {', '.join(known)}", peer=peer, known=known
        )
    if peer in _installed:
        return _installed[peer]
    is_over_peer = importlib.util.find_spec(peer) is not None
    rebinding = Rebinding(peer)
    if peer in _WHOLE:
        _replace(peer, rebinding, is_over_peer=is_over_peer)
    else:
        _bind(peer, rebinding, is_over_peer=is_over_peer)
    rebinding.spread()
    made = Installation(peer, is_over_peer, tuple(sorted(rebinding.bound)), rebinding)
    _installed[peer] = made
    return made


def uninstall(peer: str) -> None:
    """Gives a peer its names back; does nothing when none of them is taken."""
    if peer in _installed:
        _installed[peer].uninstall()


def _bind(peer: str, rebinding: Rebinding, *, is_over_peer: bool) -> None:
    """Binds our names in the peer's modules."""
    ours = {
        f"{peer}.{name}": importlib.import_module(f"{__package__}.{peer}.{name}")
        for name in PEERS[peer]
    }
    if not is_over_peer:
        rebinding.add_module(peer)
    for name, module in ours.items():
        theirs = _imported(name) if is_over_peer else rebinding.add_module(name)
        if theirs is not None:
            rebinding.bind(theirs, {public: vars(module)[public] for public in module.__all__})


def _replace(peer: str, rebinding: Rebinding, *, is_over_peer: bool) -> None:
    """Puts our modules in the place of the peer's; those that we have none for stay the peer's.

    They are found through the path of our package, which gets the peer's for as long as it lasts.
    """
    root, package = _WHOLE[peer]
    home = importlib.import_module(package)
    if not is_over_peer:
        rebinding.add_module(peer)
    # All of the peer's first: each may import the others.
    theirs = {name: _imported(f"{peer}.{name}") if is_over_peer else None for name in PEERS[peer]}
    for name, module in theirs.items():
        ours = importlib.import_module(package + name.removeprefix(root))
        rebinding.replace_module(f"{peer}.{name}", ours, module)
    first = theirs[root]
    rebinding.share_path(home, [] if first is None else list(first.__path__))


def _imported(name: str) -> ModuleType | None:
    """Returns a module of the peer; None when this version of the peer has none of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # What is missing may be the module, or a package on the way to it.
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        return None

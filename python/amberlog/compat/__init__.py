"""Our modules under the module names of a peer, so that code written for it need not change."""

from amberlog.compat._installation import PEERS, Installation, install, uninstall
from amberlog.errors import UnknownPeerError

__all__ = ["PEERS", "Installation", "UnknownPeerError", "install", "uninstall"]

"""What can go wrong, one class for each thing a caller can act on."""

from __future__ import annotations


class SessionError(Exception):
    """The base of every error that amberlog raises about a session.

    Attributes:
        message: What happened, in lower case and without a full stop.
        path: The file that it happened to, where there is one.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return self.message


class SessionBusyError(SessionError, TimeoutError):
    """Another writer held the file for longer than the call would wait; try again."""


class SessionLockedError(SessionError, RuntimeError):
    """The writer lock of the session is held, perhaps by this very process.

    Attributes:
        holder_pid: The process that holds the lock, where its lock file says so.
    """

    def __init__(
        self, message: str, *, path: str | None = None, holder_pid: int | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.holder_pid = holder_pid


class SessionDamagedError(SessionError):
    """Bytes on disk are not what was written; the file is left as it is.

    Attributes:
        at: Where: a table with a key, a page, or an offset.
        what: What was found there.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        at: str | None = None,
        what: str | None = None,
    ) -> None:
        super().__init__(message, path=path)
        self.at = at
        self.what = what


class SessionVersionError(SessionError):
    """The file was written by a newer format than this version reads; it is unchanged.

    Or by an older one, where only the present one was asked for.

    Attributes:
        found: The version of the file.
        supported: The newest version that can be read.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        found: int | None = None,
        supported: int | None = None,
    ) -> None:
        super().__init__(message, path=path)
        self.found = found
        self.supported = supported


class SessionReadOnlyError(SessionError):
    """A write was asked of a session that is open for reading, or may only be read."""


class SessionClosedError(SessionError, RuntimeError):
    """The store was closed, or was carried over a fork and must be opened again."""


class SessionGoneError(SessionError):
    """The session's file was deleted or moved while it was open."""


class SessionNotFoundError(SessionError, FileNotFoundError):
    """There is no session of that path or name."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message, path=path)
        # What `except FileNotFoundError` code expects to find on the error.
        self.filename = path


class SessionExistsError(SessionError, FileExistsError):
    """A new session was to get a name that is taken; what is there is left as it is."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message, path=path)
        # What `except FileExistsError` code expects to find on the error.
        self.filename = path


class SessionWriteError(SessionError, OSError):
    """The system refused a read or a write; what the call was to store is not stored.

    Attributes:
        errno: The system's number for the reason, where there is one (28: disk full).
        reason: The system's own words.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        errno: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message, path=path)
        self.errno = errno
        self.reason = reason


class SessionEncryptionError(SessionError, RuntimeError):
    """A key is missing or wrong, or what was asked cannot be had of encrypted sessions."""


class InvalidBranchViewError(SessionError, ValueError):
    """A branch view names branches that the session does not have, or not together."""


class ForkNotStableError(SessionError):
    """A call that is still running lies before the point where the session was to fork."""


class UnknownPeerError(SessionError, ValueError):
    """There are no drop-in modules for a package of that name.

    Attributes:
        peer: The name that was given.
        known: The packages that there are drop-in modules for.
    """

    def __init__(self, message: str, *, peer: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.peer = peer
        self.known = known


class SessionMigrationError(SessionError, ValueError):
    """An old session holds what cannot be told apart; it is as it was, and nothing was made."""


class AlreadyAttachedError(SessionError):
    """The agent is attached to another session: detach it there first."""


class NotAttachedError(SessionError):
    """The agent is not attached to this session."""


class SessionNotResumableError(SessionError, ValueError):
    """The session was retired for another one, which cannot be had; or its meta is of no use."""


class EmbeddingError(SessionError, ValueError):
    """An embedder returned what are no vectors: NaN, another size, another number, or no floats."""


class EmbedderFailedError(SessionError, RuntimeError):
    """An embedder raised; its own exception is the cause."""


class NoVectorsError(SessionError, ValueError):
    """A session was searched by meaning, and has vectors of other embedders only."""


class EmbeddingRequestError(SessionError, RuntimeError):
    """An embedding endpoint did not answer, or refused, each time that it was asked.

    Attributes:
        status: The HTTP status of its last answer; None where there was none.
        attempts: How many times it was asked.
    """

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1) -> None:
        super().__init__(message)
        self.status = status
        self.attempts = attempts


class MissingExtraError(SessionError, ImportError):
    """A package is not installed that an extra of this one would bring.

    Attributes:
        extra: The extra: `pip install 'amberlog[model2vec]'`.
        package: The package that could not be imported.
    """

    def __init__(self, message: str, *, extra: str, package: str) -> None:
        super().__init__(message)
        self.extra = extra
        self.package = package


class NoEmbedderError(SessionError, RuntimeError):
    """Vectors were asked for, and no embedder is configured."""


__all__ = [
    "AlreadyAttachedError",
    "EmbedderFailedError",
    "EmbeddingError",
    "EmbeddingRequestError",
    "ForkNotStableError",
    "InvalidBranchViewError",
    "MissingExtraError",
    "NoEmbedderError",
    "NoVectorsError",
    "NotAttachedError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionDamagedError",
    "SessionEncryptionError",
    "SessionError",
    "SessionExistsError",
    "SessionGoneError",
    "SessionLockedError",
    "SessionMigrationError",
    "SessionNotFoundError",
    "SessionNotResumableError",
    "SessionReadOnlyError",
    "SessionVersionError",
    "SessionWriteError",
    "UnknownPeerError",
]

"""Sessions carried from one store to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from amberlog.chat.protocols import ImportReport
from amberlog.errors import SessionError, SessionExistsError

VERSION = 1
_LIVE_FIELDS = ("gateway_session_id", "agent_id")

Restore = Callable[[str, dict[str, object], bool], None]


def import_sessions(
    payload: Mapping[str, object],
    restore: Restore,
    max_sessions: int,
    *,
    reset: bool,
    overwrite: bool,
) -> ImportReport:
    """Hands each session of a portable form to `restore`, and reports what it refused.

    Args:
        payload: The portable form; a form of something else holds no sessions.
        restore: Writes one session; told whether one that exists is replaced.
        max_sessions: How many are written at most.
        reset: Whether they lose the fields by which they are found from outside.
        overwrite: Whether a session that exists is replaced.
    """
    report = ImportReport(version=VERSION)
    is_form = isinstance(cast("object", payload), Mapping)
    version = payload.get("version") if is_form else None
    if isinstance(version, int) and version > VERSION:
        _skip(report, "", f"unsupported payload version {version} (supported <= {VERSION})")
        return report
    for session_id, stored in _sound(payload, report):
        if report.imported >= max_sessions:
            _skip(report, "", f"max_sessions={max_sessions} cap reached")
            break
        try:
            restore(session_id, _restored(session_id, stored, reset=reset), overwrite)
        except SessionExistsError:
            _skip(report, session_id, "already exists (use overwrite)")
        except (SessionError, TypeError, ValueError) as error:
            _skip(report, session_id, f"write failed: {error}")
        else:
            report.imported += 1
    return report


def _sound(
    payload: Mapping[str, object], report: ImportReport
) -> Iterator[tuple[str, Mapping[str, object]]]:
    is_form = isinstance(cast("object", payload), Mapping)
    sessions = payload.get("sessions") if is_form else None
    seen: set[str] = set()
    for index, stored in enumerate(sessions if isinstance(sessions, list) else []):
        if not isinstance(stored, Mapping):
            _skip(report, "", f"malformed record at index {index}")
            continue
        session_id = str(stored.get("session_id") or "").strip()
        if not session_id:
            _skip(report, "", f"missing session_id at index {index}")
        elif session_id in seen:
            _skip(report, session_id, "duplicate in payload")
        else:
            seen.add(session_id)
            yield session_id, stored


def _restored(session_id: str, stored: Mapping[str, object], *, reset: bool) -> dict[str, object]:
    dropped = _LIVE_FIELDS if reset else ()
    session = {key: value for key, value in stored.items() if key not in dropped}
    session["session_id"] = session_id
    metadata = session.get("metadata")
    if isinstance(metadata, Mapping):
        session["metadata"] = {key: metadata[key] for key in metadata if key not in dropped}
    return session


def _skip(report: ImportReport, session_id: str, reason: str) -> None:
    report.skipped.append({"session_id": session_id, "reason": reason})


__all__ = ["VERSION", "import_sessions"]

"""The three ways in which a user comes to the sessions of a directory: Python, shell and HTTP."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from amberlog import SessionStore, errors, get_session_index_default
from amberlog.cli import main
from amberlog.index import close_session_index, delete_session, refresh

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("python", "shell", "http")


@dataclass(frozen=True)
class Listed:
    """What a door lists: the rows, the number on all pages, and reasons by unreadable path."""

    rows: list[Mapping[str, object]]
    total: int
    unreadable: dict[str, str]

    def names(self) -> set[str]:
        return {str(row["name"]) for row in self.rows}

    def row(self, name: str) -> Mapping[str, object]:
        return next(row for row in self.rows if row["name"] == name)


class Door(ABC):
    """A door to a directory. What was listed before is looked at anew."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def listed(self, search: str = "") -> Listed:
        """Returns up to 200 sessions."""

    @abstractmethod
    def refusal(self, **asked: str) -> str:
        """Returns why a listing was refused; empty where it was not."""

    @abstractmethod
    def delete(self, name: str) -> str:
        """Deletes a session and returns `deleted`, `refused` or `in use`."""


class PythonDoor(Door):
    def listed(self, search: str = "") -> Listed:
        index = get_session_index_default(self.directory)
        refresh(index, self.directory)
        page = index.list(search=search, limit=200)
        return Listed(
            list(page.rows), page.total, {one.path: one.reason for one in page.unreadable}
        )

    def refusal(self, **asked: str) -> str:
        index = get_session_index_default(self.directory)
        numbers = ("limit", "offset")
        # Whoever calls from Python gives numbers as numbers.
        given = {
            name: int(value) if name in numbers and value.lstrip("-").isdigit() else value
            for name, value in asked.items()
        }
        try:
            index.list(**given)  # type: ignore[arg-type]  # wrong on purpose
        except ValueError as error:
            return str(error)
        return ""

    def delete(self, name: str) -> str:
        try:
            delete_session(self.directory, name, index=get_session_index_default(self.directory))
        except errors.SessionLockedError:
            return "in use"
        except (errors.SessionNotFoundError, ValueError):
            return "refused"
        return "deleted"


class ShellDoor(Door):
    def listed(self, search: str = "") -> Listed:
        code, out, _ = self._run("list", "--limit", "200", "--search", search, "--json")
        assert code == 0
        page = json.loads(out)
        return Listed(
            page["sessions"],
            page["total"],
            {one["path"]: one["reason"] for one in page["unreadable"]},
        )

    def refusal(self, **asked: str) -> str:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
        code, out, err = self._run("list", *options)
        assert (code == 0) == (not err)
        assert code in (0, 2)
        assert code == 0 or not out
        return err

    def delete(self, name: str) -> str:
        code, out, err = self._run("delete", "--", name)
        if code == 0:
            return "deleted"
        assert not out
        assert err.count("\n") == 1
        return "in use" if "open for writing elsewhere" in err else "refused"

    def _run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        # A process of its own would know nothing of what was listed before.
        close_session_index()
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([command, "--dir", str(self.directory), *arguments])
        return code, out.getvalue(), err.getvalue()


class HttpDoor(Door):
    def listed(self, search: str = "") -> Listed:
        status, page = self._ask("GET", "", search=search, limit="200", refresh="true")
        assert status == 200
        unreadable = cast("list[dict[str, str]]", page["unreadable"])
        return Listed(
            cast("list[Mapping[str, object]]", page["sessions"]),
            cast("int", page["total"]),
            {one["path"]: one["reason"] for one in unreadable},
        )

    def refusal(self, **asked: str) -> str:
        status, page = self._ask("GET", "", **asked)
        assert status == 200 or 400 <= status < 500
        return "" if status == 200 else json.dumps(page["detail"])

    def delete(self, name: str) -> str:
        status, _ = self._ask("DELETE", f"/{quote(name, safe='').replace('.', '%2E')}")
        assert status == 200 or 400 <= status < 500
        return {200: "deleted", 409: "in use"}.get(status, "refused")

    def _ask(self, method: str, path: str, **asked: str) -> tuple[int, dict[str, object]]:
        from fastapi.testclient import TestClient  # noqa: PLC0415  # an extra

        from amberlog.server import create_app  # noqa: PLC0415

        with TestClient(create_app(self.directory), raise_server_exceptions=False) as client:
            answer = client.request(method, f"/api/sessions{path}", params=asked)
        return answer.status_code, cast("dict[str, object]", answer.json())


def door_of(kind: str, directory: Path) -> Door:
    """Returns a door by its kind."""
    kinds: dict[str, type[Door]] = {"python": PythonDoor, "shell": ShellDoor, "http": HttpDoor}
    return kinds[kind](directory)


def said(path: Path) -> list[object]:
    """Returns what the user said in a session."""
    with SessionStore.open_readonly(path) as store:
        return [event["content"] for event in store.iter_events("alice", types=["user_message"])]

"""The sessions of a directory over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from amberlog import SessionStore
from amberlog.cli import main
from amberlog.index import close_session_index
from amberlog.server import create_app, serve
from support.children import environment
from support.kohaku import FIXTURES
from support.sessions import files_below, fixture_directory, fixture_rows, many, record
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Body = dict[str, object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Returns a directory with three sessions, a file that is none, and something outside of it."""
    directory = tmp_path / "sessions"
    many(directory, 3)
    (directory / "broken.kohakutr").write_bytes(b"no session")
    record(tmp_path / "victim.kohakutr", "a secret")
    return directory


@pytest.fixture
def client(directory: Path) -> Iterator[TestClient]:
    """Yields a client of the application over that directory."""
    with TestClient(create_app(directory), raise_server_exceptions=False) as client:
        yield client
    close_session_index()


def sample_keys(request: str) -> set[str]:
    """Returns the keys of what the peer answered to a request."""
    samples = json.loads((FIXTURES / "http_samples.json").read_text(encoding="utf-8"))
    bodies = [one["body"] for one in samples if one.get("request") == request]
    return set(bodies[0])


def test_a_listing_is_that_of_the_peer_and_says_what_it_cannot_list(tmp_path: Path) -> None:
    directory = fixture_directory(tmp_path, with_sidecar=False)
    wanted = fixture_rows()

    with TestClient(create_app(directory)) as client:
        body = client.get("/api/sessions", params={"limit": 100}).json()
    close_session_index()

    found = {row["filename"]: row for row in body["sessions"]}
    shared = {name: {key: found[name][key] for key in row} for name, row in wanted.items()}
    assert shared == wanted
    assert body["total"] == len(wanted)
    assert [one["path"] for one in body["unreadable"]] == ["broken.kohakutr"]
    # A session of another node has a working directory that nobody can ask about here.
    assert "pwd_exists" in found["sess_00.kohakutr"]
    assert "pwd_exists" not in found["mirrored.kohakutr"]


@pytest.mark.parametrize(
    ("path", "request_of_the_peer"),
    [
        ("/api/sessions?limit=3", "GET /api/sessions?limit=3"),
        ("/api/sessions/stats", "GET /api/sessions/stats"),
        ("/api/sessions/disk-usage", "GET /api/sessions/disk-usage"),
    ],
)
def test_an_answer_has_every_field_of_the_peers(
    client: TestClient, path: str, request_of_the_peer: str
) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    assert sample_keys(request_of_the_peer) <= set(answer.json())


def test_pages_are_walked_by_cursor(client: TestClient) -> None:
    first = client.get("/api/sessions", params={"limit": 2, "sort": "name", "order": "asc"}).json()
    more = {"limit": 2, "sort": "name", "order": "asc", "cursor": first["next_cursor"]}
    second = client.get("/api/sessions", params=more).json()

    names = [row["name"] for row in first["sessions"] + second["sessions"]]
    assert names == ["s000", "s001", "s002"]
    assert second["next_cursor"] is None


def test_what_is_new_shows_after_a_refresh(client: TestClient, directory: Path) -> None:
    before = client.get("/api/sessions").json()["total"]
    record(directory / "new.kohakutr", "new")

    stale = client.get("/api/sessions").json()["total"]
    fresh = client.get("/api/sessions", params={"refresh": "true", "search": "new"}).json()

    assert (before, stale) == (3, 3)
    assert [row["name"] for row in fresh["sessions"]] == ["new"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("limit", "abc"),
        ("limit", "1e3"),
        ("limit", ""),
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", "501"),
        ("offset", str(2**63)),
        ("offset", "-1"),
        ("sort", "password"),
        ("order", "up"),
        ("cursor", "nothing"),
        ("refresh", "perhaps"),
        ("colour", "red"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(client: TestClient, argument: str, value: str) -> None:
    answer = client.get("/api/sessions", params={argument: value})

    assert 400 <= answer.status_code < 500
    assert argument in answer.text


def test_a_filter_is_matched_literally(client: TestClient) -> None:
    answer = client.get("/api/sessions", params={"status": "x' OR '1'='1", "search": "NEAR("})

    assert answer.status_code == 200
    assert answer.json()["total"] == 0


@pytest.mark.parametrize("body", [b"x" * 100_000_000, b"[1, 2", b'"text"'])
def test_a_body_that_nobody_asked_for_does_no_harm(client: TestClient, body: bytes) -> None:
    answer = client.request("DELETE", "/api/sessions/nothing", content=body)

    assert answer.status_code == 404


def test_a_session_is_found_by_its_name_or_its_file(client: TestClient) -> None:
    by_name, by_file = client.get("/api/sessions/s001"), client.get("/api/sessions/s001.kohakutr")
    missing = client.get("/api/sessions/s0")

    assert by_name.json() == by_file.json()
    assert by_name.json()["preview"] == "words 1"
    assert missing.status_code == 404


def test_a_deleted_session_is_gone_whole(client: TestClient, directory: Path) -> None:
    with SessionStore(directory / "s001.kohakutr") as store:
        store.write_artifact("a.txt", b"a")
    client.get("/api/sessions")

    answer = client.delete("/api/sessions/s001")

    body = cast("Body", answer.json())
    assert answer.status_code == 200
    assert (body["status"], body["name"]) == ("deleted", "s001")
    assert sorted(cast("list[str]", body["files"])) == [
        "s001.artifacts",
        "s001.kohakutr",
        "s001.kohakutr.lock",
    ]
    assert client.get("/api/sessions/s001").status_code == 404
    assert client.get("/api/sessions").json()["total"] == 2
    assert not {name for name in files_below(directory) if name.startswith("s001")}


@pytest.mark.parametrize(
    "name",
    [
        "..%2F..%2Fvictim",
        "%2e%2e%2fvictim",
        "..%5Cvictim",
        "%2Fetc%2Fpasswd",
        "..%2Fvictim.kohakutr",
        "victim%00.json",
        "%2e",
        "s00",
        "S001",
        "s*",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_name_leads_anywhere_but_to_its_session(
    client: TestClient, directory: Path, method: str, name: str
) -> None:
    client.get("/api/sessions")
    before = files_below(directory.parent)

    answer = client.request(method, f"/api/sessions/{name}")

    assert 400 <= answer.status_code < 500
    assert files_below(directory.parent) == before


def test_a_session_in_use_is_a_conflict(client: TestClient, directory: Path) -> None:
    with SessionStore(directory / "s001.kohakutr", writer_lock=True):
        answer = client.delete("/api/sessions/s001")

    assert answer.status_code == 409
    assert (directory / "s001.kohakutr").is_file()


def test_with_a_token_every_request_needs_it(directory: Path) -> None:
    with TestClient(create_app(directory, token="open sesame")) as client:  # noqa: S106  # a test's
        answers = [
            client.get("/api/sessions", headers=headers).status_code
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "Basic open sesame"},
                {"Authorization": "Bearer open sesame"},
            )
        ]
    close_session_index()

    assert answers == [401, 401, 401, 200]


def test_no_host_but_this_one_is_served_without_a_token(directory: Path) -> None:
    with pytest.raises(ValueError, match="token"):
        serve(directory, host="0.0.0.0")  # noqa: S104  # that is what is refused


def test_the_command_serves_elsewhere_only_with_a_token(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["serve", "--dir", str(directory), "--host", "0.0.0.0"])  # noqa: S104  # as above

    assert code == 2
    assert "token" in capsys.readouterr().err


def test_the_description_of_the_api_is_whole(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert set(paths) == {
        "/api/search",
        "/api/sessions",
        "/api/sessions/stats",
        "/api/sessions/disk-usage",
        "/api/sessions/{name}",
        "/api/sessions/{name}/memory/build",
        "/api/sessions/{name}/memory/search",
        "/api/sessions/{name}/memory/status",
    }
    assert "409" in paths["/api/sessions/{name}"]["delete"]["responses"]


def test_the_description_is_behind_the_token_too(directory: Path) -> None:
    with TestClient(create_app(directory, token="open sesame")) as client:  # noqa: S106  # a test's
        bearer = {"Authorization": "Bearer open sesame"}

        refused = {
            path: client.get(path).status_code for path in ("/openapi.json", "/docs", "/redoc")
        }
        description = client.get("/openapi.json", headers=bearer)

    assert refused == {"/openapi.json": 401, "/docs": 404, "/redoc": 404}
    assert "/api/sessions" in description.json()["paths"]


def test_a_wrong_method_is_told_all_that_the_path_has(client: TestClient) -> None:
    paths = ("/api/sessions", "/api/sessions/x", "/api/sessions/stats")

    answers = [client.options(path) for path in paths]

    assert [answer.status_code for answer in answers] == [405, 405, 405]
    assert [answer.headers["Allow"] for answer in answers] == ["GET", "DELETE, GET", "GET"]


def test_a_directory_that_cannot_be_listed_is_told(client: TestClient, directory: Path) -> None:
    good = client.get("/api/sessions", params={"refresh": True}).json()["unreadable"]
    directory.rename(directory.with_name("moved"))
    directory.write_bytes(b"no directory")

    answer = client.get("/api/sessions", params={"refresh": True})

    assert "." not in {one["path"] for one in good}
    assert answer.status_code == 200
    assert "." in {one["path"] for one in answer.json()["unreadable"]}


def test_an_application_that_watches_follows_its_directory(directory: Path) -> None:
    pytest.importorskip("watchfiles")

    def listed() -> set[str]:
        rows = following.get("/api/sessions", params={"limit": 100}).json()["sessions"]
        return {row["filename"] for row in rows}

    with TestClient(create_app(directory, watch=True)) as following:
        is_whole = listed() == {"s000.kohakutr", "s001.kohakutr", "s002.kohakutr"}
        record(directory / "new.kohakutr", "one")
        is_found = comes_true(lambda: "new.kohakutr" in listed())
        (directory / "new.kohakutr").unlink()
        is_gone = comes_true(lambda: "new.kohakutr" not in listed())
    threads = [thread.name for thread in threading.enumerate()]
    close_session_index()

    assert (is_whole, is_found, is_gone) == (True, True, True)
    assert "amberlog-index-watch" not in threads


def test_the_command_that_watches_ends_when_it_is_told_to(directory: Path) -> None:
    pytest.importorskip("watchfiles")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "amberlog", "serve", "--dir", str(directory), "--port", str(port), "--watch"]

    def listed(name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/sessions") as answer:
                return name in {row["name"] for row in json.load(answer)["sessions"]}
        except urllib.error.URLError:
            return False

    with subprocess.Popen([sys.executable, *command], env=environment()) as server:
        is_up = comes_true(lambda: listed("s000"))
        record(directory / "new.kohakutr", "one")
        is_followed = comes_true(lambda: listed("new"))
        server.send_signal(signal.SIGTERM)
        code = server.wait()

    assert (is_up, is_followed) == (True, True)
    assert code in (0, -signal.SIGTERM)

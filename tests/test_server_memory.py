"""The memory of sessions over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from amberlog import SessionStore
from amberlog.index import close_session_index
from amberlog.server import create_app
from support.kohaku import FIXTURES, unpack
from support.sessions import files_below, many, record
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Body = dict[str, object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Returns a directory with the peer's fixture and ours, and something outside of it."""
    directory = tmp_path / "sessions"
    many(directory, 2)
    unpack("vectors.kohakutr.gz", directory, "vectors.kohakutr")
    (directory / "broken.kohakutr").write_bytes(b"no session")
    record(tmp_path / "victim.kohakutr", "a secret")
    return directory


@pytest.fixture
def client(directory: Path) -> Iterator[TestClient]:
    """Yields a client of the application over that directory."""
    with TestClient(create_app(directory), raise_server_exceptions=False) as client:
        yield client
    close_session_index()


def sample(request: str) -> Body:
    """Returns what the peer answered to a request."""
    samples = json.loads((FIXTURES / "http_samples.json").read_text(encoding="utf-8"))
    return cast("Body", next(one["body"] for one in samples if one.get("request") == request))


def results(body: object) -> list[Body]:
    """Returns the hits of an answer."""
    return cast("list[Body]", cast("Body", body)["results"])


def build_of(client: TestClient, name: str) -> Body:
    """Returns how the build of a session stands."""
    return cast("Body", client.get(f"/api/sessions/{name}/memory/status").json()["build"])


def test_a_search_is_answered_as_by_the_peer(client: TestClient) -> None:
    request = "/api/sessions/vectors/memory/search?q=login%20token&mode=fts&k=2"
    peers = sample(f"GET {request}")

    body = client.get(request).json()

    # Scores are ours; what is found, and where it stands, is the same.
    shared = set(results(peers)[0]) - {"score"}
    assert set(body) == set(peers)
    assert {key: body[key] for key in set(body) - {"results"}} == {
        key: peers[key] for key in set(peers) - {"results"}
    }
    assert [{key: hit[key] for key in shared} for hit in results(body)] == [
        {key: hit[key] for key in shared} for hit in results(peers)
    ]


def test_the_status_and_a_build_have_every_field_of_the_peers(client: TestClient) -> None:
    status = client.get("/api/sessions/vectors/memory/status").json()
    build = client.post("/api/sessions/vectors/memory/build", json={"embedder": "auto"})

    peers = sample("GET /api/sessions/vectors/memory/status")
    assert set(peers) <= set(status)
    assert {key: status[key] for key in ("embedder", "model", "fts_blocks", "agents")} == {
        key: peers[key] for key in ("embedder", "model", "fts_blocks", "agents")
    }
    begun = sample("POST /api/sessions/vectors/memory/build")
    assert build.status_code == 200
    assert set(begun) <= set(build.json())
    assert build.json()["request"] == begun["request"]
    assert build.json()["status"] == "/api/sessions/vectors/memory/status"


def test_a_missing_session_is_not_found(client: TestClient) -> None:
    answers = [
        client.get("/api/sessions/nope/memory/search", params={"q": "x"}),
        client.get("/api/sessions/nope/memory/status"),
        client.post("/api/sessions/nope/memory/build", json={}),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert all("nope" in answer.json()["detail"] for answer in answers)


def test_what_was_recorded_a_moment_ago_is_found(client: TestClient, directory: Path) -> None:
    with SessionStore(directory / "s001.kohakutr") as store:
        store.append_event("alice", "user_input", {"content": "the word zebrafish42"})

        body = client.get("/api/sessions/s001/memory/search", params={"q": "zebrafish42"}).json()

    hit = results(body)[0]
    assert body["count"] == 1
    assert (hit["event_key"], hit["block_id"]) == ("alice:e000003", "alice:e3:p0")


def test_the_status_changes_nothing(client: TestClient, directory: Path) -> None:
    client.get("/api/sessions")
    before = (directory / "vectors.kohakutr").read_bytes(), files_below(directory)

    client.get("/api/sessions/vectors/memory/status")

    assert ((directory / "vectors.kohakutr").read_bytes(), files_below(directory)) == before


@pytest.mark.parametrize(
    "query",
    ["park.", "don't use", '"', 'a"b', "foo::bar", "C++", "AND", "NEAR(", "*", " ", "", "\0", "🚀"],
)
def test_no_query_is_an_error(client: TestClient, query: str) -> None:
    answer = client.get("/api/sessions/s001/memory/search", params={"q": query})

    assert answer.status_code == 200
    assert answer.json()["count"] == len(results(answer.json()))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("k", "abc"),
        ("k", "1e3"),
        ("k", ""),
        ("k", "0"),
        ("k", str(2**63)),
        ("mode", "magic"),
        ("since", "yesterday"),
        ("until", "nan"),
        ("since", "9" * 400),
        ("colour", "red"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(client: TestClient, argument: str, value: str) -> None:
    answer = client.get("/api/sessions/s001/memory/search", params={"q": "x", argument: value})

    assert 400 <= answer.status_code < 500
    assert argument in answer.text


def test_the_query_must_be_given(client: TestClient) -> None:
    answer = client.get("/api/sessions/s001/memory/search")

    assert answer.status_code == 422
    assert '"q"' in answer.text


def test_an_agent_is_matched_literally(client: TestClient) -> None:
    found = {
        agent: client.get(
            "/api/sessions/vectors/memory/search",
            params={"q": "login token", "agent": agent, "mode": "fts"},
        ).json()["count"]
        for agent in ("alice", "x' OR '1'='1", "al*", "")
    }

    assert found["alice"] > 0
    assert [found[agent] for agent in ("x' OR '1'='1", "al*", "")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"x" * 100_000_000, "body"),
        (b"[1, 2", "body"),
        (b'"text"', "body"),
        (b'{"embedder": "magic"}', "embedder"),
        (b'{"embedder": 5}', "embedder"),
        (b'{"dimensions": "many"}', "dimensions"),
        (b'{"dimensions": 0}', "dimensions"),
        (b'{"dimensions": 100000000000000000000}', "dimensions"),
        (b'{"embedder": "static", "dimensions": 300}', "dimensions"),
        (b'{"force": "perhaps"}', "force"),
        (b'{"colour": "red"}', "colour"),
        (b'{"embedder": "static", "model": "/etc/passwd"}', "model"),
        (b'{"embedder": "model2vec", "model": "../victim"}', "model"),
        (b'{"embedder": "sentence-transformer", "model": "@none"}', "model"),
    ],
)
def test_a_wrong_body_is_refused_by_name(client: TestClient, body: bytes, named: str) -> None:
    answer = client.post(
        "/api/sessions/s001/memory/build",
        content=body,
        headers={"Content-Type": "application/json"},
    )

    assert 400 <= answer.status_code < 500
    assert named in answer.text
    assert build_of(client, "s001")["state"] == "idle"


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fvictim", "%2e%2e%2fvictim", "..%5Cvictim", "victim%00", "s00", "S001", "s*"]
)
def test_no_name_leads_anywhere_but_to_its_session(
    client: TestClient, directory: Path, name: str
) -> None:
    client.get("/api/sessions")
    before = files_below(directory.parent)

    answers = [
        client.get(f"/api/sessions/{name}/memory/search", params={"q": "secret"}),
        client.get(f"/api/sessions/{name}/memory/status"),
        client.post(f"/api/sessions/{name}/memory/build", json={}),
    ]

    assert all(400 <= answer.status_code < 500 for answer in answers)
    assert files_below(directory.parent) == before


def test_a_session_that_cannot_be_read_is_named(client: TestClient) -> None:
    answers = [
        client.get("/api/sessions/broken/memory/search", params={"q": "x"}),
        client.get("/api/sessions/broken/memory/status"),
    ]

    assert [answer.status_code for answer in answers] == [409, 409]
    assert all("broken" in answer.json()["detail"] for answer in answers)


def test_a_build_runs_until_it_is_done(client: TestClient) -> None:
    begun = client.post("/api/sessions/vectors/memory/build", json={"embedder": "none"})

    assert begun.status_code == 200
    assert comes_true(lambda: build_of(client, "vectors")["state"] == "done")
    assert build_of(client, "vectors")["error"] is None


def test_a_build_that_fails_says_why(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    begun = client.post("/api/sessions/s000/memory/build", json={"embedder": "api"})

    assert begun.status_code == 200
    assert comes_true(lambda: build_of(client, "s000")["state"] == "failed")
    assert "OPENAI_API_KEY" in str(build_of(client, "s000")["error"])


def test_the_routes_need_the_token_too(directory: Path) -> None:
    with TestClient(create_app(directory, token="open sesame")) as client:  # noqa: S106  # a test's
        answers = [
            client.get("/api/sessions/s001/memory/search", params={"q": "x"}),
            client.get("/api/sessions/s001/memory/status"),
            client.post("/api/sessions/s001/memory/build", json={}),
        ]
    close_session_index()

    assert [answer.status_code for answer in answers] == [401, 401, 401]


def test_the_description_says_what_is_taken_and_returned(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    search = paths["/api/sessions/{name}/memory/search"]["get"]
    build = paths["/api/sessions/{name}/memory/build"]["post"]
    taken = {one["name"]: one["in"] for one in search["parameters"]}
    assert taken == {
        "name": "path",
        **dict.fromkeys(("q", "mode", "k", "agent", "since", "until"), "query"),
    }
    assert {"200", "400", "404", "409", "422"} <= set(build["responses"])

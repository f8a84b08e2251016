"""Asking by meaning: the tool, the command that makes vectors, builds over HTTP."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from amberlog import SessionStore, tool
from amberlog.cli import main
from amberlog.embedding import StaticEmbedder
from amberlog.errors import SessionError
from amberlog.index import close_session_index
from amberlog.server import create_app
from support.sessions import record
from support.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from amberlog.embedding import Matrix

    Body = dict[str, object]

CAR = "Our automobile needs a repair."
NOTICE = "Embedding unavailable; using keyword search: "


class Failing:
    """An embedder that raises what nobody expects."""

    model_id = "failing"
    dimensions = 4

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Raises."""
        raise ZeroDivisionError(f"the model cannot take {len(texts)} texts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns a session in which somebody said what other words would ask for."""
    return record(tmp_path / "task.kohakutr", CAR, "The weather is fine.", "Deploy on Monday.")


def settings(path: Path) -> object:
    """Returns by which embedder a session says that it was built."""
    with SessionStore.open_readonly(path) as store:
        return store.state.get("embedding_config")


def test_meaning_finds_what_words_do_not(path: Path) -> None:
    by_words = tool.search_memory(path, query="broken car", mode="fts")
    by_meaning = tool.search_memory(path, query="broken car", mode="semantic", k=1)

    assert by_words == "No results found."
    assert CAR in by_meaning


def test_a_search_makes_no_vectors_unasked(path: Path) -> None:
    tool.search_memory(path, query="automobile")

    assert tool.search_memory(path, query="broken car") == "No results found."
    assert settings(path) is None


def test_an_embedder_that_is_handed_over_is_used_and_only_new_events_cost(path: Path) -> None:
    asked: list[int] = []

    class Counting(StaticEmbedder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            asked.append(len(texts))
            return super().encode(texts)

    embedder = Counting()
    with SessionStore(path) as store:
        tool.search_memory(store, query="broken car", embedder=embedder)
        asked.clear()
        store.append_event("alice", "user_input", {"content": "The lorry is fast."})

        found = tool.search_memory(store, query="quick truck", k=1, embedder=embedder)

    assert "The lorry is fast." in found
    # The one new block, and the query.
    assert asked == [1, 1]


@pytest.mark.parametrize("mode", ["auto", "hybrid"])
def test_words_answer_where_an_embedder_raises_anything(path: Path, mode: str) -> None:
    text = tool.search_memory(path, query="automobile", mode=mode, embedder=Failing())

    assert text.startswith(NOTICE)
    assert CAR in text


def test_only_meaning_raises(path: Path) -> None:
    with SessionStore(path) as store:
        with pytest.raises(SessionError, match="cannot take"):
            tool.search_memory(store, query="x", mode="semantic", embedder=Failing())

        # An append never asks an embedder.
        store.append_event("alice", "user_input", {"content": "and on it goes"})
        assert "and on it goes" in tool.search_memory(store, query="goes", embedder=Failing())


@pytest.mark.parametrize(
    "kept",
    [
        {"provider": "api", "base_url": "http://127.0.0.1:9", "api_key_env": "HOME"},
        {"provider": "magic"},
        {"provider": 5},
        {"provider": "static", "dimensions": -1},
    ],
)
def test_settings_of_a_stranger_cost_the_meaning_only(
    path: Path, kept: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with SessionStore(path) as store:
        store.state["embedding_config"] = kept

        text = tool.search_memory(store, query="automobile")
        output = tool.call_tool(store, "search_memory", {"query": "x", "mode": "semantic"})

    # No address and no key is taken from a session, so nothing was sent anywhere.
    assert text.startswith(NOTICE)
    assert CAR in text
    assert output.is_error


def test_the_command_makes_vectors_that_a_search_then_uses(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [main(["embedding", str(path), "--json"])]
    first = cast("Body", json.loads(capsys.readouterr().out))
    codes.append(main(["embedding", str(path)]))
    again = capsys.readouterr().out
    codes.append(main(["search", str(path), "broken car", "--json"]))
    found = cast("Body", json.loads(capsys.readouterr().out))

    hits = cast("list[Body]", found["hits"])
    assert codes == [0, 0, 0]
    assert first["vectors"] == first["blocks"] == 6
    assert settings(path) == {"provider": "static", "model": None, "dimensions": None}
    assert re.search(r"6 blocks, 6 vectors by static/\S+", again)
    assert found["mode"] == "hybrid"
    assert CAR in [hit["text"] for hit in hits]


def test_the_command_makes_those_of_all_sessions_and_names_what_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "sessions"
    paths = [record(directory / f"s{place}.kohakutr", CAR) for place in range(2)]
    (directory / "broken.kohakutr").write_bytes(b"no session")

    code = main(["embedding", "--all", "--dir", str(directory), "--json"])

    out, err = capsys.readouterr()
    close_session_index()
    told = cast("dict[str, list[Body]]", json.loads(out))
    assert code == 1
    assert [one["path"] for one in told["sessions"]] == [str(path) for path in paths]
    assert "broken.kohakutr" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--provider", "magic"], "provider"),
        (["--dimensions", "0"], "--dimensions"),
        (["--dimensions", "1e3"], "--dimensions"),
        (["--dimensions", "300"], "dimensions"),
        (["--provider", "onnx"], "model"),
        (["--all"], "--all"),
    ],
)
def test_a_wrong_option_is_named(
    path: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["embedding", str(path), *arguments])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert named in err
    assert settings(path) is None


def test_a_build_over_http_makes_vectors_and_the_status_counts_them(path: Path) -> None:
    with TestClient(create_app(path.parent)) as client:
        before = client.get("/api/sessions/task/memory/status").json()
        client.post("/api/sessions/task/memory/build", json={"embedder": "static"})
        assert comes_true(
            lambda: (
                client.get("/api/sessions/task/memory/status").json()["build"]["state"] == "done"
            )
        )
        after = client.get("/api/sessions/task/memory/status").json()
        body = client.get("/api/sessions/task/memory/search", params={"q": "broken car"}).json()
    close_session_index()

    assert (before["indexed"], before["vec_blocks"]) == (False, 0)
    assert (after["indexed"], after["vec_blocks"], after["dimensions"]) == (True, 6, 256)
    assert (after["embedder"], after["build"]["total"]) == ("static", 6)
    assert CAR in [hit["content"] for hit in body["results"]]
    assert "warning" not in body

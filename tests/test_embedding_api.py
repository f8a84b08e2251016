"""The embedder behind an HTTP endpoint, against an endpoint of this machine."""

from __future__ import annotations

import socket

import pytest

from amberlog.embedding import ApiEmbedder, Patience, create_embedder
from amberlog.errors import EmbeddingError, EmbeddingRequestError
from support.endpoint import Reply, serving, vector_of

AT_ONCE = Patience(timeout_s=30, attempts=3, delay_s=0)


def embedder_at(url: str, *, batch: int = 128, patience: Patience = AT_ONCE) -> ApiEmbedder:
    return ApiEmbedder("secret-key", model="m", base_url=url, batch=batch, patience=patience)


def test_vectors_are_in_the_order_of_the_texts_whatever_the_order_of_the_answer() -> None:
    texts = ["one", "three", "fourteen"]

    with serving() as endpoint:
        matrix = embedder_at(endpoint.url).encode(texts)

    assert matrix.tolist() == [vector_of(text) for text in texts]
    assert endpoint.paths == ["/v1/embeddings"]
    assert endpoint.headers[0]["authorization"] == "Bearer secret-key"
    assert endpoint.bodies == [{"input": texts, "model": "m", "encoding_format": "float"}]


def test_texts_go_in_batches() -> None:
    texts = [f"{number} things" for number in range(7)]

    with serving() as endpoint:
        matrix = embedder_at(endpoint.url, batch=3).encode(texts)

    assert endpoint.inputs() == [texts[:3], texts[3:6], texts[6:]]
    assert matrix.tolist() == [vector_of(text) for text in texts]


def test_long_texts_go_in_smaller_batches() -> None:
    texts = ["a" * 200_000, "b" * 200_000, "c"]

    with serving() as endpoint:
        embedder_at(endpoint.url).encode(texts)

    assert endpoint.inputs() == [texts[:1], texts[1:]]


def test_texts_without_a_character_are_not_sent_and_have_zeros() -> None:
    with serving() as endpoint:
        matrix = embedder_at(endpoint.url).encode(["", "two", " \n"])

    assert endpoint.inputs() == [["two"]]
    assert matrix.tolist() == [[0, 0, 0], vector_of("two"), [0, 0, 0]]


def test_half_of_a_surrogate_pair_is_sent_as_the_replacement_character() -> None:
    with serving() as endpoint:
        embedder_at(endpoint.url).encode(["abc\ud83d", "\ud83d\ude80"])

    assert endpoint.inputs() == [["abc\ufffd", "\U0001f680"]]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(status: int) -> None:
    with serving(Reply(status, {"error": "busy"}), Reply(status, "")) as endpoint:
        matrix = embedder_at(endpoint.url).encode(["one"])

    assert matrix.tolist() == [vector_of("one")]
    assert endpoint.inputs() == [["one"]] * 3


def test_the_endpoint_says_how_long_to_wait() -> None:
    patient = Patience(timeout_s=30, attempts=2, delay_s=30)

    with serving(Reply(429, "", {"retry-after": "0"})) as endpoint:
        matrix = embedder_at(endpoint.url, patience=patient).encode(["one"])

    assert matrix.rows == 1
    assert len(endpoint.bodies) == 2


def test_a_failure_that_stays_is_raised_with_its_status_and_attempts() -> None:
    with (
        serving(*[Reply(500, "out of order")] * 3) as endpoint,
        pytest.raises(EmbeddingRequestError, match="500 out of order") as caught,
    ):
        embedder_at(endpoint.url).encode(["one"])

    assert (caught.value.status, caught.value.attempts) == (500, 3)
    assert "secret-key" not in str(caught.value)


def test_a_refusal_is_not_tried_again() -> None:
    with (
        serving(Reply(401, {"error": "who are you"})) as endpoint,
        pytest.raises(EmbeddingRequestError, match="401") as caught,
    ):
        embedder_at(endpoint.url).encode(["one"])

    assert (caught.value.status, caught.value.attempts) == (401, 1)
    assert len(endpoint.bodies) == 1


def test_an_endpoint_that_does_not_answer_is_given_up() -> None:
    hurried = Patience(timeout_s=0.05, attempts=2, delay_s=0)

    with (
        serving(Reply(hangs=True), Reply(hangs=True)) as endpoint,
        pytest.raises(EmbeddingRequestError, match="Timeout") as caught,
    ):
        embedder_at(endpoint.url, patience=hurried).encode(["one"])

    assert (caught.value.status, caught.value.attempts) == (None, 2)


def test_an_endpoint_that_is_not_there_is_given_up() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"

        with pytest.raises(EmbeddingRequestError, match="ConnectError") as caught:
            embedder_at(url).encode(["one"])

    assert caught.value.attempts == 3


@pytest.mark.parametrize(
    "body",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": [{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": ["y"]}]},
        {"data": [{"index": "a", "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1e300]}, {"index": 1, "embedding": [1.0]}]},
        {"data": [1, 2]},
        {"vectors": []},
        [],
    ],
)
def test_an_answer_with_other_vectors_than_asked_for_is_refused(body: object) -> None:
    with serving(Reply(200, body)) as endpoint, pytest.raises(EmbeddingError):
        embedder_at(endpoint.url).encode(["one", "two"])


def test_an_answer_that_is_not_json_is_refused() -> None:
    with (
        serving(Reply(200, "<html>")) as endpoint,
        pytest.raises(EmbeddingRequestError, match="not JSON: <html>"),
    ):
        embedder_at(endpoint.url).encode(["one"])


def test_a_size_is_asked_for_and_held_to() -> None:
    with serving() as endpoint:
        embedder = create_embedder(
            {"provider": "api", "api_key": "k", "base_url": endpoint.url, "dimensions": 2}
        )

        with pytest.raises(EmbeddingError, match="of 3 numbers, not of 2"):
            embedder.encode(["one"])

    assert embedder.dimensions == 2
    assert endpoint.bodies[0]["dimensions"] == 2


def test_a_size_that_nobody_said_is_learned_from_the_endpoint() -> None:
    with serving() as endpoint:
        embedder = embedder_at(endpoint.url)

        first, second = embedder.dimensions, embedder.dimensions

    assert (first, second) == (3, 3)
    assert len(endpoint.bodies) == 1


def test_the_key_comes_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "from-outside")

    with serving() as endpoint:
        create_embedder(
            {"provider": "api", "api_key_env": "MY_KEY", "base_url": endpoint.url}
        ).encode(["one"])

    assert endpoint.headers[0]["authorization"] == "Bearer from-outside"


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ValueError, match="OPENAI_API_KEY is not set"):
        create_embedder({"provider": "api"})


def test_an_endpoint_without_keys_is_sent_none() -> None:
    with serving() as endpoint:
        create_embedder(
            {"provider": "api", "api_key_env": "", "base_url": endpoint.url, "model": "local"}
        ).encode(["one"])

    assert "authorization" not in endpoint.headers[0]


def test_models_of_different_hosts_are_different_models() -> None:
    ours = ApiEmbedder("k", model="m", base_url="http://user:pw@one.example/v1")
    theirs = ApiEmbedder("k", model="m", base_url="http://two.example/v1")
    smaller = ApiEmbedder("k", model="m", base_url="http://two.example/v1", dimensions=8)

    ids = [embedder.model_id for embedder in (ours, theirs, smaller)]

    assert ids == ["api/one.example/m", "api/two.example/m", "api/two.example/m/8"]

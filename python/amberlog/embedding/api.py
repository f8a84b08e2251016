"""An embedder behind an HTTP endpoint of the form that OpenAI gave it; needs the extra `api`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from amberlog.embedding._matrix import Matrix, as_matrix
from amberlog.embedding.local import imported, tidy
from amberlog.embedding.static import listed
from amberlog.errors import EmbeddingError, EmbeddingRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import httpx

OPENAI = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"
_OWN_SIZES = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_LONGEST_WAIT_S = 30.0
# The most text of one request: the endpoint's own bound is 300,000 tokens.
_MOST_CHARACTERS = 300_000
_SHOWN = 300


class Patience(NamedTuple):
    """How long an endpoint is waited for.

    Attributes:
        timeout_s: Seconds for one request.
        attempts: How many times a request is made before it fails.
        delay_s: Seconds before the second attempt; doubled before each further one, 30 at most.
            Where the endpoint says how long (`Retry-After`), that is waited instead.
    """

    timeout_s: float = 30.0
    attempts: int = 4
    delay_s: float = 0.5


class ApiEmbedder:
    """Vectors from `POST {base_url}/embeddings`.

    Texts go in batches. A timeout, a broken connection, 429 and 5xx are tried again; any other
    refusal is raised at once. Texts without a character are not sent: they have rows of zeros. The
    key is sent as a bearer token to `base_url` and nowhere else, and is part of no message.

    Args:
        api_key: The key; None sends none.
        model: The model's name.
        base_url: Where the endpoint is.
        dimensions: The size to ask the endpoint for. None: the model's own, which is known for the
            models of OpenAI and else learned from the first answer.
        batch: The most texts of one request.
        patience: How long the endpoint is waited for.

    Raises:
        MissingExtraError: `httpx` is not installed.
    """

    def __init__(
        self,
        api_key: str | None,
        *,
        model: str = DEFAULT_MODEL,
        base_url: str = OPENAI,
        dimensions: int | None = None,
        batch: int = 128,
        patience: Patience = Patience(),  # noqa: B008  # it cannot be changed
    ) -> None:
        self._http = imported("httpx", extra="api")
        self._client: httpx.Client = self._http.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=patience.timeout_s,
        )
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._asked = dimensions
        self._known = dimensions or (_OWN_SIZES.get(model) if base_url == OPENAI else None)
        self._batch = batch
        self._patience = patience

    @property
    def model_id(self) -> str:
        """Host and model, and the size where one was asked for."""
        size = f"/{self._asked}" if self._asked else ""
        return f"api/{urlsplit(self._url).netloc.rpartition('@')[2]}/{self._model}{size}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; asks the endpoint once where nobody has said so."""
        if self._known is None:
            self._known = self._ask(["."]).dimensions
        return self._known

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row for each text.

        Raises:
            EmbeddingRequestError: The endpoint failed at every attempt, or refused.
            EmbeddingError: Its answer holds other vectors than were asked for.
        """
        given = [tidy(text) for text in listed(texts)]
        asked = [at for at, text in enumerate(given) if text.strip()]
        rows: dict[int, memoryview[float]] = {}
        for batch in self._batches([given[at] for at in asked]):
            vectors = self._ask(batch)
            self._known = self._known or vectors.dimensions
            for row in vectors:
                rows[asked[len(rows)]] = row
        if not given:
            return Matrix(b"", 0, self._known or 0)
        nothing = bytes(4 * self.dimensions)
        data = b"".join(rows.get(at, nothing) for at in range(len(given)))
        return Matrix(data, len(given), self.dimensions)

    def close(self) -> None:
        """Closes the connections that are kept for further requests."""
        self._client.close()

    def __repr__(self) -> str:
        return f"ApiEmbedder({self.model_id!r})"

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) >= self._batch or size + len(text) > _MOST_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    def _ask(self, texts: list[str]) -> Matrix:
        body: dict[str, object] = {"input": texts, "model": self._model, "encoding_format": "float"}
        if self._asked:
            body["dimensions"] = self._asked
        answer = self._answer(body)
        return as_matrix(_vectors(answer, len(texts)), rows=len(texts), dimensions=self._known)

    def _answer(self, body: dict[str, object]) -> object:
        attempts = max(1, self._patience.attempts)
        for attempt in range(1, attempts + 1):
            wait = min(self._patience.delay_s * 2 ** (attempt - 1), _LONGEST_WAIT_S)
            status: int | None = None
            try:
                response = self._client.post(self._url, json=body)
            except self._http.TransportError as error:
                reason, again = f"{type(error).__name__} {error}".strip(), True
            else:
                status = response.status_code
                if response.is_success:
                    return _parsed(response, attempt)
                reason, again = f"{status} {response.text[:_SHOWN]}".strip(), status in _AGAIN
                wait = _told(response.headers.get("retry-after"), wait)
            if attempt == attempts or not again:
                raise EmbeddingRequestError(
                    f"cannot embed at {self._url}: {reason}", status=status, attempts=attempt
                )
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def _told(header: str | None, otherwise: float) -> float:
    try:
        return min(max(0.0, float(header or "")), _LONGEST_WAIT_S)
    except ValueError:
        # It may also be a date: then our own delay does.
        return otherwise


def _parsed(response: httpx.Response, attempt: int) -> object:
    try:
        answer: object = response.json()
    except ValueError as error:
        raise EmbeddingRequestError(
            f"cannot embed at {response.url}: the answer is not JSON: {response.text[:_SHOWN]}",
            status=response.status_code,
            attempts=attempt,
        ) from error
    return answer


def _vectors(answer: object, count: int) -> list[list[float]]:
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise EmbeddingError("the endpoint's answer has no list `data`")
    found: dict[int, list[float]] = {}
    for place, entry in enumerate(entries):
        vector = entry.get("embedding") if isinstance(entry, dict) else None
        if not isinstance(vector, list):
            raise EmbeddingError(f"the endpoint's answer has no list `data[{place}].embedding`")
        index = entry.get("index", place)
        found[index if isinstance(index, int) else -1] = vector
    if sorted(found) != list(range(count)):
        raise EmbeddingError(f"the endpoint answered {len(entries)} vectors for {count} texts")
    return [found[at] for at in range(count)]


__all__ = ["ApiEmbedder", "Patience"]

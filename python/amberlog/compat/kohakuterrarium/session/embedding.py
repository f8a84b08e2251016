"""Embedders under the peer's contract: vectors are arrays of numpy."""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

import amberlog.embedding
from amberlog.embedding.presets import (
    DEFAULT_MODEL2VEC,
    DEFAULT_SENTENCE_TRANSFORMER,
)
from amberlog.embedding.presets import (
    MODEL2VEC_PRESETS as _MODEL2VEC,
)
from amberlog.embedding.presets import (
    SENTENCE_TRANSFORMER_PRESETS as _SENTENCE_TRANSFORMER,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    import numpy as np

    from amberlog.embedding import Embedder

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

logger = logging.getLogger("amberlog")

DEFAULT_M2V_MODEL = DEFAULT_MODEL2VEC
DEFAULT_ST_MODEL = DEFAULT_SENTENCE_TRANSFORMER

MODEL2VEC_PRESETS = {name: {"model": model} for name, model in _MODEL2VEC.items()}
"""Models of `model2vec` by the name that follows `@`."""

ST_PRESETS = {name: {"model": model} for name, model in _SENTENCE_TRANSFORMER.items()}
"""Models of `sentence-transformers`, likewise."""

_PROVIDERS = ("auto", "static", "hash", "model2vec", "sentence-transformer", "onnx", "api", "none")


class BaseEmbedder(ABC):
    """What embedders of the peer are made of."""

    dimensions: int = 0

    @abstractmethod
    def encode(self, texts: list[str]) -> Array:
        """Returns one row of 32-bit floats for each text."""

    def encode_one(self, text: str) -> Array:
        """Returns the vector of one text."""
        return cast("Array", self.encode([text])[0])


class OurEmbedder(BaseEmbedder):
    """An embedder of ours under the peer's contract.

    Args:
        embedder: The embedder.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._ours = embedder
        self.dimensions = embedder.dimensions

    @property
    def model_id(self) -> str:
        """What tells its vectors from those of another model."""
        return self._ours.model_id

    def encode(self, texts: list[str]) -> Array:
        """Returns one row of 32-bit floats for each text."""
        numpy = _numpy()
        matrix = amberlog.embedding.encode_checked(self._ours, texts)
        return cast("Array", numpy.array(matrix, dtype=numpy.float32))


class Model2VecEmbedder(OurEmbedder):
    """Vectors of `model2vec`."""

    def __init__(self, model_name: str = _MODEL2VEC["base"]) -> None:
        super().__init__(amberlog.embedding.Model2VecEmbedder(model_name))


class SentenceTransformerEmbedder(OurEmbedder):
    """Vectors of `sentence-transformers`."""

    def __init__(
        self,
        model_name: str = _SENTENCE_TRANSFORMER["gemma"],
        dimensions: int | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            amberlog.embedding.SentenceTransformerEmbedder(
                model_name, dimensions=dimensions, device=device
            )
        )


class APIEmbedder(OurEmbedder):
    """Vectors of an endpoint of OpenAI's form."""

    def __init__(
        self,
        api_key: str,
        model: str = "text-embedding-3-small",
        base_url: str = "https://api.openai.com/v1",
        dimensions: int | None = None,
    ) -> None:
        super().__init__(
            amberlog.embedding.ApiEmbedder(
                api_key, model=model, base_url=base_url, dimensions=dimensions
            )
        )


class NullEmbedder(BaseEmbedder):
    """No embedder: sessions are searched by keyword alone."""

    dimensions = 0

    def encode(self, texts: list[str]) -> Array:
        """Raises a `RuntimeError`."""
        del texts
        raise RuntimeError(
            "No embedding model configured: search by keyword (mode='fts'), or configure a provider"
        )


def list_embedding_presets() -> dict[str, dict[str, dict[str, str]]]:
    """Returns the models that have a short name, by provider."""
    return {"model2vec": MODEL2VEC_PRESETS, "sentence-transformer": ST_PRESETS}


def create_embedder(config: Mapping[str, object] | None = None) -> BaseEmbedder:
    """Returns the embedder that a configuration asks for.

    A provider that there is not is none, with a warning, and so is a preset the model of that name.
    `auto` is the built-in embedder, unless a model is named.

    Raises:
        ValueError: The key of an endpoint is missing.
        ImportError: The provider needs a package that is not installed.
    """
    if not config:
        return NullEmbedder()
    provider = config.get("provider", "auto")
    if provider not in _PROVIDERS:
        logger.warning("there is no embedding provider %r: sessions are searched by word", provider)
        return NullEmbedder()
    made = amberlog.embedding.create_embedder(config)
    if isinstance(made, amberlog.embedding.NullEmbedder):
        return NullEmbedder()
    return OurEmbedder(made)


def _numpy() -> ModuleType:
    # The peer brings it; without the peer nothing here needs it until something is encoded.
    return importlib.import_module("numpy")


__all__ = [
    "DEFAULT_M2V_MODEL",
    "DEFAULT_ST_MODEL",
    "MODEL2VEC_PRESETS",
    "ST_PRESETS",
    "APIEmbedder",
    "BaseEmbedder",
    "Model2VecEmbedder",
    "NullEmbedder",
    "SentenceTransformerEmbedder",
    "create_embedder",
    "list_embedding_presets",
]

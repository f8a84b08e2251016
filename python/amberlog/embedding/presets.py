"""Short names for models, as the peer has them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL2VEC_PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "tiny": "minishlab/potion-base-2M",
        "base": "minishlab/potion-base-8M",
        "retrieval": "minishlab/potion-retrieval-32M",
        "best": "sentence-transformers/static-retrieval-mrl-en-v1",
        "multilingual": "minishlab/potion-multilingual-128M",
        "multilingual-best": "sentence-transformers/static-similarity-mrl-multilingual-v1",
        "science": "minishlab/potion-science-32M",
    }
)
"""Models of `model2vec`, by the name that follows `@`."""

SENTENCE_TRANSFORMER_PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "tiny": "ibm-granite/granite-embedding-30m-english",
        "small": "ibm-granite/granite-embedding-small-english-r2",
        "base": "Alibaba-NLP/gte-modernbert-base",
        "nomic": "nomic-ai/nomic-embed-text-v1.5",
        "gemma": "google/embeddinggemma-300m",
        "multilingual": "Alibaba-NLP/gte-multilingual-base",
    }
)
"""Models of `sentence-transformers`, by the name that follows `@`."""

DEFAULT_MODEL2VEC = MODEL2VEC_PRESETS["multilingual-best"]
DEFAULT_SENTENCE_TRANSFORMER = SENTENCE_TRANSFORMER_PRESETS["base"]


def resolved(model: str, presets: Mapping[str, str]) -> str:
    """Returns the model that a preset stands for, and any other name as it is.

    Raises:
        ValueError: There is no preset of that name.
    """
    if not model.startswith("@"):
        return model
    if model[1:] not in presets:
        known = ", ".join(f"@{name}" for name in presets)
        raise ValueError(f"model: there is no preset {model!r}; there are {known}")
    return presets[model[1:]]


__all__ = ["MODEL2VEC_PRESETS", "SENTENCE_TRANSFORMER_PRESETS"]

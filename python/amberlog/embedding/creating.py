"""From the settings of a session or an agent to an embedder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from amberlog import config
from amberlog.embedding.api import DEFAULT_MODEL, OPENAI, ApiEmbedder, Patience
from amberlog.embedding.hashed import HashEmbedder
from amberlog.embedding.local import (
    Model2VecEmbedder,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
)
from amberlog.embedding.presets import (
    DEFAULT_MODEL2VEC,
    DEFAULT_SENTENCE_TRANSFORMER,
    MODEL2VEC_PRESETS,
    SENTENCE_TRANSFORMER_PRESETS,
    resolved,
)
from amberlog.embedding.protocol import Embedder, NullEmbedder
from amberlog.embedding.static import StaticEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Value = TypeVar("_Value", str, int, float, bool)


def create_embedder(settings: Mapping[str, object] | None = None) -> Embedder:
    """Returns the embedder that settings ask for.

    Args:
        settings: `provider` and what it takes; every one but `none` takes `dimensions`. A setting
            of None is one that is not given.

            - `static`: the built-in table; `model` is the path of another one.
            - `hash`: the lexical fallback.
            - `model2vec`, `sentence-transformer`: `model` is a path, a name, or a preset such as
              `@base`; the latter also takes `device` and `trust_remote_code`.
            - `onnx`: `model` is a path and must be given.
            - `api`: `model`, `base_url`, `api_key` or `api_key_env` (`OPENAI_API_KEY`; empty: no
              key is sent), `timeout` and `retry_delay` in seconds, `batch_size`, `max_attempts`.
            - `auto`, also when no provider is given: `static`; with a `model`, the installed one
              of `model2vec` and `sentence-transformer`, in this order.
            - `none`, also when there are no settings at all: a `NullEmbedder`.

    Raises:
        ValueError: There is no such provider, preset or setting, or the key is missing.
        TypeError: A setting has the wrong type.
        MissingExtraError: The provider needs a package that is not installed.
    """
    if not settings:
        return NullEmbedder()
    given = _Settings(settings)
    provider = given.take("provider", str) or "auto"
    if provider == "auto":
        provider = _best(with_model=given.holds("model"))
    if provider not in _MAKERS:
        raise ValueError(
            f"provider: there is no {provider!r}; there are auto, {', '.join(_MAKERS)}"
        )
    dimensions = given.take("dimensions", int)
    if dimensions is not None and dimensions < 1:
        raise ValueError(f"dimensions: {dimensions} is less than 1")
    return _MAKERS[provider](given, dimensions)


class _Settings:
    """Settings that are taken one by one, so that one that nobody takes is noticed."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._left = {name: value for name, value in settings.items() if value is not None}

    def holds(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, kind: type[_Value]) -> _Value | None:
        value = self._left.pop(name, None)
        if kind is float and type(value) is int:
            return kind(value)
        # A bool is an int to `isinstance`, and `dimensions: true` is a mistake.
        if value is None or type(value) is kind or (kind is str and isinstance(value, kind)):
            return value
        raise TypeError(f"{name}: {value!r} is not of type {kind.__name__}")

    def finish(self, provider: str) -> None:
        """Raises where settings are left."""
        if self._left:
            names = ", ".join(sorted(map(str, self._left)))
            raise ValueError(f"{names}: the provider {provider!r} has no such setting")


def _best(*, with_model: bool) -> str:
    if not with_model:
        return "static"
    for provider, package in _INSTALLABLE.items():
        if importlib.util.find_spec(package) is not None:
            return provider
    # Asked for by name, it raises with the name of the extra.
    return "model2vec"


def _none(given: _Settings, dimensions: int | None) -> Embedder:
    # Whatever else is set was meant for the provider that was switched off.
    del given, dimensions
    return NullEmbedder()


def _static(given: _Settings, dimensions: int | None) -> Embedder:
    table = given.take("model", str)
    given.finish("static")
    return StaticEmbedder(dimensions=dimensions, table=Path(table) if table else None)


def _hash(given: _Settings, dimensions: int | None) -> Embedder:
    given.finish("hash")
    return HashEmbedder() if dimensions is None else HashEmbedder(dimensions=dimensions)


def _model2vec(given: _Settings, dimensions: int | None) -> Embedder:
    model = resolved(given.take("model", str) or DEFAULT_MODEL2VEC, MODEL2VEC_PRESETS)
    # The peer's settings carry it for either local provider.
    given.take("device", str)
    given.finish("model2vec")
    return Model2VecEmbedder(model, dimensions=dimensions)


def _sentence_transformer(given: _Settings, dimensions: int | None) -> Embedder:
    name = given.take("model", str) or DEFAULT_SENTENCE_TRANSFORMER
    model = resolved(name, SENTENCE_TRANSFORMER_PRESETS)
    device = given.take("device", str) or "cpu"
    trust = given.take("trust_remote_code", bool) or False
    given.finish("sentence-transformer")
    return SentenceTransformerEmbedder(
        model, dimensions=dimensions, device=device, trust_remote_code=trust
    )


def _onnx(given: _Settings, dimensions: int | None) -> Embedder:
    model = given.take("model", str)
    given.finish("onnx")
    if model is None:
        raise ValueError("model: the provider 'onnx' needs the path of one")
    return OnnxEmbedder(model, dimensions=dimensions)


def _api(given: _Settings, dimensions: int | None) -> Embedder:
    key = given.take("api_key", str)
    variable = given.take("api_key_env", str)
    if not key and variable != "":
        name = variable or "OPENAI_API_KEY"
        key = config.api_key(name)
        if not key:
            raise ValueError(f"api_key: none is given, and {name} is not set")
    usual = Patience()
    patience = Patience(
        timeout_s=_at_least(0, "timeout", given.take("timeout", float), usual.timeout_s),
        attempts=int(_at_least(1, "max_attempts", given.take("max_attempts", int), usual.attempts)),
        delay_s=_at_least(0, "retry_delay", given.take("retry_delay", float), usual.delay_s),
    )
    model = given.take("model", str) or DEFAULT_MODEL
    base_url = given.take("base_url", str) or OPENAI
    batch = int(_at_least(1, "batch_size", given.take("batch_size", int), 128))
    given.finish("api")
    return ApiEmbedder(
        key, model=model, base_url=base_url, dimensions=dimensions, batch=batch, patience=patience
    )


def _at_least(least: float, name: str, value: float | None, otherwise: float) -> float:
    if value is None:
        return otherwise
    if not value >= least:
        raise ValueError(f"{name}: {value} is less than {least}")
    return value


_INSTALLABLE = {"model2vec": "model2vec", "sentence-transformer": "sentence_transformers"}
_MAKERS: dict[str, Callable[[_Settings, int | None], Embedder]] = {
    "static": _static,
    "hash": _hash,
    "model2vec": _model2vec,
    "sentence-transformer": _sentence_transformer,
    "onnx": _onnx,
    "api": _api,
    "none": _none,
}

__all__ = ["create_embedder"]

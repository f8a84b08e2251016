"""Embedders that run a model of the user's on this machine; each needs an extra."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from amberlog.embedding._matrix import Matrix, SupportsArray, as_matrix
from amberlog.embedding.static import listed
from amberlog.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy import float32, int64
    from numpy.typing import NDArray

_BATCH = 32
_MATRIX = 2


class Model2VecEmbedder:
    """A static model of `model2vec`; needs the extra `model2vec`.

    Args:
        model: A directory with a saved model, or a name that the library fetches and keeps.
        dimensions: The size of the vectors, less than the model's own. None: the model's own.

    Raises:
        MissingExtraError: The package is not installed.
    """

    def __init__(self, model: str, *, dimensions: int | None = None) -> None:
        library = imported("model2vec", extra="model2vec")
        self._model: _Encodes = library.StaticModel.from_pretrained(
            model, normalize=True, dimensionality=dimensions
        )
        self._name = model
        self._dimensions = as_matrix(self._model.encode(["."]), rows=1).dimensions

    @property
    def model_id(self) -> str:
        """The name of the model and the size of the vectors."""
        return f"model2vec/{self._name}/{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row for each text."""
        return _encoded(self._model, listed(texts), self._dimensions)


class SentenceTransformerEmbedder:
    """A model of `sentence-transformers`; needs the extra `sentence-transformers`.

    Args:
        model: A directory with a saved model, or a name that the library fetches and keeps.
        dimensions: The size that vectors are cut to. None: the model's own.
        device: Where the model runs: `cpu`, `cuda`.
        trust_remote_code: Whether code that came with the model is run.

    Raises:
        MissingExtraError: The package is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        device: str = "cpu",
        trust_remote_code: bool = False,
    ) -> None:
        library = imported("sentence_transformers", extra="sentence-transformers")
        self._model: _Encodes = library.SentenceTransformer(
            model, device=device, truncate_dim=dimensions, trust_remote_code=trust_remote_code
        )
        self._name = model
        self._dimensions = _encoded(
            self._model, ["."], dimensions, normalize_embeddings=True
        ).dimensions

    @property
    def model_id(self) -> str:
        """The name of the model and the size of the vectors."""
        return f"sentence-transformer/{self._name}/{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row of length 1 for each text."""
        return _encoded(self._model, listed(texts), self._dimensions, normalize_embeddings=True)


class OnnxEmbedder:
    """A sentence encoder in the ONNX format, run on the CPU; needs the extra `onnx`.

    The model takes `input_ids`, `attention_mask` and perhaps `token_type_ids`. Its first output is
    either a vector for each text, or one for each token: then their mean is taken.

    Args:
        model: A directory with `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`, or the
            path of such an `.onnx` file.
        dimensions: The size that vectors are cut to. None: the model's own.
        longest: After how many tokens a text is cut.

    Raises:
        MissingExtraError: A package is not installed.
        FileNotFoundError: There is no such model, or no tokenizer with it.
    """

    def __init__(self, model: str, *, dimensions: int | None = None, longest: int = 512) -> None:
        self._numpy = imported("numpy", extra="onnx")
        runtime = imported("onnxruntime", extra="onnx")
        tokenizers = imported("tokenizers", extra="onnx")
        path, tokenizer = _onnx_files(Path(model))
        self._session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(longest)
        self._tokenizer.enable_padding()
        self._name = Path(model).name
        self._asked = dimensions
        self._dimensions = as_matrix(self._batch(["."]), rows=1, dimensions=dimensions).dimensions

    @property
    def model_id(self) -> str:
        """The name of the directory or file, and the size of the vectors."""
        return f"onnx/{self._name}/{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Returns one row of length 1 for each text."""
        given = [tidy(text) for text in listed(texts)]
        parts = [
            as_matrix(self._batch(batch), rows=len(batch), dimensions=self._dimensions).data
            for batch in (given[at : at + _BATCH] for at in range(0, len(given), _BATCH))
        ]
        return Matrix(b"".join(parts), len(given), self._dimensions)

    def _batch(self, texts: list[str]) -> NDArray[float32]:
        np = self._numpy
        encoded = self._tokenizer.encode_batch(texts)
        mask: NDArray[int64] = np.array([entry.attention_mask for entry in encoded], dtype=np.int64)
        given = {
            "input_ids": np.array([entry.ids for entry in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        taken = {name: given[name] for name in self._inputs}
        vectors: NDArray[float32] = self._session.run(None, taken)[0]
        if vectors.ndim > _MATRIX:
            weights = mask[:, :, None].astype(np.float32)
            vectors = (vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        vectors = vectors[:, : self._asked]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: NDArray[float32] = vectors / np.where(lengths > 0, lengths, 1)
        return scaled


class _Encodes(Protocol):
    def encode(self, texts: list[str], /, **options: object) -> SupportsArray: ...


def imported(package: str, *, extra: str) -> ModuleType:
    """Imports a package that an extra brings, or raises `MissingExtraError`, which names both."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"cannot import {package} ({error}): pip install 'amberlog[{extra}]'",
            extra=extra,
            package=package,
        ) from error


def tidy(text: str) -> str:
    """Returns a text that has a UTF-8 form: halves of surrogate pairs become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _encoded(
    model: _Encodes, texts: list[str], dimensions: int | None, **options: object
) -> Matrix:
    if not texts:
        return Matrix(b"", 0, dimensions or 0)
    vectors = model.encode([tidy(text) for text in texts], **options)
    return as_matrix(vectors, rows=len(texts), dimensions=dimensions)


def _onnx_files(model: Path) -> tuple[Path, Path]:
    candidates = (
        [model] if model.suffix == ".onnx" else [model / "model.onnx", model / "onnx/model.onnx"]
    )
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"there is no model at `{candidates[0]}`")
    for folder in (path.parent, path.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return path, folder / "tokenizer.json"
    raise FileNotFoundError(f"there is no `tokenizer.json` with `{path}`")


__all__ = ["Model2VecEmbedder", "OnnxEmbedder", "SentenceTransformerEmbedder"]

"""From settings to embedders, and the ones that other packages bring."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from amberlog import errors
from amberlog.embedding import (
    Embedder,
    HashEmbedder,
    StaticEmbedder,
    create_embedder,
    encode_checked,
)
from support.children import run_code

PAGE = Path(__file__).parent.parent / "docs" / "embedding.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
ONNX = Path(__file__).parent / "fixtures/embedding/onnx"
DIAGONAL = 0.2**0.5
EXPECTED = [[1.0, 0.0, 0.0], [DIAGONAL, 2 * DIAGONAL, 0.0], [0.0, 0.0, -1.0]]


@pytest.mark.parametrize("settings", [None, {}, {"provider": "none"}, {"provider": "none", "x": 1}])
def test_without_a_provider_there_is_an_embedder_that_refuses(
    settings: dict[str, object] | None,
) -> None:
    embedder = create_embedder(settings)

    assert (embedder.model_id, embedder.dimensions) == ("none", 0)
    with pytest.raises(errors.NoEmbedderError, match="no embedder is configured"):
        embedder.encode(["text"])
    with pytest.raises(RuntimeError):
        embedder.encode(["text"])


@pytest.mark.parametrize(
    "settings",
    [
        {"provider": "static"},
        {"provider": "auto"},
        {"provider": None, "model": None, "dimensions": 256},
        {"dimensions": 256},
    ],
)
def test_auto_is_the_built_in_table(settings: dict[str, object]) -> None:
    embedder = create_embedder(settings)

    assert isinstance(embedder, StaticEmbedder)
    assert embedder.model_id == StaticEmbedder().model_id


def test_the_lexical_embedder_is_made_by_name() -> None:
    embedder = create_embedder({"provider": "hash", "dimensions": 64})

    assert isinstance(embedder, HashEmbedder)
    assert embedder.dimensions == 64


def test_auto_with_a_model_takes_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    install_stand_in(monkeypatch)

    embedder = create_embedder({"provider": "auto", "model": "@base"})

    assert embedder.model_id == "sentence-transformer/Alibaba-NLP/gte-modernbert-base/4"


@pytest.mark.parametrize(
    ("provider", "package", "extra"),
    [
        ("model2vec", "model2vec", "model2vec"),
        ("auto", "model2vec", "model2vec"),
        ("sentence-transformer", "sentence_transformers", "sentence-transformers"),
        ("onnx", "onnxruntime", "onnx"),
        ("onnx", "tokenizers", "onnx"),
        ("api", "httpx", "api"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, provider: str, package: str, extra: str
) -> None:
    for absent in {package, "sentence_transformers"}:
        monkeypatch.setitem(sys.modules, absent, None)
    for present in {"onnxruntime", "tokenizers"} - {package}:
        monkeypatch.setitem(sys.modules, present, ModuleType(present))

    with pytest.raises(errors.MissingExtraError, match=rf"amberlog\[{extra}\]") as caught:
        create_embedder({"provider": provider, "model": "m", **key_of(provider)})

    assert (caught.value.package, caught.value.extra) == (package, extra)
    assert isinstance(caught.value, ImportError)


def vectors(embedder: Embedder, *texts: str) -> list[list[float]]:
    return encode_checked(embedder, texts).tolist()


def key_of(provider: str) -> dict[str, object]:
    return {"api_key": "k"} if provider == "api" else {}


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"provider": "openai"}, ValueError, "there is no 'openai'; there are auto, static"),
        ({"provider": "static", "dimension": 8}, ValueError, "dimension: the provider 'static'"),
        ({"provider": "static", "dimensions": 0}, ValueError, "dimensions: 0 is less than 1"),
        ({"provider": "static", "dimensions": 999}, ValueError, "between 1 and 256"),
        ({"provider": "static", "dimensions": "64"}, TypeError, "dimensions: '64'"),
        ({"provider": "static", "dimensions": True}, TypeError, "dimensions: True"),
        ({"provider": 3}, TypeError, "provider: 3"),
        ({"provider": "onnx"}, ValueError, "needs the path"),
        (
            {"provider": "model2vec", "model": "@huge"},
            ValueError,
            "no preset '@huge'; there are @t",
        ),
        ({"provider": "api", "api_key": "k", "timeout": -1}, ValueError, "timeout: -1"),
        ({"provider": "api", "api_key": "k", "batch_size": 0}, ValueError, "batch_size: 0"),
    ],
)
def test_a_mistake_in_the_settings_is_named(
    settings: dict[str, object], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        create_embedder(settings)


def test_a_model_of_model2vec_is_read_from_a_directory(tmp_path: Path) -> None:
    model2vec = pytest.importorskip("model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    rows = np.array([[0, 0], [3, 4], [0, 2]], dtype=np.float32)
    tokenizer = tokenizers.Tokenizer.from_file(str(ONNX / "tokenizer.json"))
    known = {"[PAD]": 0, "east": 1, "[UNK]": 2}
    tokenizer.model = tokenizers.models.WordLevel(known, unk_token="[UNK]")  # noqa: S106  # a token
    model2vec.StaticModel(rows, tokenizer).save_pretrained(tmp_path)

    embedder = create_embedder({"provider": "model2vec", "model": str(tmp_path)})

    assert embedder.model_id == f"model2vec/{tmp_path}/2"
    assert np.allclose(vectors(embedder, "east", ""), [[0.6, 0.8], [0.0, 0.0]])
    assert len(np.asarray(embedder.encode([]))) == 0


def test_an_onnx_model_is_read_from_a_directory() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")

    embedder = create_embedder({"provider": "onnx", "model": str(ONNX)})

    found = vectors(embedder, "east", "east north", "down", "", "down\ud83d")
    assert embedder.model_id == "onnx/onnx/3"
    assert np.allclose(found[:3], EXPECTED)
    assert np.isfinite(found).all()


def test_many_texts_of_an_onnx_model_keep_their_order() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    texts = ["east" if number % 3 else "north down" for number in range(100)]
    embedder = create_embedder({"provider": "onnx", "model": str(ONNX / "model.onnx")})

    together = np.asarray(embedder.encode(texts))

    assert np.allclose(together[1], EXPECTED[0])
    assert all((together[at] == together[at % 3]).all() for at in range(100))


def test_a_missing_onnx_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")

    with pytest.raises(FileNotFoundError, match="no model at"):
        create_embedder({"provider": "onnx", "model": str(tmp_path)})


def test_a_sentence_transformer_is_asked_for_unit_vectors_of_the_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = install_stand_in(monkeypatch)

    embedder = create_embedder(
        {"provider": "sentence-transformer", "model": "m", "dimensions": 2, "device": "cuda"}
    )
    matrix = np.asarray(embedder.encode(["one", "two\ud83d"]))

    assert embedder.model_id == "sentence-transformer/m/2"
    assert matrix.tolist() == [[3, 1], [4, 1]]
    assert calls == [
        {"model": "m", "device": "cuda", "truncate_dim": 2, "trust_remote_code": False},
        {"texts": ["."], "normalize_embeddings": True},
        {"texts": ["one", "two\ufffd"], "normalize_embeddings": True},
    ]


def install_stand_in(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Puts a package in the place of `sentence-transformers`, a gigabyte; returns its calls."""
    calls: list[dict[str, object]] = []

    class SentenceTransformer:
        def __init__(self, model: str, *, truncate_dim: int | None, **options: object) -> None:
            self.width = truncate_dim or 4
            calls.append({"model": model, "truncate_dim": truncate_dim, **options})

        def encode(self, texts: list[str], **options: object) -> object:
            calls.append({"texts": texts, **options})
            rows = [[len(text), *[1] * (self.width - 1)] for text in texts]
            return np.array(rows, dtype=np.float32)

    module = ModuleType("sentence_transformers")
    module.__spec__ = __spec__
    vars(module)["SentenceTransformer"] = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return calls


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page_runs(example: str) -> None:
    said = run_code(example + "\nassert matrix.shape == (2, 256)\n")

    assert said == ""

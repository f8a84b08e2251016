"""Reads a session with KohakuVault and prints what it found as JSON; run as a program.

It runs in a process of its own, since KohakuVault brings another copy of SQLite.
"""

from __future__ import annotations

import json
import sys

from kohakuvault import KVault, TextVault

from support.independent import KV_TABLES


def main(path: str, *queries: str) -> None:
    """Prints every row of every table, and the hits of each query."""
    tables: dict[str, dict[str, object]] = {}
    for name in KV_TABLES:
        vault = KVault(path, table=name)
        vault.enable_auto_pack()
        tables[name] = {bytes(key).decode(): vault[key] for key in vault.keys(limit=2**31 - 1)}
        vault.close()
    texts = TextVault(path, table="fts")
    texts.enable_auto_pack()
    hits = {query: [meta for _, _, meta in texts.search(query, k=1_000)] for query in queries}
    json.dump({"tables": tables, "hits": hits}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])

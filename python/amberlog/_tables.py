"""The tables of a bundle as mappings."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from amberlog._null import AnyBundle

Key = str | bytes
"""A key as a caller may give it. Keys come back as bytes."""


class TableView(Mapping[Key, object]):
    """The records of one table whose keys begin with a prefix, in key order.

    Each look-up is one read of the file. Iterating lists the keys first, so records that are
    added meanwhile are not among them.
    """

    def __init__(
        self, bundle: AnyBundle, name: str, prefix: Key = b"", limit: int | None = None
    ) -> None:
        self._bundle = bundle
        self._name = name
        self._prefix = prefix
        self._limit = limit

    def __getitem__(self, key: Key) -> object:
        return self._bundle.get(self._name, key)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._bundle.keys(self._name, self._prefix, self._limit))

    def __len__(self) -> int:
        if self._prefix or self._limit is not None:
            return len(self._bundle.keys(self._name, self._prefix, self._limit))
        return self._bundle.count(self._name)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str | bytes):
            return False
        sought = key.encode() if isinstance(key, str) else key
        # In key order a key comes before all that it is a prefix of; its value is not read.
        return self._bundle.keys(self._name, sought, 1) == [sought]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._bundle.path!r}>"

    def keys(self, prefix: Key | None = None, limit: int | None = None) -> KeysView[Key]:
        """Returns the keys that begin with a prefix, in byte order, at most `limit` of them."""
        return KeysView(self._narrowed(prefix, limit))

    def items(self, prefix: Key | None = None, limit: int | None = None) -> ItemsView[Key, object]:
        """Returns the records whose keys begin with a prefix, read in one pass."""
        return _Items(self._narrowed(prefix, limit))

    def values(self, prefix: Key | None = None, limit: int | None = None) -> ValuesView[object]:
        """Returns the values whose keys begin with a prefix, read in one pass."""
        return _Values(self._narrowed(prefix, limit))

    def records(self) -> list[tuple[bytes, object]]:
        """Returns the keys and values as a list."""
        return self._bundle.items(self._name, self._prefix, self._limit)

    def flush_cache(self) -> None:
        """Does nothing: every write is committed when it returns. The peer's runtime calls it."""

    def _narrowed(self, prefix: Key | None, limit: int | None) -> TableView:
        return TableView(
            self._bundle,
            self._name,
            self._prefix if prefix is None else prefix,
            self._limit if limit is None else limit,
        )


class _Items(ItemsView[Key, object]):
    _mapping: TableView

    def __iter__(self) -> Iterator[tuple[Key, object]]:
        return iter(self._mapping.records())


class _Values(ValuesView[object]):
    _mapping: TableView

    def __iter__(self) -> Iterator[object]:
        return (value for _, value in self._mapping.records())


class Table(TableView, MutableMapping[Key, object]):
    """One table, to read and to write. Each write is one transaction.

    Values that cannot come back equal are refused with a `TypeError` or `ValueError` that names
    the place, before anything is written.
    """

    def __setitem__(self, key: Key, value: object) -> None:
        self._bundle.put(self._name, [(key, value)])

    def __delitem__(self, key: Key) -> None:
        if not self._bundle.delete(self._name, key):
            raise KeyError(key)

    def put(self, key: Key, value: object) -> None:
        """Stores one value."""
        self[key] = value

    def put_many(self, items: list[tuple[Key, object]]) -> None:
        """Stores all the values in one transaction."""
        self._bundle.put(self._name, items)


class EventTable(TableView):
    """The event rows by key. They are only ever added to, and only by `append_event`."""

    def __setitem__(self, key: Key, value: object) -> NoReturn:
        raise TypeError("events are never rewritten: add one with append_event")

    def __delitem__(self, key: Key) -> NoReturn:
        raise TypeError("events are never deleted: add one with append_event")


def iter_kv_keys(
    table: Mapping[Key, object], *, prefix: Key | None = None, limit: int | None = None
) -> Iterator[Key]:
    """Returns the keys of a store's table in byte order.

    Args:
        table: One of a store's tables, such as `store.state`.
        prefix: Only the keys that begin with it.
        limit: At most this many; all of them when left out.

    Raises:
        TypeError: `table` is not a table of a store.
    """
    if not isinstance(table, TableView):
        raise TypeError(f"table must be a table of a session store, not {type(table).__name__}")
    return iter(table.keys(prefix, limit))

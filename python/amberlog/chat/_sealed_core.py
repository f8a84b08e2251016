"""A home of sessions whose words nobody reads without the key.

Every write of a store passes through here on its way to the home, so that what is not known how to
be encrypted is refused, whatever verb it comes from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from amberlog.errors import SessionEncryptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amberlog.chat._cipher import Cipher
    from amberlog.chat._cores import ChatCore, IndexedCore, KinCore, Mutate, Policy

# By these a session is found; they say who, when and where, and nothing of what was said.
_IDS = frozenset(
    {
        "agent_id",
        "agent_key",
        "agent_name",
        "children_ids",
        "created_at",
        "forked_from_message_id",
        "gateway_session_id",
        "is_shared",
        "lineage_id",
        "parent_id",
        "parent_session_id",
        "root_session_id",
        "session_id",
        "thread_id",
        "updated_at",
        "user_id",
    }
)
_MESSAGES = ("messages", "archived_messages")
_MAPPINGS = ("last_compaction", "metadata", "runtime_state")
_MOST_CHECKED = 10_000
_STATE_DEPTH = 3

Edit = tuple[object, ...]
_Merge = tuple[str, list[str], dict[str, object], dict[str, object]]


class SealedCore:
    """The verbs of a home; what goes in is sealed, what comes out is opened.

    Args:
        core: The home.
        cipher: What seals and opens.
    """

    def __init__(self, core: ChatCore, cipher: Cipher) -> None:
        self._core = core
        self._cipher = cipher
        # Sessions whose words the key is known to open.
        self._checked: set[str] = set()

    def edit(
        self,
        session_id: str,
        edits: list[Edit],
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
    ) -> bool:
        """Makes changes in one write; nothing is written with a key that opens nothing."""
        self._check(session_id)
        if any(_is_merge(edit) for edit in edits):
            return self.change(
                session_id,
                lambda stored: _merged(stored, edits),
                now=now,
                timeout_s=timeout_s,
                policy=policy,
            )
        sealed = [self._sealed_edit(edit) for edit in edits]
        return self._core.edit(session_id, sealed, now=now, timeout_s=timeout_s, policy=policy)

    def change(
        self,
        session_id: str,
        mutate: Mutate,
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
        only_new: bool = False,
        keep_time: bool = False,
    ) -> bool:
        """Puts another document in the place of one that the key opens."""

        def sealing(stored: dict[str, object]) -> dict[str, object] | None:
            changed = mutate(self._open(stored))
            return None if changed is None else self._sealed(changed)

        return self._core.change(
            session_id,
            sealing,
            now=now,
            timeout_s=timeout_s,
            policy=policy,
            only_new=only_new,
            keep_time=keep_time,
        )

    def document(self, session_id: str) -> dict[str, object] | None:
        """Returns a session, opened."""
        stored = self._core.document(session_id)
        return None if stored is None else self._open(stored)

    def documents(self, session_id: str | None = None, *, now: float) -> list[dict[str, object]]:
        """Returns sessions, opened."""
        return [self._open(stored) for stored in self._core.documents(session_id, now=now)]

    def portable(self, session_id: str) -> dict[str, object] | None:
        """Returns a session with its snapshots, opened."""
        stored = self._kin().portable(session_id)
        return None if stored is None else self._open(stored)

    def fork(
        self,
        session_id: str,
        child_id: str,
        at: int | None,
        title: str | None,
        *,
        now: float,
        timeout_s: float,
        policy: Policy | None = None,
    ) -> None:
        """Makes a session of another's messages; its title is sealed too."""
        stored = self.document(session_id) or {}
        named = title or f"Fork of {stored.get('title') or session_id}"
        self._kin().fork(
            session_id,
            child_id,
            at,
            self._cipher.seal_text(named),
            now=now,
            timeout_s=timeout_s,
            policy=policy,
        )

    def adopt(self, session_id: str, child_id: str, *, now: float, timeout_s: float) -> None:
        """Notes a child in a session."""
        self._kin().adopt(session_id, child_id, now=now, timeout_s=timeout_s)

    def chat_history(self, session_id: str, max_messages: int | None) -> list[dict[str, object]]:
        """Returns the newest messages for a model, opened."""
        return self._open_list(self._core.chat_history(session_id, max_messages))

    def working_history(
        self, session_id: str, max_messages: int | None, *, with_archive: bool
    ) -> list[dict[str, object]]:
        """Returns the summary and what came after it, opened."""
        found = self._core.working_history(session_id, max_messages, with_archive=with_archive)
        return self._open_list(found)

    def window(self, session_id: str, around: int | None, window: int) -> list[dict[str, object]]:
        """Returns messages around one, opened."""
        return self._open_list(self._core.window(session_id, around, window))

    def rows(self, limit: int | None, *, now: float) -> list[dict[str, object]]:
        """Returns the rows of a list, opened."""
        return self._open_list(self._core.rows(limit, now=now))

    def ids_where(
        self, field: str, wanted: str, limit: int | None = None, *, now: float
    ) -> list[str]:
        """Returns the ids of sessions by what is in the clear."""
        return self._core.ids_where(field, wanted, limit, now=now)

    def route(
        self, gateway_session_id: str, *, now: float
    ) -> tuple[dict[str, object], bytes] | None:
        """Returns the session that an outside id leads to, opened."""
        found = self._core.route(gateway_session_id, now=now)
        if found is None:
            return None
        opened = json.dumps(self._open(json.loads(found[1])))
        return {}, opened.encode("ascii")

    def index_fault(self) -> str | None:
        """Returns why the index could not be used when it was last asked."""
        return cast("IndexedCore", self._core).index_fault()

    def settle_index(self, *, now: float) -> None:
        """Brings the index level; what it holds of words is encrypted as they are."""
        cast("IndexedCore", self._core).settle_index(now=now)

    def unreadable(self, *, now: float) -> list[tuple[str, str]]:
        """Returns what holds no session, and why."""
        return self._core.unreadable(now=now)

    def search(self, query: str, *, limit: int, window: int, now: float) -> list[dict[str, object]]:
        """Refuses: words that nobody can read cannot be found, and no hit would say otherwise."""
        del query, limit, window, now
        raise SessionEncryptionError(
            "the words of encrypted sessions cannot be searched: read them and look"
        )

    def path(self, session_id: str) -> str:
        """Returns the file of a session, or the one that it would get."""
        return self._core.path(session_id)

    def exists(self, session_id: str) -> bool:
        """Returns whether there is a session."""
        return self._core.exists(session_id)

    def delete(self, session_id: str, *, timeout_s: float) -> bool:
        """Removes a session, which needs no key."""
        self._checked.discard(session_id)
        return self._core.delete(session_id, timeout_s=timeout_s)

    def forget(self, session_id: str | None = None) -> None:
        """Lets go of what is kept in memory."""
        self._core.forget(session_id)

    def _kin(self) -> KinCore:
        return cast("KinCore", self._core)

    def _check(self, session_id: str) -> None:
        if session_id in self._checked:
            return
        stored = self._core.document(session_id)
        if stored is None:
            return
        self._cipher.check(stored)
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked.add(session_id)

    def _open(self, stored: Mapping[str, object]) -> dict[str, object]:
        return cast("dict[str, object]", self._cipher.opened(dict(stored)))

    def _open_list(self, found: list[dict[str, object]]) -> list[dict[str, object]]:
        return [self._open(one) for one in found]

    def _sealed_edit(self, edit: Edit) -> Edit:
        seal, message = self._cipher.seal, self._cipher.seal_message
        sealed: Edit | None = None
        match edit:
            case ("append", dict() as added):
                sealed = "append", message(added)
            case ("replace", list() as messages):
                sealed = "replace", [message(one) for one in messages]
            case ("checkpoint", summary, role, before, after, at, metadata):
                sealed = "checkpoint", seal(summary), role, before, after, at, seal(metadata)
            case ("partial", content, at, finalize):
                sealed = "partial", seal(content), at, finalize
            case ("snapshot", made, session_id, at, label, metadata):
                sealed = "snapshot", made, session_id, at, seal(label), seal(metadata)
            case ("set", list() as path, value):
                sealed = "set", path, self._sealed_at(path, value)
            # What only takes away; a merge of nothing only makes the session.
            case ("remove" | "discard" | "revert_to_snapshot" | "revert_to_message" | "merge", *_):
                sealed = edit
        if sealed is None:
            raise SessionEncryptionError(f"nobody knows how to encrypt the change {edit[0]!r}")
        return sealed

    def _sealed_at(self, path: list[str], value: object) -> object:
        is_id = path[-1] in _IDS and (len(path) == 1 or path[:-1] == ["metadata"])
        if is_id or (path == ["runtime_state"] and not value):
            return value
        if len(path) == 1 or path[:-1] == ["metadata"] or _is_state(path):
            return self._cipher.seal(value)
        raise SessionEncryptionError(f"nobody knows how to encrypt {'.'.join(path)!r}")

    def _sealed(self, session: Mapping[str, object]) -> dict[str, object]:
        return {key: self._sealed_field(key, value) for key, value in session.items()}

    def _sealed_field(self, key: str, value: object) -> object:
        if key in _IDS or key == "snapshot_storage":
            return value
        if key in _MESSAGES and isinstance(value, list):
            return [self._sealed_message(one) for one in value]
        if key == "snapshots" and isinstance(value, list):
            return [self._sealed_snapshot(one) for one in value]
        if isinstance(value, dict) and key in _MAPPINGS:
            return self._sealed_mapping(key, value)
        return self._cipher.seal(value)

    def _sealed_mapping(self, key: str, value: dict[str, object]) -> dict[str, object]:
        if key == "last_compaction":
            return self._cipher.seal_checkpoint(value)
        if key == "runtime_state":
            return {name: self._sealed_turns(turns) for name, turns in value.items()}
        return {name: self._sealed_at(["metadata", name], one) for name, one in value.items()}

    def _sealed_message(self, message: object) -> object:
        seal = self._cipher
        return seal.seal_message(message) if isinstance(message, dict) else seal.seal(message)

    def _sealed_turns(self, turns: object) -> object:
        if not isinstance(turns, dict):
            return self._cipher.seal(turns)
        return {turn: self._cipher.seal(state) for turn, state in turns.items()}

    def _sealed_snapshot(self, snapshot: object) -> object:
        if not isinstance(snapshot, dict):
            return self._cipher.seal(snapshot)
        sealed = {**snapshot}
        for key in ("label", "metadata"):
            if key in sealed:
                sealed[key] = self._cipher.seal(sealed[key])
        transcript = sealed.get("transcript")
        if isinstance(transcript, dict):
            sealed["transcript"] = self._sealed(transcript)
        return sealed


def _is_state(path: list[str]) -> bool:
    return len(path) == _STATE_DEPTH and path[0] == "runtime_state"


def _is_merge(edit: Edit) -> bool:
    return edit[0] == "merge" and bool(edit[2] or edit[3])


def _merged(stored: dict[str, object], edits: list[Edit]) -> dict[str, object]:
    """Returns a session with keys of mappings set: within a sealed mapping the home sees none."""
    changed = {**stored}
    for edit in edits:
        if edit[0] != "merge":
            raise SessionEncryptionError(f"nobody knows how to encrypt the change {edit[0]!r}")
        _, keys, defaults, updates = cast("_Merge", edit)
        *path, last = keys
        place = changed
        for key in path:
            inner = _mapping(place.get(key))
            place[key] = inner
            place = inner
        place[last] = {**defaults, **_mapping(place.get(last)), **updates}
    return changed


def _mapping(value: object) -> dict[str, object]:
    return {**value} if isinstance(value, dict) else {}


__all__ = ["SealedCore"]

"""Has the real peer read a recorded session twice: as it is stored, and with every parent path.

A program for `tests/test_peers_recording.py`. It is given a session, an agent and a file of JSON:
`paths`, the whole parent path of each turn and branch, and `views`. It prints, as one line of JSON,
what KohakuTerrarium makes of the stored events under each view, and where the events with every
path give it something else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kohakuterrarium.core.agent_message_history import replay_with_settled_tools
from kohakuterrarium.session.history import (
    collect_branch_metadata,
    index_parent_paths,
    project_branch_metadata,
    replay_conversation,
    resolve_selected_branches,
    select_live_event_ids,
)
from kohakuterrarium.session.raw_history import UserMessageSelector, select_raw_history_prefix
from kohakuterrarium.session.store import SessionStore

Event = dict[str, object]
View = dict[int, int]
Place = tuple[int, int]


def readings(events: list[Event], view: View) -> dict[str, object]:
    """Returns what the peer makes of events under a view."""
    selected = resolve_selected_branches(events, index_parent_paths(events), view)
    return {
        "live": sorted(select_live_event_ids(events, branch_view=view)),
        "replay": replay_conversation(events, branch_view=view, include_metadata=True),
        "settled": replay_with_settled_tools(
            events, branch_view=view, include_metadata=True, resumable=True
        ),
        "selected": sorted(selected.items()),
        "branches": str(collect_branch_metadata(events, branch_view=view)),
        "projected": str(project_branch_metadata(events)),
        "paths": sorted(map(str, index_parent_paths(events).items())),
    }


def edits(events: list[Event], paths: dict[Place, list[Place]]) -> list[object]:
    """Returns the events and branches from which the peer would edit each request."""
    found: list[object] = []
    for event in events:
        if event["type"] != "user_message":
            continue
        place = (int(str(event["turn_index"])), int(str(event["branch_id"])))
        selector = UserMessageSelector(event["event_id"], *place)
        view = dict([*paths[place], place])
        prefix = select_raw_history_prefix(events, selector=selector, branch_view=view)
        found.append(
            [[one["event_id"] for one in prefix.events], sorted(prefix.branch_view.items())]
        )
    return found


def main(session: str, agent: str, question: str) -> None:
    """Prints what the peer reads, and where the paths that are left out would change it."""
    asked = json.loads(Path(question).read_text(encoding="utf-8"))
    paths = {tuple(json.loads(place)): path for place, path in asked["paths"].items()}
    store = SessionStore(session)
    stored = list(store.get_events(agent))
    store.close()
    full = [
        {**event, "parent_branch_path": paths[event["turn_index"], event["branch_id"]]}
        if event.get("turn_index")
        else event
        for event in stored
    ]
    different: list[str] = []
    replays: list[object] = []
    for pairs in asked["views"]:
        view = {int(turn): int(branch) for turn, branch in pairs}
        one, other = readings(stored, view), readings(full, view)
        different += [f"{name} under {view}" for name in one if one[name] != other[name]]
        replays.append([one["replay"], one["settled"], one["live"]])
    if edits(stored, paths) != edits(full, paths):
        different.append("edits")
    print(json.dumps({"different": different, "replays": replays}))


if __name__ == "__main__":
    main(*sys.argv[1:])

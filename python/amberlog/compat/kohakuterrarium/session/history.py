"""What a log of events means; all of it is `amberlog.lineage`."""

from amberlog.lineage import (
    InvalidBranchViewError,
    collect_branch_metadata,
    collect_user_groups,
    compact_covered_event_ids,
    compact_replacement_rules,
    dedupe_adjacent_duplicate_events,
    index_parent_paths,
    normalize_resumable_events,
    normalize_tool_call_events,
    project_branch_metadata,
    replay_conversation,
    resolve_branch_view_strict,
    resolve_selected_branches,
    select_live_event_ids,
)

__all__ = [
    "InvalidBranchViewError",
    "collect_branch_metadata",
    "collect_user_groups",
    "compact_covered_event_ids",
    "compact_replacement_rules",
    "dedupe_adjacent_duplicate_events",
    "index_parent_paths",
    "normalize_resumable_events",
    "normalize_tool_call_events",
    "project_branch_metadata",
    "replay_conversation",
    "resolve_branch_view_strict",
    "resolve_selected_branches",
    "select_live_event_ids",
]

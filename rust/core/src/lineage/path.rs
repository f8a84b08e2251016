//! Parent paths: which branch of each earlier turn an event belongs to.

use crate::codec::Value;

/// Returns the `(turn, branch)` pairs of a stored path; what is not such a pair is passed over.
pub(super) fn pairs(path: Option<&Value>) -> impl Iterator<Item = (i64, i64)> {
    let items = path.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| match item.as_list() {
        Some([Value::Int(turn), Value::Int(branch)]) => Some((*turn, *branch)),
        _ => None,
    })
}

/// Returns the path that an event states itself; most events leave it to the order of the log.
pub(super) fn stated(event: &Value) -> impl Iterator<Item = (i64, i64)> {
    pairs(event.get("parent_branch_path"))
}

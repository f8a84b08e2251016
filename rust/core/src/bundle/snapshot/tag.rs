//! What a snapshot says of itself beside the messages: turn, branch, lineage, watermark.

use crate::codec::Value;

/// A lineage: `(turn, branch)` of each turn, turns ascending.
pub type Path = Vec<(i64, i64)>;

/// How a snapshot was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Tag {
    /// Messages alone.
    Plain,
    /// With the branch that they belong to and the highest event that they include.
    Branch {
        /// The runtime's own words for the branch: a map, or nil.
        branch: Value,
        /// The highest event id that the messages include.
        watermark: i64,
        /// Counters of the compaction, or nil.
        compact_state: Value,
    },
}

/// Reads a list of `(turn, branch)` pairs; `None` unless all are positive and turns ascend.
pub fn parse_path(pairs: &Value) -> Option<Path> {
    let mut path = Path::new();
    for pair in pairs.as_list()? {
        let [turn, branch] = pair.as_list()? else { return None };
        path.push((positive(turn)?, positive(branch)?));
    }
    is_ascending(&path).then_some(path)
}

fn positive(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) if *number > 0 => Some(*number),
        _ => None,
    }
}

fn is_ascending(path: &Path) -> bool {
    path.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

/// The whole lineage that a branch tag names: its parents and itself.
pub fn lineage_of(branch: &Value) -> Option<Path> {
    branch.as_map()?;
    let mut path = match branch.get("parent_branch_path") {
        Some(parents) if parents.truthy() => parse_path(parents)?,
        _ => Path::new(),
    };
    path.push((positive(branch.get("turn_index")?)?, positive(branch.get("branch_id")?)?));
    is_ascending(&path).then_some(path)
}

/// Whether one of the two lineages is the beginning of the other.
pub fn is_one_line(a: &Path, b: &Path) -> bool {
    a.iter().zip(b).all(|(one, other)| one == other)
}

/// A lineage as the value that the peer stores.
pub fn path_value(path: &Path) -> Value {
    Value::List(
        path.iter().map(|(turn, branch)| Value::List(vec![Value::Int(*turn), Value::Int(*branch)])).collect(),
    )
}

impl Tag {
    /// The lineage, where the tag names a sound one.
    pub fn lineage(&self) -> Option<Path> {
        match self {
            Self::Branch { branch, watermark, .. } if *watermark >= 0 => lineage_of(branch),
            _ => None,
        }
    }

    /// The turn that the tag itself names.
    pub fn turn(&self) -> Option<i64> {
        match self {
            Self::Branch { branch, .. } => branch.get("turn_index").and_then(positive),
            Self::Plain => None,
        }
    }

    /// Counters of the compaction, with the peer's defaults.
    pub fn compact_state(&self) -> Value {
        match self {
            Self::Branch { compact_state, .. } if compact_state.truthy() => compact_state.clone(),
            _ => Value::Map(vec![
                ("compact_count".to_owned(), Value::Int(0)),
                ("last_compact_time".to_owned(), Value::Float(0.0)),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(turn: i64, parents: &[(i64, i64)]) -> Value {
        Value::Map(vec![
            ("turn_index".to_owned(), Value::Int(turn)),
            ("branch_id".to_owned(), Value::Int(1)),
            ("parent_branch_path".to_owned(), path_value(&parents.to_vec())),
        ])
    }

    #[test]
    fn a_lineage_ends_with_the_tagged_turn() {
        assert_eq!(lineage_of(&branch(3, &[(1, 1), (2, 2)])), Some(vec![(1, 1), (2, 2), (3, 1)]));
    }

    #[test]
    fn a_turn_before_its_parents_is_no_lineage() {
        assert_eq!(lineage_of(&branch(2, &[(1, 1), (2, 2)])), None);
    }

    #[test]
    fn a_beginning_is_on_one_line_with_what_follows() {
        assert!(is_one_line(&vec![(1, 1)], &vec![(1, 1), (2, 1)]));
        assert!(!is_one_line(&vec![(1, 2)], &vec![(1, 1), (2, 1)]));
    }
}

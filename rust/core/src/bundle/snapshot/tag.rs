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
        /// The runtime's own words for the branch, its parents left out: a map, or nil.
        branch: Value,
        /// The lineage that the branch continues, where the runtime named a sound one.
        parents: Option<Path>,
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

fn is_ascending(path: &[(i64, i64)]) -> bool {
    path.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

/// Where a branch tag keeps its parents.
const PARENTS: &str = "parent_branch_path";

/// Whether one of the two lineages is the beginning of the other.
pub fn is_one_line(a: &[(i64, i64)], b: &[(i64, i64)]) -> bool {
    a.iter().zip(b).all(|(one, other)| one == other)
}

/// A lineage in runs of `[turn, branch, length]`: a straight history is one, however long.
pub fn runs_of(path: &[(i64, i64)]) -> Value {
    let mut runs: Vec<(i64, i64, i64)> = Vec::new();
    for (turn, branch) in path {
        match runs.last_mut() {
            Some((first, same, length)) if *first + *length == *turn && same == branch => *length += 1,
            _ => runs.push((*turn, *branch, 1)),
        }
    }
    let run =
        |(turn, branch, length)| Value::List(vec![Value::Int(turn), Value::Int(branch), Value::Int(length)]);
    Value::List(runs.into_iter().map(run).collect())
}

/// Reads runs back; `None` unless they make a sound lineage.
pub fn path_of_runs(runs: &Value) -> Option<Path> {
    let mut path = Path::new();
    for run in runs.as_list()? {
        let [turn, branch, length] = run.as_list()? else { return None };
        let (turn, branch, length) = (positive(turn)?, positive(branch)?, positive(length)?);
        if length > 1 << 31 {
            return None;
        }
        path.extend((turn..turn.checked_add(length)?).map(|turn| (turn, branch)));
    }
    is_ascending(&path).then_some(path)
}

/// A lineage as the value that the peer stores.
pub fn path_value(path: &[(i64, i64)]) -> Value {
    Value::List(
        path.iter().map(|(turn, branch)| Value::List(vec![Value::Int(*turn), Value::Int(*branch)])).collect(),
    )
}

impl Tag {
    /// A tag of a branch as the runtime gave it; parents that are a sound lineage are kept apart.
    pub fn of_branch(branch: Value, watermark: i64, compact_state: Value) -> Self {
        let parents = branch.get(PARENTS).and_then(parse_path);
        let branch = match branch {
            Value::Map(fields) if parents.is_some() => {
                Value::Map(fields.into_iter().filter(|(name, _)| name != PARENTS).collect())
            }
            other => other,
        };
        Self::Branch { branch, parents, watermark, compact_state }
    }

    /// The branch in the runtime's own words, parents included.
    pub fn branch_value(&self) -> Value {
        match self {
            Self::Plain => Value::Nil,
            Self::Branch { branch, parents, .. } => match (branch, parents) {
                (Value::Map(fields), Some(parents)) => {
                    let parents = (PARENTS.into(), path_value(parents));
                    Value::Map(fields.iter().cloned().chain([parents]).collect())
                }
                _ => branch.clone(),
            },
        }
    }

    /// The whole lineage, its parents and itself, where the tag names a sound one.
    pub fn lineage(&self) -> Option<Path> {
        let Self::Branch { branch, parents, watermark, .. } = self else { return None };
        // Parents that are there and not sound make the whole tag unsound.
        if *watermark < 0 || branch.get(PARENTS).is_some_and(Value::truthy) {
            return None;
        }
        let own = (positive(branch.get("turn_index")?)?, positive(branch.get("branch_id")?)?);
        let mut path = parents.clone().unwrap_or_default();
        path.push(own);
        is_ascending(&path).then_some(path)
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
                ("compact_count".into(), Value::Int(0)),
                ("last_compact_time".into(), Value::Float(0.0)),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(turn: i64, parents: &[(i64, i64)]) -> Tag {
        let branch = Value::Map(vec![
            ("turn_index".into(), Value::Int(turn)),
            ("branch_id".into(), Value::Int(1)),
            ("parent_branch_path".into(), path_value(parents)),
        ]);
        Tag::of_branch(branch, 7, Value::Nil)
    }

    #[test]
    fn a_lineage_ends_with_the_tagged_turn() {
        assert_eq!(tag(3, &[(1, 1), (2, 2)]).lineage(), Some(vec![(1, 1), (2, 2), (3, 1)]));
    }

    #[test]
    fn a_turn_before_its_parents_is_no_lineage() {
        assert_eq!(tag(2, &[(1, 1), (2, 2)]).lineage(), None);
    }

    #[test]
    fn a_beginning_is_on_one_line_with_what_follows() {
        assert!(is_one_line(&[(1, 1)], &[(1, 1), (2, 1)]));
        assert!(!is_one_line(&[(1, 2)], &[(1, 1), (2, 1)]));
    }

    #[test]
    fn a_lineage_comes_back_from_its_runs() {
        let path = [(1, 1), (2, 1), (3, 2), (4, 2), (9, 2)];

        let runs = runs_of(&path);

        assert_eq!(runs.as_list().map(<[Value]>::len), Some(3));
        assert_eq!(path_of_runs(&runs), Some(path.to_vec()));
    }
}

//! Which branch of each turn is asked for.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::branch::{Candidate, History, choose};
use super::drift::Drift;
use super::log::{Line, lines};
use super::path::pairs;
use crate::codec::Value;
use crate::{Error, Result};

/// A branch for each of some turns.
pub type View = BTreeMap<i64, i64>;

/// Reads a view as it is stored or passed: a map from turn to branch.
///
/// Both are positive integers, or such integers in plain decimal digits; nothing else is taken for one.
pub fn parse_view(value: &Value) -> Result<View> {
    let pairs = value.as_map().ok_or_else(|| refused("branch_view must be a mapping"))?;
    let mut view = View::new();
    for (turn, branch) in pairs {
        let branch = match branch {
            Value::Int(number) => Some(*number),
            Value::Str(digits) => decimal(digits),
            _ => None,
        };
        let (Some(turn), Some(branch)) = (decimal(turn), branch) else {
            return Err(refused("branch_view keys and values must be integers"));
        };
        view.insert(turn, branch);
    }
    Ok(view)
}

fn decimal(digits: &str) -> Option<i64> {
    digits.parse::<i64>().ok().filter(|number| number.to_string() == digits)
}

fn refused(what: impl Into<String>) -> Error {
    Error::BranchView { what: what.into() }
}

/// Returns the branch of every turn under a view that must be met in full.
///
/// Only user events count as branches here. Each branch asked for brings its ancestry with it; turns
/// that are left open get their latest branch. Fails with [`Error::BranchView`] when a branch does not
/// exist, or when two that are needed contradict each other.
pub fn resolve_branch_view_strict(events: &[Value], view: &View) -> Result<View> {
    if view.iter().any(|(turn, branch)| *turn < 1 || *branch < 1) {
        return Err(refused("turn indices and branch ids must be positive"));
    }
    let lines = lines(events);
    let history = History::of(&lines);
    let mut users: HashMap<(i64, i64), usize> = HashMap::new();
    let mut candidates = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.is_user()) {
        let Some(place) = line.place else { continue };
        users.entry(place).or_insert(at);
        candidates.push(Candidate::new(at, line, place));
    }
    let needed = Needs { lines: &lines, history: &history, users: &users }.close(view)?;
    agree(&lines, &users, &needed)?;
    choose(&candidates, &history, needed, &View::new()).map_err(|(turn, branch)| {
        refused(format!("branch {branch} at turn {turn} is incompatible with the view"))
    })
}

/// The user events of a log, by turn and branch, and what each needs before it.
struct Needs<'l, 'a> {
    lines: &'l [Line<'a>],
    history: &'l History,
    users: &'l HashMap<(i64, i64), usize>,
}

impl Needs<'_, '_> {
    /// Adds to a view what its branches need, from the last turn to the first.
    fn close(&self, view: &View) -> Result<View> {
        if let Some((turn, branch)) =
            view.iter().find(|(turn, branch)| !self.users.contains_key(&(**turn, **branch)))
        {
            return Err(refused(format!("branch {branch} does not exist for turn {turn}")));
        }
        let mut needed = view.clone();
        let mut turns: Vec<i64> = self.history.turns().collect();
        turns.sort_unstable();
        // Implied paths agree wherever they overlap, or the check that follows refuses them. So the latest
        // of them says all that the others say.
        let mut latest: Option<usize> = None;
        for turn in turns.into_iter().rev() {
            let implied = || latest.and_then(|at| self.history.highest_before(turn, at));
            let Some(branch) = needed.get(&turn).copied().or_else(implied) else { continue };
            // A turn that no user began is implied by the log alone, and nobody can select it.
            let Some(&at) = self.users.get(&(turn, branch)) else { continue };
            needed.insert(turn, branch);
            match self.lines[at].path {
                Some(path) => self.add_stated(&mut needed, (turn, branch), path)?,
                None if self.lines[at].id.is_none() => {}
                None => latest = latest.max(Some(at)),
            }
        }
        Ok(needed)
    }

    fn add_stated(&self, needed: &mut View, (turn, branch): (i64, i64), path: &Value) -> Result<()> {
        for (earlier, parent) in pairs(Some(path)).filter(|(earlier, _)| *earlier < turn) {
            let known = needed.get(&earlier).copied();
            if let Some(known) = known.filter(|known| *known != parent) {
                return Err(contradiction((turn, branch), (earlier, known)));
            }
            if !self.users.contains_key(&(earlier, parent)) {
                return Err(refused(format!(
                    "branch {branch} at turn {turn} references missing branch {parent} at turn {earlier}"
                )));
            }
            needed.insert(earlier, parent);
        }
        Ok(())
    }
}

/// Checks that no needed branch contradicts another; of those that do, the one of the last turn is named.
fn agree(lines: &[Line<'_>], users: &HashMap<(i64, i64), usize>, needed: &View) -> Result<()> {
    let firsts: HashSet<usize> =
        needed.iter().filter_map(|(turn, branch)| users.get(&(*turn, *branch)).copied()).collect();
    let mut drift = Drift::new(needed);
    let mut worst = None;
    for (at, line) in lines.iter().enumerate() {
        let Some((turn, branch)) = line.place else { continue };
        if firsts.contains(&at) && !drift.agrees(line, turn) {
            worst = worst.max(Some(((turn, branch), drift.first_astray(turn).unwrap_or_default())));
        }
        drift.pass(turn, branch);
    }
    match worst {
        None => Ok(()),
        Some((place, earlier)) => {
            Err(contradiction(place, (earlier, needed.get(&earlier).copied().unwrap_or_default())))
        }
    }
}

fn contradiction((turn, branch): (i64, i64), (earlier, other): (i64, i64)) -> Error {
    refused(format!("branch {branch} at turn {turn} is incompatible with branch {other} at turn {earlier}"))
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::*;

    fn ask(id: i64, turn: i64, branch: i64) -> Value {
        record([
            ("type", string("user_message")),
            ("event_id", Value::Int(id)),
            ("turn_index", Value::Int(turn)),
            ("branch_id", Value::Int(branch)),
        ])
    }

    #[test]
    fn a_view_is_read_from_numbers_and_plain_digits_alone() {
        let view = record([("1", Value::Int(2)), ("20", string("3"))]);
        assert_eq!(parse_view(&view).ok(), Some(View::from([(1, 2), (20, 3)])));

        for (turn, branch) in
            [("01", Value::Int(1)), ("1", string("+1")), ("1", Value::Bool(true)), ("x", Value::Int(1))]
        {
            assert!(parse_view(&record([(turn, branch)])).is_err());
        }
        assert!(parse_view(&Value::List(Vec::new())).is_err());
    }

    #[test]
    fn an_implied_ancestor_comes_with_the_branch_that_needs_it() {
        let events = [ask(1, 1, 1), ask(2, 2, 1), ask(3, 1, 2), ask(4, 2, 2), ask(5, 3, 1)];

        let resolved = resolve_branch_view_strict(&events, &View::from([(2, 1)]));

        assert_eq!(resolved.ok(), Some(View::from([(1, 1), (2, 1)])));
    }

    #[test]
    fn a_refusal_names_the_branches_that_contradict() {
        let events = [ask(1, 1, 1), ask(2, 2, 1), ask(3, 1, 2), ask(4, 2, 2)];
        let refusal =
            |view: View| resolve_branch_view_strict(&events, &view).map_err(|error| error.to_string()).err();
        let contradiction = "branch 1 at turn 2 is incompatible with branch 2 at turn 1";

        assert_eq!(refusal(View::from([(1, 2), (2, 1)])).as_deref(), Some(contradiction));
        assert_eq!(refusal(View::from([(3, 1)])).as_deref(), Some("branch 1 does not exist for turn 3"));
        assert_eq!(
            refusal(View::from([(0, 1)])).as_deref(),
            Some("turn indices and branch ids must be positive")
        );
    }
}

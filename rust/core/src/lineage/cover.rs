//! Which summary stands for which event.

use std::collections::{BinaryHeap, HashMap};

use super::compaction::{Pathless, Rule, usable_rules};
use super::dedupe::repeats;
use super::log::{Line, Log};
use super::view::View;
use crate::codec::Value;

/// The summaries in use, and for each event of the log the one that stands for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Cover {
    pub rules: Vec<Rule>,
    /// For each event a number into `rules`.
    pub by: Vec<Option<usize>>,
}

impl Cover {
    /// Finds the summaries of a log that stand under its selection: each that stands for part of the shown
    /// conversation that no better one stands for. Where two reach for an event, the better one has it.
    pub(super) fn of(log: &Log<'_>, pathless: Pathless) -> Self {
        let rules = usable_rules(log, pathless);
        let mut by = vec![None; log.lines.len()];
        if rules.is_empty() {
            return Self { rules, by };
        }
        let mut order: Vec<usize> = (0..log.lines.len()).filter(|&at| log.lines[at].id.is_some()).collect();
        order.sort_by_key(|&at| log.lines[at].id);
        let rules = standing(log, &order, rules);
        best_rules(&log.lines, &order, &rules, |at, rule| by[at] = Some(rule));
        Self { rules, by }
    }
}

/// Returns the summaries that stand under a view, the best last.
pub fn compact_rules(events: &[Value], view: &View) -> Vec<Rule> {
    Cover::of(&Log::read(events, view), Pathless::All).rules
}

/// Returns the ids of the events that a summary stands for under a view, ascending.
///
/// A result that was recorded twice in a row is covered as often.
pub fn compact_covered_event_ids(events: &[Value], view: &View) -> Vec<i64> {
    let log = Log::read(events, view);
    let cover = Cover::of(&log, Pathless::All);
    let mut covered = false;
    let mut ids = Vec::new();
    for (at, line) in log.lines.iter().enumerate() {
        let again = covered && line.kind == "tool_result" && repeats(line.event, log.lines[at - 1].event);
        covered = line.id.is_some() && (again || cover.by[at].is_some());
        ids.extend(line.id.filter(|_| covered));
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn standing(log: &Log<'_>, order: &[usize], rules: Vec<Rule>) -> Vec<Rule> {
    let told: Vec<usize> =
        order.iter().copied().filter(|&at| log.live[at] && is_told(log.lines[at].kind)).collect();
    let mut stands = vec![false; rules.len()];
    best_rules(&log.lines, &told, &rules, |_, rule| stands[rule] = true);
    rules.into_iter().zip(stands).filter(|(_, stands)| *stands).map(|(rule, _)| rule).collect()
}

/// Returns whether replay tells of an event of this type to the model, in the words of one side or the other.
fn is_told(kind: &str) -> bool {
    matches!(
        kind,
        "user_message"
            | "text_chunk"
            | "text"
            | "assistant_message"
            | "assistant_image"
            | "assistant_tool_calls"
            | "tool_call"
            | "tool_result"
    )
}

/// Calls `found` with each event in `order` that a rule covers and the highest number of such a rule.
///
/// A sweep over the ids: a rule is open while the sweep is in its range. `order` must be ascending by id.
fn best_rules(lines: &[Line<'_>], order: &[usize], rules: &[Rule], mut found: impl FnMut(usize, usize)) {
    let mut starts: Vec<usize> = (0..rules.len()).collect();
    starts.sort_by_key(|&rule| rules[rule].from);
    let mut starts = starts.into_iter().peekable();
    let mut named: HashMap<i64, usize> = HashMap::new();
    for (number, rule) in rules.iter().enumerate() {
        named.extend(rule.results.iter().map(|id| (*id, number)));
    }
    let mut anywhere = BinaryHeap::new();
    let mut on_path: HashMap<(i64, i64), BinaryHeap<usize>> = HashMap::new();
    for &at in order {
        let Some(id) = lines[at].id else { continue };
        while let Some(rule) = starts.next_if(|&rule| rules[rule].from <= id) {
            match &rules[rule].path {
                None => anywhere.push(rule),
                Some(path) => path.iter().for_each(|place| on_path.entry(*place).or_default().push(rule)),
            }
        }
        let here = lines[at].place.and_then(|place| on_path.get_mut(&place));
        let best = [best_open(&mut anywhere, rules, id), here.and_then(|open| best_open(open, rules, id))];
        let best = best.into_iter().flatten().chain(named.get(&id).copied()).max();
        if let Some(rule) = best {
            found(at, rule);
        }
    }
}

/// Returns the best rule whose range reaches `id`, dropping those that ended before it.
fn best_open(open: &mut BinaryHeap<usize>, rules: &[Rule], id: i64) -> Option<usize> {
    while let Some(&rule) = open.peek() {
        if rules[rule].to >= id {
            return Some(rule);
        }
        open.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::super::view::View;
    use super::*;
    use crate::codec::Value;

    fn event(kind: &str, id: i64, turn: i64) -> Value {
        record([
            ("type", string(kind)),
            ("event_id", Value::Int(id)),
            ("turn_index", Value::Int(turn)),
            ("branch_id", Value::Int(1)),
            ("content", string("x")),
        ])
    }

    /// A summary of the events `from` to `to`, made from the turns `path`.
    fn summary(id: i64, (from, to): (i64, i64), path: &[i64]) -> Value {
        let pair = |turn: &i64| Value::List(vec![Value::Int(*turn), Value::Int(1)]);
        record([
            ("type", string("compact_complete")),
            ("event_id", Value::Int(id)),
            ("replaced_from_event_id", Value::Int(from)),
            ("replaced_to_event_id", Value::Int(to)),
            ("summary", string(format!("s{id}"))),
            ("compact_path", Value::List(path.iter().map(pair).collect())),
        ])
    }

    fn turns() -> Vec<Value> {
        (1..=6).map(|id| event("user_message", id, id)).collect()
    }

    /// The summary that stands for each event, by its text.
    fn told(events: &[Value]) -> Vec<String> {
        let cover = Cover::of(&Log::read(events, &View::new()), Pathless::All);
        cover
            .by
            .iter()
            .map(|rule| rule.map_or("-".into(), |rule| cover.rules[rule].summary.clone()))
            .collect()
    }

    #[test]
    fn summaries_of_different_parts_all_stand() {
        let mut events = turns();
        events.extend([summary(7, (1, 2), &[1, 2]), summary(8, (4, 5), &[4, 5]), summary(9, (3, 3), &[])]);

        assert_eq!(told(&events)[..6], ["s7", "s7", "s9", "s8", "s8", "-"]);
    }

    #[test]
    fn a_summary_within_a_later_one_is_gone() {
        let mut events = turns();
        events.extend([summary(7, (1, 2), &[1, 2]), summary(8, (1, 4), &[1, 2, 3, 4])]);

        let log = Log::read(&events, &View::new());
        assert_eq!(Cover::of(&log, Pathless::All).rules.len(), 1);
        assert_eq!(told(&events)[..6], ["s8", "s8", "s8", "s8", "-", "-"]);
    }

    #[test]
    fn where_two_reach_for_an_event_the_one_made_from_more_has_it() {
        let mut events = turns();
        events.extend([summary(7, (3, 5), &[3, 4, 5]), summary(8, (1, 3), &[1, 3])]);

        assert_eq!(told(&events)[..6], ["s8", "-", "s7", "s7", "s7", "-"]);
    }

    #[test]
    fn a_summary_of_what_is_not_selected_stands_for_nothing() {
        let mut events = turns();
        events.push(summary(7, (1, 6), &[1, 9]));

        assert!(told(&events).iter().all(|rule| rule == "-"));
    }

    #[test]
    fn a_summary_without_a_path_stands_for_a_resumed_branch_only_when_made_on_it() {
        let mut elsewhere = summary(7, (1, 2), &[]);
        if let Value::Map(pairs) = &mut elsewhere {
            pairs.extend([("turn_index".into(), Value::Int(6)), ("branch_id".into(), Value::Int(2))]);
        }
        let mut events = turns();
        events.push(elsewhere);
        let log = Log::read(&events, &View::from([(6, 1)]));

        assert_eq!(Cover::of(&log, Pathless::All).rules.len(), 1);
        assert!(Cover::of(&log, Pathless::Shown).rules.is_empty());
    }
}

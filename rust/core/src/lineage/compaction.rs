//! Summaries that stand in for older events, and which of them a view can use.

use super::chosen::Chosen;
use super::field::{int, text};
use super::log::{Line, Log};
use super::path::pairs;
use crate::codec::Value;

/// A summary and the events that it replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The first id of the range that it replaces.
    pub from: i64,
    /// The last id of that range.
    pub to: i64,
    /// The turns and branches whose events it replaces; without them it replaces all of its range.
    pub path: Option<Vec<(i64, i64)>>,
    /// The text that stands for them.
    pub summary: String,
    /// The turns and branches that it was made from, where that is known.
    pub source: Option<Vec<(i64, i64)>>,
    /// Results outside of its range that it tells of, ascending.
    pub results: Vec<i64>,
    /// Whether the event says what it was made from, were it that nobody knows.
    pub source_is_recorded: bool,
}

impl Rule {
    /// Reads the rule that a compaction event states; one without bounds replaces nothing.
    fn of(line: &Line<'_>) -> Option<Self> {
        if !matches!(line.kind, "compact_complete" | "compact_replace") {
            return None;
        }
        let event = line.event;
        let path: Vec<(i64, i64)> = sorted(pairs(event.get("compact_path")));
        let results = event.get("compact_result_event_ids").and_then(Value::as_list).unwrap_or_default();
        Some(Self {
            from: int(event, "replaced_from_event_id")?,
            to: int(event, "replaced_to_event_id")?,
            path: Some(path).filter(|path| !path.is_empty()),
            summary: summary(event),
            source: source(event.get("compact_source_path")),
            results: sorted(results.iter().filter_map(Value::as_i64).filter(|id| *id > 0)),
            source_is_recorded: event.get("compact_source_path").is_some(),
        })
    }

    /// Returns how much is known in favour of the rule under a selection; nothing when it must not be used.
    ///
    /// A summary of a path is used when all it was made from is selected, the one made from most first. One
    /// without a path, of older sessions, comes after those, where `pathless` ones are taken at all.
    fn rank(&self, selected: &Chosen, pathless: bool) -> Option<(u8, usize)> {
        let Some(path) = &self.path else {
            return (pathless && !self.source_is_recorded).then_some((1, 0));
        };
        let inputs = self.source.as_ref().unwrap_or(path);
        selected.has_all(inputs).then_some((2, inputs.len()))
    }

    /// Returns the metadata of the message that carries the summary.
    pub(super) fn metadata(&self) -> Value {
        let pair = |(turn, branch): &(i64, i64)| Value::List(vec![Value::Int(*turn), Value::Int(*branch)]);
        let source =
            self.source.as_ref().map_or(Value::Nil, |path| Value::List(path.iter().map(pair).collect()));
        super::field::record([
            ("compact_summary", Value::Bool(true)),
            ("compact_result_event_ids", Value::List(self.results.iter().copied().map(Value::Int).collect())),
            ("compact_source_path", source),
        ])
    }
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}

fn summary(event: &Value) -> String {
    let summary = match text(event, "summary") {
        "" => text(event, "summary_text"),
        summary => summary,
    };
    match int(event, "round").filter(|round| *round > 0 && event.get("compact_source_path").is_some()) {
        Some(round) => format!("[Previous context summary (compact round {round})]\n\n{summary}"),
        None => summary.to_owned(),
    }
}

/// Reads what a summary was made from. A path that holds anything but pairs of positive integers proves
/// nothing.
fn source(path: Option<&Value>) -> Option<Vec<(i64, i64)>> {
    let items = path?.as_list()?;
    let found = sorted(pairs(path));
    let all =
        pairs(path).count() == items.len() && found.iter().all(|(turn, branch)| *turn > 0 && *branch > 0);
    (all && !found.is_empty()).then_some(found)
}

/// Which summaries without a path are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pathless {
    /// All: none of them says what it was made from.
    All,
    /// Those that were made on what is shown. One that was made on another branch may tell of that branch.
    Shown,
}

/// Returns the rules that a log can use under its selection, the best last; of equals the latest is the best.
pub(super) fn usable_rules(log: &Log<'_>, pathless: Pathless) -> Vec<Rule> {
    let selected: Chosen = log.selected_branches().iter().collect();
    let ranked = log.lines.iter().zip(&log.live).filter_map(|(line, live)| {
        let rule = Rule::of(line)?;
        let rank = rule.rank(&selected, *live || pathless == Pathless::All)?;
        Some((rank, rule))
    });
    let mut ranked: Vec<((u8, usize), Rule)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, rule)| rule).collect()
}

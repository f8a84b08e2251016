//! The end of a log: whether it merely goes on from a snapshot, and where it may be cut.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::field::{JOB, identity};
use super::highest::Highest;
use super::log::{Log, lines};
use super::path::pairs;
use super::view::View;
use crate::codec::Value;

/// Returns whether the events after a snapshot can be told after its messages, without the log before.
///
/// `lineage` is that of the snapshot and `highest` that of the whole log. They can when the view shows the
/// snapshot's lineage, no event of them leaves it, and none reaches back: no summary, no result of an
/// earlier call, nothing that changes what was told.
pub fn continues(tail: &[Value], lineage: &[(i64, i64)], highest: &Highest, view: &View) -> bool {
    let Some(&last) = lineage.last() else { return false };
    let until = || highest.before(last.0.saturating_add(1));
    let shown = until().map(|(turn, branch)| (turn, view.get(&turn).copied().unwrap_or(branch)));
    if !shown.eq(lineage.iter().copied()) {
        return false;
    }
    let implied = until().eq(lineage.iter().copied());
    let known: HashMap<i64, i64> = lineage.iter().copied().collect();
    let mut called = HashSet::new();
    lines(tail).iter().all(|line| {
        let goes_on = line.place.is_none_or(|place| place == last || place.0 > last.0)
            && match line.path {
                Some(path) => pairs(Some(path))
                    .all(|(turn, branch)| known.get(&turn).is_none_or(|shown| *shown == branch)),
                None => implied || line.place.is_none(),
            };
        goes_on
            && match line.kind {
                "compact_complete" | "compact_replace" | "context_cleared" | "system_prompt_set" => false,
                "tool_call" => {
                    called.insert(identity(line.event, JOB));
                    true
                }
                "tool_result" => called.contains(&identity(line.event, JOB)),
                _ => true,
            }
    })
}

/// A call of a tool, with what must stay together with it.
struct Exchange {
    /// The first event of the round that makes the call.
    begin: i64,
    call: i64,
    result: Option<i64>,
    /// Whether a user message came after it: then a result that is missing will not come any more.
    is_over: bool,
}

impl Log<'_> {
    /// Narrows a range of ids so that no exchange with a tool lies half within it. A call of the last turn
    /// that waits for its result stays outside.
    pub fn whole_exchanges(&self, from: i64, to: i64) -> (i64, i64) {
        let exchanges = self.exchanges();
        let (mut from, mut to) = (from, to);
        loop {
            let before = (from, to);
            for exchange in &exchanges {
                let waits = exchange.result.is_none() && !exchange.is_over;
                if exchange.call <= to && (waits || exchange.result.is_some_and(|result| result > to)) {
                    to = to.min(exchange.begin - 1);
                }
                if let Some(result) = exchange.result.filter(|result| *result >= from)
                    && exchange.begin < from
                    && result <= to
                {
                    from = result + 1;
                }
            }
            if (from, to) == before {
                return (from, to);
            }
        }
    }

    fn exchanges(&self) -> Vec<Exchange> {
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut open: HashMap<Cow<'_, str>, usize> = HashMap::new();
        let (mut begin, mut in_round) = (None, false);
        for (line, _) in self.lines.iter().zip(&self.live).filter(|(_, live)| **live) {
            let Some(id) = line.id else { continue };
            match line.kind {
                "assistant_round_start" => (begin, in_round) = (Some(id), true),
                "text_chunk" | "text" | "assistant_tool_calls" => begin = begin.or(Some(id)),
                "tool_call" => {
                    let first = *begin.get_or_insert(id);
                    open.insert(identity(line.event, JOB), exchanges.len());
                    exchanges.push(Exchange { begin: first, call: id, result: None, is_over: false });
                }
                "tool_result" => {
                    if let Some(number) = open.remove(&identity(line.event, JOB)) {
                        exchanges[number].result = Some(id);
                    }
                    if !in_round {
                        begin = None;
                    }
                }
                "user_message" => {
                    for exchange in &mut exchanges {
                        exchange.is_over = true;
                    }
                    (begin, in_round) = (None, false);
                }
                "processing_start" | "processing_end" => (begin, in_round) = (None, false),
                _ => {}
            }
        }
        exchanges
    }
}

//! Results that came late: each is told next to the call it belongs to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::announce::Step;
use super::cover::Cover;
use super::field::{JOB, identity, int};
use super::log::{Line, Log};

/// Returns what a view shows of a log, in order, each repeated event once.
pub(super) fn shown<'a>(log: &Log<'a>, cover: &Cover) -> Vec<Step<'a>> {
    log.distinct().filter(|&at| log.live[at]).map(|at| step(log, cover, at)).collect()
}

/// As [`shown`], with each result that was recorded in a later turn or on another branch moved to the call
/// that the view shows.
pub(super) fn settled<'a>(log: &Log<'a>, cover: &Cover) -> Vec<Step<'a>> {
    let distinct: Vec<usize> = log.distinct().collect();
    let late = late_results(log, cover, &distinct);
    let mut steps = Vec::with_capacity(distinct.len());
    for at in distinct.into_iter().filter(|&at| log.live[at]) {
        let line = &log.lines[at];
        let moved = match line.kind {
            "tool_call" | "tool_result" if !late.is_empty() => late.get(&*identity(line.event, JOB)),
            _ => None,
        };
        if line.kind == "tool_call" || moved.is_none() {
            steps.push(step(log, cover, at));
        }
        if let (Some(&result), "tool_call") = (moved, line.kind) {
            steps.push(Step { rule: None, settled: true, ..step(log, cover, result) });
        }
    }
    steps
}

fn step<'a>(log: &Log<'a>, cover: &Cover, at: usize) -> Step<'a> {
    let line = &log.lines[at];
    let (event, kind) = (Cow::Borrowed(line.event), Cow::Borrowed(line.kind));
    Step { event, kind, rule: cover.by[at], settled: false }
}

/// Finds, for each call that is shown, the result that was recorded away from it.
pub(super) fn late_results<'a>(
    log: &Log<'a>,
    cover: &Cover,
    distinct: &[usize],
) -> HashMap<Cow<'a, str>, usize> {
    let mut calls: HashMap<Cow<'a, str>, Option<i64>> = HashMap::new();
    let mut answered: HashSet<Cow<'a, str>> = HashSet::new();
    for &at in distinct.iter().filter(|&&at| log.live[at]) {
        let line = &log.lines[at];
        match line.kind {
            "tool_call" => {
                calls.entry(job(line)).or_insert_with(|| int(line.event, "turn_index"));
            }
            "tool_result" => {
                answered.insert(job(line));
            }
            _ => {}
        }
    }
    let mut late = HashMap::new();
    for &at in distinct.iter().filter(|&&at| log.lines[at].kind == "tool_result" && cover.by[at].is_none()) {
        let line = &log.lines[at];
        let job = job(line);
        let Some(call) = calls.get(&job).copied().filter(|_| !job.is_empty()) else { continue };
        let after = call.zip(int(line.event, "turn_index")).is_some_and(|(call, result)| result > call);
        if !answered.contains(&job) || (log.live[at] && line.id.is_some() && after) {
            late.entry(job).or_insert(at);
        }
    }
    late
}

fn job<'a>(line: &Line<'a>) -> Cow<'a, str> {
    identity(line.event, JOB)
}

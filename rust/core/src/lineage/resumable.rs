//! Events as a resumed session repaints them: nothing is left open.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::announce::{Step, announce};
use super::dedupe::dedupe_adjacent;
use super::field::{JOB, identity, int, or, record, string, truthy};
use crate::codec::Value;

/// What the result of an interrupted call says.
pub(super) const INTERRUPTED: &str = "Interrupted by session resume";

/// Returns the events of a log for a resumed session: each fact once, each call announced and finished.
///
/// Jobs in `live_job_ids` still run and are left open.
pub fn resumable_events(events: Vec<Value>, live_job_ids: &[String]) -> Vec<Value> {
    normalize_resumable_events(dedupe_adjacent(events), live_job_ids)
}

/// Finishes what was interrupted and announces the calls that nothing announces.
///
/// A call without a result whose job is not in `live_job_ids` gets one at the end, marked
/// `_synthetic_resume`; an announcement made here is marked `_synthetic_announce`. Neither has an id, and
/// the events given are otherwise unchanged and in their order.
pub fn normalize_resumable_events(events: Vec<Value>, live_job_ids: &[String]) -> Vec<Value> {
    announced_events(events, &BTreeSet::new(), Some(live_job_ids))
}

/// Announces the calls that nothing announces, but for events in `covered`, which a summary stands for.
///
/// With `interrupted`, calls that never got a result have one that says so, but for the jobs it names. The
/// events may have gone through a reader that moved results to their calls and marked them
/// `_settled_from_call`; such a result needs the announcement of its call even where that is covered.
pub fn announced_events(
    events: Vec<Value>,
    covered: &BTreeSet<i64>,
    interrupted: Option<&[String]>,
) -> Vec<Value> {
    let step = |event: Value| {
        let rule = int(&event, "event_id").filter(|id| covered.contains(id)).map(|_| 0);
        let settled = truthy(&event, "_settled_from_call").is_some();
        Step { rule, settled, ..Step::made(event) }
    };
    let mut steps: Vec<Step<'_>> = events.into_iter().map(step).collect();
    if let Some(live_job_ids) = interrupted {
        finish(&mut steps, live_job_ids);
    }
    announce(steps).into_iter().map(|step| step.event.into_owned()).collect()
}

/// Appends a result for each call that has none and whose job is not live. What a summary covers is
/// finished already.
pub(super) fn finish(steps: &mut Vec<Step<'_>>, live_job_ids: &[String]) {
    let live: HashSet<&str> = live_job_ids.iter().map(|job| &**job).collect();
    let mut tools = Jobs::default();
    let mut agents = Jobs::default();
    for step in steps.iter().filter(|step| step.rule.is_none()) {
        let event = &*step.event;
        match &*step.kind {
            "tool_call" => tools.start(&identity(event, JOB), event),
            "tool_result" => tools.end(&identity(event, JOB)),
            "subagent_call" => agents.start(&identity(event, &["job_id"]), event),
            "subagent_result" => agents.end(&identity(event, &["job_id"])),
            _ => {}
        }
    }
    let mut made: Vec<Step<'_>> = Vec::new();
    made.extend(tools.open(&live).map(|(job, call)| Step::made(tool_result(job, call))));
    made.extend(agents.open(&live).map(|(job, call)| Step::made(subagent_result(job, call))));
    steps.extend(made);
}

/// Jobs in the order in which they first started; a later call of the same id replaces the earlier one.
#[derive(Default)]
struct Jobs<'e> {
    started: Vec<(String, &'e Value)>,
    index: HashMap<String, usize>,
    ended: HashSet<String>,
}

impl<'e> Jobs<'e> {
    fn start(&mut self, job: &str, call: &'e Value) {
        match self.index.get(job) {
            _ if job.is_empty() => {}
            Some(&at) => self.started[at].1 = call,
            None => {
                self.index.insert(job.to_owned(), self.started.len());
                self.started.push((job.to_owned(), call));
            }
        }
    }

    fn end(&mut self, job: &str) {
        if !self.ended.contains(job) {
            self.ended.insert(job.to_owned());
        }
    }

    fn open(&self, live: &HashSet<&str>) -> impl Iterator<Item = (&str, &'e Value)> {
        let open = self.started.iter().filter(|(job, _)| !self.ended.contains(job) && !live.contains(&**job));
        open.map(|(job, call)| (&**job, *call))
    }
}

fn named(call: &Value, default: &str) -> Value {
    truthy(call, "name").cloned().unwrap_or_else(|| string(default))
}

fn tool_result(job: &str, call: &Value) -> Value {
    record([
        ("type", string("tool_result")),
        ("name", named(call, "tool")),
        ("call_id", string(job)),
        ("job_id", truthy(call, "job_id").cloned().unwrap_or_else(|| string(job))),
        ("args", or(call, "args", Value::Map(Vec::new()))),
        ("output", string("")),
        ("error", string(INTERRUPTED)),
        ("interrupted", Value::Bool(true)),
        ("final_state", string("interrupted")),
        ("ts", or(call, "ts", Value::Int(0))),
        ("_synthetic_resume", Value::Bool(true)),
    ])
}

fn subagent_result(job: &str, call: &Value) -> Value {
    record([
        ("type", string("subagent_result")),
        ("name", named(call, "subagent")),
        ("job_id", string(job)),
        ("task", or(call, "task", string(""))),
        ("background", Value::Bool(truthy(call, "background").is_some())),
        ("output", string("")),
        ("error", string(INTERRUPTED)),
        ("success", Value::Bool(false)),
        ("interrupted", Value::Bool(true)),
        ("final_state", string("interrupted")),
        ("ts", or(call, "ts", Value::Int(0))),
        ("_synthetic_resume", Value::Bool(true)),
    ])
}

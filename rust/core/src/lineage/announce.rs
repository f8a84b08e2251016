//! Announcements that the log lacks: a result needs an assistant message that made its call.

use std::borrow::Cow;
use std::collections::HashSet;

use super::arguments::arguments;
use super::field::{JOB, PROVIDER, identity, kind, or, record, string, truthy};
use super::round::{Mark, call_ids, rounds};
use super::tool::tool_name;
use crate::codec::Value;

/// One event on its way to replay.
#[derive(Debug, Clone)]
pub(super) struct Step<'a> {
    pub event: Cow<'a, Value>,
    /// Its type.
    pub kind: Cow<'a, str>,
    /// The summary that stands for it.
    pub rule: Option<usize>,
    /// A result that was moved to the call it belongs to.
    pub settled: bool,
}

impl Step<'_> {
    /// Wraps an event that was made here and is not in the log.
    pub fn made(event: Value) -> Self {
        let kind = Cow::Owned(kind(&event).to_owned());
        Self { event: Cow::Owned(event), kind, rule: None, settled: false }
    }
}

/// Puts an announcement before the first event that needs it, for all calls that nothing announces.
///
/// Calls that follow each other are announced together, as the model made them.
pub(super) fn announce(steps: Vec<Step<'_>>) -> Vec<Step<'_>> {
    let told = told_by_rounds(&steps);
    let settled: HashSet<String> = steps
        .iter()
        .filter(|step| step.settled)
        .map(|step| identity(&step.event, JOB).into_owned())
        .collect();
    let mut scribe = Scribe { out: Vec::with_capacity(steps.len() + steps.len() / 8), ..Scribe::default() };
    for (step, told) in steps.into_iter().zip(told) {
        if let Some(ids) = told {
            scribe.write_pending();
            scribe.announced.extend(ids);
        }
        let user = matches!(&*step.kind, "user_input" | "user_message");
        if user {
            scribe.write_pending();
            scribe.announced.clear();
        }
        let call = step.kind == "tool_call";
        let passes = step.rule.is_some() && !(call && settled.contains(&*identity(&step.event, JOB)));
        match &*step.kind {
            _ if passes => scribe.out.push(step),
            "tool_call" => scribe.call(step),
            // The dispatch of a sub-agent may stand between calls of one message.
            "subagent_call" => scribe.out.push(step),
            "assistant_tool_calls" => scribe.announcement(step),
            _ => {
                scribe.write_pending();
                scribe.out.push(step);
            }
        }
    }
    scribe.write_pending();
    scribe.out
}

/// Returns, for each start of a round, the ids of the calls that its message makes.
fn told_by_rounds(steps: &[Step<'_>]) -> Vec<Option<Vec<String>>> {
    let message = |at: usize| steps[at].event.get("message");
    rounds(steps, |at| steps[at].rule.is_none())
        .into_iter()
        .map(|mark| match mark {
            Mark::Start(end) => {
                Some(message(end).into_iter().flat_map(call_ids).map(str::to_owned).collect())
            }
            _ => None,
        })
        .collect()
}

#[derive(Default)]
struct Scribe<'a> {
    out: Vec<Step<'a>>,
    /// Positions in `out` of the calls that nothing has announced yet.
    pending: Vec<usize>,
    announced: HashSet<String>,
}

impl<'a> Scribe<'a> {
    fn call(&mut self, step: Step<'a>) {
        if !self.announced.contains(&*identity(&step.event, PROVIDER)) {
            self.pending.push(self.out.len());
        }
        self.out.push(step);
    }

    fn announcement(&mut self, step: Step<'a>) {
        let ids = call_ids(&step.event).filter(|id| !id.is_empty());
        self.announced.extend(ids.map(str::to_owned));
        let (out, announced) = (&self.out, &self.announced);
        self.pending.retain(|&at| !announced.contains(&*identity(&out[at].event, PROVIDER)));
        self.out.push(step);
    }

    fn write_pending(&mut self) {
        let Some(&first) = self.pending.first() else { return };
        let mut calls = Vec::with_capacity(self.pending.len());
        for at in self.pending.drain(..) {
            let call = &self.out[at].event;
            let id = identity(call, PROVIDER).into_owned();
            calls.push(announced_call(call, &id));
            self.announced.insert(id);
        }
        self.announced.remove("");
        let event = record([
            ("type", string("assistant_tool_calls")),
            ("tool_calls", Value::List(calls)),
            ("content", string("")),
            ("ts", or(&self.out[first].event, "ts", Value::Int(0))),
            ("_synthetic_announce", Value::Bool(true)),
        ]);
        self.out.push(Step::made(event));
    }
}

fn announced_call(call: &Value, id: &str) -> Value {
    let args = truthy(call, "tool_call_arguments").or_else(|| call.get("args"));
    let function = record([("name", string(tool_name(call))), ("arguments", string(arguments(args)))]);
    record([("id", string(id)), ("type", string("function")), ("function", function)])
}

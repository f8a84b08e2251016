//! The conversation that a log tells, as the messages of a chat.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::announce::{Step, announce};
use super::compaction::Pathless;
use super::cover::Cover;
use super::field::{JOB, identity, or, record, string, text, truthy};
use super::log::Log;
use super::message::{add_image, add_reasoning, role, set};
use super::path::stamp;
use super::resumable::finish;
use super::round::{Mark, call_ids, rounds};
use super::settle::{settled, shown};
use super::tool::tool_name;
use super::view::View;
use crate::codec::Value;

/// Rebuilds the messages that a view shows of a log.
///
/// Streamed text is joined, rounds that were recorded whole are told whole, and a summary stands where the
/// first event stood that it replaces. `include_metadata` gives messages the identity of their events.
pub fn replay_conversation(events: &[Value], view: &View, include_metadata: bool) -> Vec<Value> {
    Log::read(events, view).replay(include_metadata)
}

/// As [`replay_conversation`], with late results next to their calls and an announcement for each call.
///
/// With `interrupted`, calls that never got a result have one that says so, but for the jobs it names.
pub fn replay_with_settled_tools(
    events: &[Value],
    view: &View,
    include_metadata: bool,
    interrupted: Option<&[String]>,
) -> Vec<Value> {
    Log::read(events, view).replay_settled(include_metadata, interrupted)
}

impl Log<'_> {
    /// As [`replay_conversation`], of a log that was read.
    pub fn replay(&self, include_metadata: bool) -> Vec<Value> {
        let cover = Cover::of(self, Pathless::All);
        tell(&shown(self, &cover), &cover, include_metadata)
    }

    /// As [`replay_with_settled_tools`], of a log that was read.
    pub fn replay_settled(&self, include_metadata: bool, interrupted: Option<&[String]>) -> Vec<Value> {
        let cover = Cover::of(self, Pathless::Shown);
        let mut steps = settled(self, &cover);
        if let Some(live_job_ids) = interrupted {
            finish(&mut steps, live_job_ids);
        }
        tell(&announce(steps), &cover, include_metadata)
    }
}

fn tell(steps: &[Step<'_>], cover: &Cover, with_metadata: bool) -> Vec<Value> {
    let marks = rounds(steps, |at| steps[at].rule.is_none());
    let mut teller = Teller { with_metadata, provider_ids: provider_ids(steps), ..Teller::default() };
    let mut summarised = vec![false; cover.rules.len()];
    for (at, step) in steps.iter().enumerate() {
        if let Some(rule) = step.rule {
            if !std::mem::replace(&mut summarised[rule], true) {
                teller.summary(&cover.rules[rule].summary, || cover.rules[rule].metadata());
            }
        } else if let Mark::Start(end) = marks[at] {
            teller.round(&step.event, &steps[end].event);
        } else if marks[at] == Mark::End {
            teller.told = None;
        } else {
            teller.event(&step.kind, &step.event);
        }
    }
    teller.flush();
    teller.messages
}

/// Returns the ids by which the provider knows the jobs of a log.
fn provider_ids<'e>(steps: &'e [Step<'_>]) -> HashMap<Cow<'e, str>, &'e Value> {
    let calls = steps.iter().filter(|step| step.kind == "tool_call").map(|step| &*step.event);
    let known = calls.filter_map(|call| Some((identity(call, JOB), truthy(call, "tool_call_id")?)));
    known.filter(|(job, _)| !job.is_empty()).collect()
}

/// Tells events one after another.
#[derive(Default)]
struct Teller<'e> {
    messages: Vec<Value>,
    with_metadata: bool,
    provider_ids: HashMap<Cow<'e, str>, &'e Value>,
    /// Streamed text that is not a message yet.
    text: String,
    /// Whether text or an image that comes now belongs to the last message.
    joins: bool,
    /// The calls of the round that is being told; its streamed pieces are passed over.
    told: Option<HashSet<&'e str>>,
    /// The message of the last round, while nothing else began.
    whole: Option<usize>,
    asked: HashSet<(i64, i64)>,
}

impl<'e> Teller<'e> {
    fn event(&mut self, kind: &str, event: &'e Value) {
        match kind {
            _ if self.is_piece_of_round(kind, event) => {}
            "text_chunk" | "text" => self.text.push_str(text(event, "content")),
            "processing_start" | "processing_complete" | "assistant_round_start" => {
                self.flush();
                self.joins = false;
                self.whole = None;
            }
            _ if is_silent(kind) => {}
            _ => {
                self.flush();
                self.structural(kind, event);
                self.joins = kind == "assistant_image";
            }
        }
    }

    fn is_piece_of_round(&self, kind: &str, event: &Value) -> bool {
        let Some(told) = &self.told else { return false };
        match kind {
            "text_chunk" | "text" | "assistant_text" | "assistant_image" | "assistant_reasoning" => true,
            "assistant_tool_calls" => call_ids(event).all(|id| told.contains(id)),
            _ => false,
        }
    }

    fn structural(&mut self, kind: &str, event: &'e Value) {
        match kind {
            "user_message" => self.user(event),
            "assistant_tool_calls" => self.calls(event),
            "tool_result" => self.result(event),
            "system_prompt_set" => {
                let content = or(event, "content", string(""));
                self.messages.push(record([("role", string("system")), ("content", content)]));
            }
            "assistant_image" => add_image(&mut self.messages, event, self.joins),
            "assistant_reasoning" => add_reasoning(&mut self.messages, event, self.whole),
            _ => {}
        }
    }

    /// Makes a message of the text that was streamed so far, or a part of the message it belongs to.
    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = string(std::mem::take(&mut self.text));
        let last = self.messages.last_mut().filter(|_| self.joins);
        if let Some(Value::List(parts)) = last.and_then(|message| super::message::field(message, "content")) {
            parts.push(record([("type", string("text")), ("text", text)]));
        } else {
            self.messages.push(record([("role", string("assistant")), ("content", text)]));
        }
        self.joins = true;
    }

    fn summary(&mut self, summary: &str, metadata: impl FnOnce() -> Value) {
        self.flush();
        if !summary.is_empty() {
            let mut message = record([("role", string("assistant")), ("content", string(summary))]);
            if self.with_metadata {
                set(&mut message, "metadata", metadata());
            }
            self.messages.push(message);
        }
    }

    fn round(&mut self, start: &'e Value, end: &'e Value) {
        self.flush();
        let Some(whole) = end.get("message") else { return };
        let mut message = whole.clone();
        if self.with_metadata {
            set(&mut message, "metadata", place(end, start));
        }
        self.whole = Some(self.messages.len());
        self.messages.push(message);
        self.told = Some(call_ids(whole).collect());
        self.joins = false;
    }

    fn user(&mut self, event: &Value) {
        self.whole = None;
        if stamp(event).is_some_and(|place| !self.asked.insert(place)) {
            return;
        }
        let mut message = record([("role", string("user")), ("content", or(event, "content", string("")))]);
        if self.with_metadata {
            set(&mut message, "metadata", place(event, event));
        }
        self.messages.push(message);
    }

    fn calls(&mut self, event: &Value) {
        let calls = truthy(event, "tool_calls").cloned().unwrap_or_else(|| Value::List(Vec::new()));
        match self.messages.last_mut() {
            Some(last) if role(last) == "assistant" && truthy(last, "tool_calls").is_none() => {
                set(last, "tool_calls", calls);
            }
            _ => {
                let content = or(event, "content", string(""));
                self.messages.push(record([
                    ("role", string("assistant")),
                    ("content", content),
                    ("tool_calls", calls),
                ]));
            }
        }
    }

    fn result(&mut self, event: &Value) {
        let job = identity(event, JOB);
        let known = truthy(event, "tool_call_id").or_else(|| self.provider_ids.get(&*job).copied());
        let mut message = record([
            ("role", string("tool")),
            ("content", truthy(event, "output").cloned().unwrap_or_else(|| string(""))),
            ("tool_call_id", known.cloned().unwrap_or_else(|| string(&*job))),
            ("name", string(tool_name(event))),
        ]);
        if self.with_metadata {
            let metadata = record([
                ("job_id", string(&*job)),
                ("result_event_id", or(event, "_source_event_id", or(event, "event_id", Value::Nil))),
                ("tool_result_phase", string("final")),
            ]);
            set(&mut message, "metadata", metadata);
        }
        self.messages.push(message);
    }
}

/// Returns the identity of a message: the id of one event and the place of another.
fn place(identity: &Value, place: &Value) -> Value {
    record([
        ("event_id", or(identity, "event_id", Value::Nil)),
        ("turn_index", or(place, "turn_index", Value::Nil)),
        ("branch_id", or(place, "branch_id", Value::Nil)),
    ])
}

/// Returns whether events of this type may stand within streamed text without ending it.
fn is_silent(kind: &str) -> bool {
    matches!(
        kind,
        "compact_start"
            | "compact_complete"
            | "compact_replace"
            | "compact_skipped"
            | "compact_decision"
            | "background_result"
            | "token_usage"
            | "turn_token_usage"
            | "cache_stats"
            | "scratchpad_write"
            | "plugin_hook_timing"
    )
}

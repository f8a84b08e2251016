//! A conversation that was kept at some event, and whether a log can be told from there.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::cover::Cover;
use super::field::{JOB, identity, text};
use super::log::{Line, Log};
use super::message::role;
use super::path::pairs;
use super::settle::late_results;
use super::turn_start::{begins_turn, place};
use super::view::View;
use crate::codec::Value;

/// A conversation as it stood at an event.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The turns and branches that it tells of, turns ascending.
    pub path: Vec<(i64, i64)>,
    /// Its messages.
    pub messages: Vec<Value>,
    /// The highest event id that it includes.
    pub watermark: i64,
    /// The event at which the context was last cleared; 0 when it never was.
    pub cutoff: i64,
}

/// A conversation that was told from a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Continued {
    /// Its messages.
    pub messages: Vec<Value>,
    /// Which of the checkpoints it begins with; after a cleared context only its system messages are used.
    pub from: usize,
    /// Whether the checkpoint was used, and not only its cut-off.
    pub whole: bool,
    /// How many messages were told from the log.
    pub told: usize,
    /// The event at which the context was last cleared.
    pub cutoff: i64,
}

/// Types of events after which the messages before them are no longer what they were.
const REWRITING: [&str; 4] = ["compact_complete", "compact_replace", "context_cleared", "system_prompt_set"];
/// Types of events that belong between the messages of their turn.
const TELLING: [&str; 11] = [
    "text_chunk",
    "text",
    "assistant_reasoning",
    "assistant_tool_calls",
    "assistant_message",
    "assistant_image",
    "user_message",
    "tool_call",
    "compact_complete",
    "compact_replace",
    "context_cleared",
];
/// How the results begin that stand in for those of jobs that still run.
const PLACEHOLDERS: [&str; 2] =
    ["Running in background — task delegated.", "Promoted to background. Result arrives in a later turn."];

/// Returns whether an event of this type changes messages that were told before it.
pub fn rewrites(kind: &str) -> bool {
    REWRITING.contains(&kind)
}

/// Returns whether an event of this type is told among the messages of its turn.
pub fn tells(kind: &str) -> bool {
    TELLING.contains(&kind) || kind == "tool_result"
}

impl Log<'_> {
    /// Tells the log from the checkpoint that reaches furthest, where one fits the branches that are shown.
    ///
    /// `newest` is the highest event id of the session. Nothing is returned when no checkpoint fits: then
    /// the whole log is to be told.
    pub fn continue_from(&self, checkpoints: &[Checkpoint], newest: i64) -> Option<Continued> {
        let cover = Cover::of(self, super::compaction::Pathless::All);
        let asked: HashSet<(i64, i64)> = self.user_messages().filter_map(|line| line.place).collect();
        let teller = Teller { log: self, cover };
        let mut best: Option<((i64, i64), Continued)> = None;
        let mut cleared: Option<((i64, i64), i64, usize)> = None;
        for (from, checkpoint) in checkpoints.iter().enumerate() {
            let known = checkpoint.path.iter().all(|place| asked.contains(place));
            if !known || checkpoint.watermark > newest {
                continue;
            }
            let tried = teller.try_one(checkpoint);
            if let Some((turn, cutoff)) = tried.cleared {
                let rank = (turn, checkpoint.watermark);
                if cleared.as_ref().is_none_or(|(highest, ..)| rank > *highest) {
                    cleared = Some((rank, cutoff, from));
                }
            }
            let Some((last_turn, messages, told)) = tried.told else { continue };
            let rank = (last_turn, checkpoint.watermark);
            if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
                let cutoff = tried.cleared.map_or(0, |(_, cutoff)| cutoff);
                best = Some((rank, Continued { messages, from, whole: true, told, cutoff }));
            }
        }
        if let Some((_, best)) = best {
            return Some(best);
        }
        let (_, cutoff, from) = cleared?;
        let mut messages: Vec<Value> =
            checkpoints[from].messages.iter().filter(|message| role(message) == "system").cloned().collect();
        let told = self.tell_after(cutoff);
        let count = told.len();
        messages.extend(told);
        Some(Continued { messages, from, whole: false, told: count, cutoff })
    }

    /// Returns whether messages that were kept lack the result of a call that is shown: it came later.
    pub fn lacks_results(&self, messages: &[Value]) -> bool {
        let cover = Cover::of(self, super::compaction::Pathless::All);
        Teller { log: self, cover }.lacks_results(messages, 0)
    }

    fn user_messages(&self) -> impl Iterator<Item = &Line<'_>> {
        self.lines.iter().filter(|line| line.kind == "user_message")
    }

    fn is_selected(&self, (turn, branch): (i64, i64)) -> bool {
        self.selected_branches().get(&turn) == Some(&branch)
    }

    /// Tells what came after the context was cleared, with the calls whose results came after it.
    fn tell_after(&self, cutoff: i64) -> Vec<Value> {
        let is_after = |line: &&Line<'_>| line.id.unwrap_or(0) > cutoff;
        let jobs: HashSet<Cow<'_, str>> = self
            .lines
            .iter()
            .filter(|line| line.kind == "tool_result")
            .filter(is_after)
            .map(|line| identity(line.event, JOB))
            .collect();
        let calls = self.lines.iter().filter(|line| {
            line.kind == "tool_call"
                && line.id.unwrap_or(0) <= cutoff
                && jobs.contains(&identity(line.event, JOB))
        });
        let kept: Vec<Value> =
            calls.chain(self.lines.iter().filter(is_after)).map(|line| line.event.clone()).collect();
        tell(&kept, self.selected_branches())
    }
}

fn tell(events: &[Value], selected: &View) -> Vec<Value> {
    Log::read(events, selected).replay_settled(true, None)
}

/// What a checkpoint is good for.
#[derive(Default)]
struct Tried {
    /// Its last turn, the messages, and how many of them were told from the log.
    told: Option<(i64, Vec<Value>, usize)>,
    /// The last turn before the context was cleared, and where that was.
    cleared: Option<(i64, i64)>,
}

struct Teller<'l, 'a> {
    log: &'l Log<'a>,
    cover: Cover,
}

impl Teller<'_, '_> {
    fn try_one(&self, checkpoint: &Checkpoint) -> Tried {
        let boundary = self.boundary(checkpoint);
        if checkpoint.cutoff > 0 && boundary.is_none() {
            return Tried::default();
        }
        let mut tried = Tried { told: None, cleared: boundary.map(|turn| (turn, checkpoint.cutoff)) };
        let Some((kept, last)) = self.prefix(checkpoint, boundary.is_some()) else { return tried };
        let last = last.max(boundary.unwrap_or(0));
        let whole = self.is_whole(checkpoint);
        let mut cutoff = checkpoint.cutoff;
        if whole && checkpoint.messages.iter().all(|message| role(message) == "system") {
            cutoff = cutoff.max(checkpoint.watermark);
        }
        if cutoff > 0 {
            tried.cleared = tried.cleared.max(Some((last, cutoff)));
        }
        let messages = &checkpoint.messages[..kept];
        let Some(tail) = self.tail(checkpoint, last, whole) else { return tried };
        if self.answers_pending(messages) {
            return tried;
        }
        let told = tell(&tail, self.log.selected_branches());
        let count = told.len();
        let messages: Vec<Value> = messages.iter().cloned().chain(told).collect();
        if !self.lacks_results(&messages, cutoff) {
            tried.told = Some((last, messages, count));
        }
        tried
    }

    fn is_whole(&self, checkpoint: &Checkpoint) -> bool {
        let selected = self.log.selected_branches();
        selected.len() == checkpoint.path.len()
            && checkpoint.path.iter().all(|place| self.log.is_selected(*place))
    }

    /// The last turn before the context was cleared, where that was on the branches that are shown.
    fn boundary(&self, checkpoint: &Checkpoint) -> Option<i64> {
        let cutoff = checkpoint.cutoff;
        if cutoff <= 0 {
            return None;
        }
        let prior: Vec<(i64, i64)> = self
            .log
            .user_messages()
            .filter(|line| line.id.unwrap_or(0) <= cutoff)
            .filter_map(|line| line.place.filter(|place| checkpoint.path.contains(place)))
            .collect();
        if !prior.iter().all(|place| self.log.is_selected(*place)) {
            return None;
        }
        let goes_on = || {
            self.log.user_messages().any(|line| {
                line.id.unwrap_or(0) > cutoff && line.place.is_some_and(|place| self.log.is_selected(place))
            })
        };
        let last = prior.iter().map(|(turn, _)| *turn).max()?;
        (self.is_whole(checkpoint) || goes_on()).then_some(last)
    }

    /// How many messages belong to the branches that are shown, and the last turn among them.
    fn prefix(&self, checkpoint: &Checkpoint, may_be_empty: bool) -> Option<(usize, i64)> {
        let whole = self.is_whole(checkpoint);
        let (mut last, mut begun, mut kept) = (0, false, checkpoint.messages.len());
        for (at, message) in checkpoint.messages.iter().enumerate() {
            if role(message) == "system" {
            } else if is_summary(message) {
                let about = message.get("metadata").and_then(|about| about.get("compact_source_path"));
                let inputs: Vec<(i64, i64)> = pairs(about).collect();
                let fits = inputs.iter().all(|place| self.log.is_selected(*place));
                if !fits || inputs.is_empty() && !whole {
                    return None;
                }
                last = inputs.iter().map(|(turn, _)| *turn).fold(last, i64::max);
            } else if begins_turn(message) {
                match place(message) {
                    None if whole => {}
                    None => return None,
                    Some(place) if self.log.is_selected(place) => {
                        begun = true;
                        last = last.max(place.0);
                    }
                    Some(_) => {
                        kept = at;
                        break;
                    }
                }
            } else if !whole && !begun {
                return None;
            }
        }
        let says = |messages: &[Value]| messages.iter().any(|message| role(message) != "system");
        let is_bare = !says(&checkpoint.messages[..kept]);
        if is_bare && !may_be_empty && (!whole || says(&checkpoint.messages)) {
            return None;
        }
        let of_path = checkpoint.path.last().map_or(0, |(turn, _)| *turn);
        Some((kept, if whole { of_path } else { last }))
    }

    /// The events that follow the checkpoint; `None` when they change what it holds.
    fn tail(&self, checkpoint: &Checkpoint, last: i64, whole: bool) -> Option<Vec<Value>> {
        let mut tail = Vec::new();
        for (line, live) in self.log.lines.iter().zip(&self.log.live) {
            let Some(id) = line.id.filter(|_| *live) else { continue };
            let turn = line.event.get("turn_index").and_then(Value::as_i64);
            let is_new = id > checkpoint.watermark;
            if is_new && TELLING.contains(&line.kind) && turn.unwrap_or(last) <= last {
                return None;
            }
            if if whole { is_new } else { turn.is_some_and(|turn| turn > last) } {
                if rewrites(line.kind) {
                    return None;
                }
                tail.push(line.event.clone());
            }
        }
        Some(tail)
    }

    /// Whether the result came of a job that the messages say still runs.
    fn answers_pending(&self, messages: &[Value]) -> bool {
        let pending: HashSet<&str> = messages.iter().filter_map(pending_job).collect();
        !pending.is_empty() && self.results().any(|(_, line)| pending.contains(&*identity(line.event, JOB)))
    }

    /// The results that no summary tells of.
    fn results(&self) -> impl Iterator<Item = (usize, &Line<'_>)> {
        let lines = self.log.lines.iter().enumerate();
        lines.filter(|(at, line)| line.kind == "tool_result" && self.cover.by[*at].is_none())
    }

    /// Whether a call that is shown got its result later and the messages do not have it.
    fn lacks_results(&self, messages: &[Value], cutoff: i64) -> bool {
        let distinct: Vec<usize> = self.log.distinct().collect();
        let late = late_results(self.log, &self.cover, &distinct);
        let pending: HashSet<&str> = messages.iter().filter_map(pending_job).collect();
        let mut needed: HashMap<Cow<'_, str>, Vec<&str>> = HashMap::new();
        for (at, line) in self.results().filter(|(_, line)| line.id.unwrap_or(0) > cutoff) {
            let job = identity(line.event, JOB);
            if late.get(&job) == Some(&at) || self.log.live[at] && pending.contains(&*job) {
                needed.entry(job).or_default().push(text(line.event, "tool_call_id"));
            }
        }
        if needed.is_empty() {
            return false;
        }
        for line in self.log.lines.iter().filter(|line| line.kind == "tool_call") {
            if let Some(names) = needed.get_mut(&identity(line.event, JOB)) {
                names.push(text(line.event, "tool_call_id"));
            }
        }
        let present: HashSet<&str> = messages.iter().filter(|m| is_final(m)).flat_map(result_names).collect();
        let has = |job: &str, names: &[&str]| {
            present.contains(job) || names.iter().any(|name| !name.is_empty() && present.contains(name))
        };
        !needed.iter().all(|(job, names)| has(job, names))
    }
}

fn is_summary(message: &Value) -> bool {
    let is_marked = || message.get("metadata").and_then(|about| about.get("compact_summary"));
    is_marked().is_some_and(Value::truthy)
        || role(message) == "assistant"
            && text(message, "content").starts_with("[Previous context summary (compact round ")
}

fn phase(message: &Value) -> &str {
    message.get("metadata").map(|about| text(about, "tool_result_phase")).unwrap_or_default()
}

fn pending_job(message: &Value) -> Option<&str> {
    let about = message.get("metadata").filter(|_| phase(message) == "pending")?;
    Some(text(about, "job_id")).filter(|job| !job.is_empty())
}

fn is_final(message: &Value) -> bool {
    match phase(message) {
        "pending" => false,
        "final" => true,
        _ => !PLACEHOLDERS.iter().any(|start| text(message, "content").starts_with(start)),
    }
}

/// What a message calls the results that it holds.
fn result_names(message: &Value) -> Vec<&str> {
    let is_result = role(message) == "tool" || role(message) == "user" && !begins_turn(message);
    if !is_result {
        return Vec::new();
    }
    let about = message.get("metadata");
    let single = ["job_id", "call_id"].map(|key| about.map(|about| text(about, key)).unwrap_or_default());
    let listed = about.and_then(|about| about.get("job_ids")).and_then(Value::as_list).unwrap_or_default();
    let mut names: Vec<&str> =
        single.into_iter().chain(listed.iter().filter_map(Value::as_str)).filter(|n| !n.is_empty()).collect();
    if names.is_empty() {
        names.push(text(message, "tool_call_id"));
    }
    names
}

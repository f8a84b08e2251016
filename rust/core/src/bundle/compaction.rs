//! Compaction checkpoints: a summary that stands in for older turns, and the messages as it leaves them.

use super::append::{Appended, append_in, check_name};
use super::branches;
use super::handle::{Inner, Txn};
use super::record::save_whole;
use super::resume::stored_view;
use super::snapshot::{self, Tag};
use super::working::{self, events_in, is_of, with_system};
use crate::codec::{Value, msgpack};
use crate::error::{Error, Result};
use crate::lineage::{Log, View};
use crate::model::{Draft, Stamps};

const ACTION: &str = "compact the conversation of";

/// A summary on its way in.
#[derive(Debug)]
pub struct Compaction<'a> {
    /// Whose conversation it shortens.
    pub agent: &'a str,
    /// What is told instead.
    pub summary: &'a str,
    /// The first event that it stands for; the first of the conversation when not given.
    pub from: Option<i64>,
    /// The last event that it stands for; the newest when not given.
    pub to: Option<i64>,
    /// Further fields of its event, as `MessagePack`, one after the other.
    pub pairs: &'a [u8],
    /// How many those are.
    pub count: usize,
}

/// What a summary stands for.
struct Range {
    from: i64,
    to: i64,
    /// Whether that is everything so far.
    is_all: bool,
}

impl Inner {
    /// Stores a summary and the snapshot that goes with it; nothing when the summary is blank.
    ///
    /// The log is read once.
    pub(super) fn compact(&self, wanted: &Compaction<'_>) -> Result<Option<Appended>> {
        if wanted.summary.trim().is_empty() {
            return self.read(ACTION, |_| Ok(None));
        }
        check_name(wanted.agent)?;
        let now = self.clock.now();
        self.write(ACTION, |txn| compact_in(txn, wanted, now).map(Some))
    }
}

fn compact_in(txn: &mut Txn<'_>, wanted: &Compaction<'_>, now: f64) -> Result<Appended> {
    let agent = wanted.agent;
    let told = working::tell(txn.inner, txn.connection, agent)?;
    let mut state = told.base.as_ref().map_or(Value::Nil, |base| base.compact_state.clone());
    let before = told.messages(txn.inner, txn.connection)?;
    let mut events = events_in(txn.inner, txn.connection, agent, None)?;
    let view = stored_view(txn.inner, txn.connection, agent)?;
    let log = Log::read(&events, &view);
    let range = range_of(&log, &events, wanted)?;
    let path = log.places_within(range.from, range.to);
    let mut lineage: Vec<(i64, i64)> =
        log.selected_branches().iter().map(|(turn, branch)| (*turn, *branch)).filter(|at| at.0 > 0).collect();
    let round = state.get("compact_count").and_then(Value::as_i64).unwrap_or(0) + 1;
    state = Value::Map(vec![
        ("compact_count".into(), Value::Int(round)),
        ("last_compact_time".into(), Value::Float(now)),
    ]);
    let system = before.iter().take_while(|message| is_of(message, "system")).count();
    let compacted = if range.is_all { before.len() - system } else { 0 };
    let last = lineage.pop();
    let stamps = Stamps {
        turn_index: last.map(|(turn, _)| turn),
        branch_id: last.map(|(_, branch)| branch),
        parent_branch_path: Some(lineage.clone()).filter(|path| !path.is_empty()),
        ..Stamps::default()
    };
    let draft = draft_of(wanted, &range, &path, (round, compacted), stamps);
    let appended = append_in(txn, agent, &[draft], now)?.swap_remove(0);
    let event = msgpack::decode(&appended.body).map_err(|fault| {
        Error::damaged(&txn.inner.path, agent, format!("the event that was made: {fault}"))
    })?;
    let messages = if range.is_all {
        before[..system].iter().cloned().chain([summary_message(wanted.summary)]).collect()
    } else {
        events.push(event);
        with_system(&before, Log::read(&events, &view).cleared().replay_settled(true, None))
    };
    let tag = tag_of(last, lineage, appended.id.0, state);
    save_whole(txn, agent, &messages, &tag)?;
    snapshot::show(txn, agent)?;
    branches::keep(txn, agent)?;
    Ok(appended)
}

fn range_of(log: &Log<'_>, events: &[Value], wanted: &Compaction<'_>) -> Result<Range> {
    let newest = events.iter().filter_map(|event| event.get("event_id")?.as_i64()).max().unwrap_or(0);
    let is_given = wanted.from.is_some() || wanted.to.is_some();
    let from = wanted.from.or_else(|| log.first_told()).unwrap_or(1);
    let to = wanted.to.unwrap_or(newest);
    if is_given && !(1..=to).contains(&from) {
        return Err(Error::invalid(format!("from_event_id: no event lies between {from} and {to}")));
    }
    let whole = log.whole_exchanges(from, to);
    if is_given && log.live_event_ids().iter().all(|id| !(whole.0..=whole.1).contains(id)) {
        return Err(Error::invalid(format!(
            "from_event_id: no event of the conversation lies between {from} and {to}"
        )));
    }
    Ok(Range { from: whole.0, to: whole.1, is_all: !is_given && whole == (from, to) })
}

fn draft_of(
    wanted: &Compaction<'_>,
    range: &Range,
    path: &View,
    (round, compacted): (i64, usize),
    stamps: Stamps,
) -> Draft {
    let mut pairs = wanted.pairs.to_vec();
    let compacted = i64::try_from(compacted).unwrap_or(i64::MAX);
    let path = Value::List(path.iter().map(|(turn, branch)| pair(*turn, *branch)).collect());
    let mut fields = vec![
        ("round", Value::Int(round)),
        ("summary", Value::Str(wanted.summary.to_owned())),
        ("messages_compacted", Value::Int(compacted)),
        ("replaced_from_event_id", Value::Int(range.from)),
        ("replaced_to_event_id", Value::Int(range.to)),
        ("compact_result_event_ids", Value::List(Vec::new())),
    ];
    if path.truthy() {
        fields.push(("compact_path", path));
    }
    for (name, value) in &fields {
        msgpack::put_str(&mut pairs, name);
        msgpack::put_value(&mut pairs, value);
    }
    Draft {
        event_type: "compact_complete".to_owned(),
        count: wanted.count + fields.len(),
        pairs,
        stamps,
        may_omit_path: true,
        ..Draft::default()
    }
}

fn pair(turn: i64, branch: i64) -> Value {
    Value::List(vec![Value::Int(turn), Value::Int(branch)])
}

/// The message that stands for what was summarised, as replay tells it.
fn summary_message(summary: &str) -> Value {
    let metadata = Value::Map(vec![
        ("compact_summary".into(), Value::Bool(true)),
        ("compact_result_event_ids".into(), Value::List(Vec::new())),
        ("compact_source_path".into(), Value::Nil),
    ]);
    Value::Map(vec![
        ("role".into(), Value::Str("assistant".to_owned())),
        ("content".into(), Value::Str(summary.to_owned())),
        ("metadata".into(), metadata),
    ])
}

fn tag_of(last: Option<(i64, i64)>, parents: Vec<(i64, i64)>, watermark: i64, compact_state: Value) -> Tag {
    let Some((turn, branch)) = last else { return Tag::of_branch(Value::Nil, watermark, compact_state) };
    let branch = Value::Map(vec![
        ("turn_index".into(), Value::Int(turn)),
        ("branch_id".into(), Value::Int(branch)),
        ("context_cutoff_event_id".into(), Value::Int(0)),
    ]);
    Tag::Branch { branch, parents: Some(parents), watermark, compact_state }
}

//! What a recorder writes at one moment: events and all that must agree with them, in one transaction.

use super::agents::{find_run_in, next_run_in};
use super::append::{Appended, append_in, check_name};
use super::branches;
use super::handle::{Inner, Txn};
use super::kv::{Change, change_in, changes_in};
use super::snapshot::{self, Save, Saved, Tag};
use super::value::Payload;
use super::working;
use crate::codec::{Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::model::Draft;

const ACTION: &str = "record in";

/// The run of a child agent that nobody else has recorded.
#[derive(Debug, Clone)]
pub struct ChildRun<'a> {
    /// The agent that started it.
    pub parent: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its job. A run that is stored under it already is left alone.
    pub job: &'a str,
    /// Its record.
    pub record: Payload,
    /// The JSON text of its conversation.
    pub conversation: Payload,
}

/// Where the messages of a snapshot come from.
#[derive(Debug)]
pub enum Messages<'a> {
    /// The caller has them; see [`Save`].
    Given {
        /// How many of them are those of `base`, from the first.
        keep: usize,
        /// The snapshot that `keep` counts from.
        base: i64,
        /// Those after, each one `MessagePack` object.
        fresh: &'a [Vec<u8>],
    },
    /// The log tells them.
    Told,
}

/// A snapshot that includes the events of its unit.
#[derive(Debug)]
pub struct UnitSnapshot<'a> {
    /// Its messages.
    pub messages: Messages<'a>,
    /// What it is tagged with; the watermark is set to the highest event.
    pub tag: Tag,
}

/// What belongs together.
#[derive(Debug, Default)]
pub struct Unit<'a> {
    /// Whose events they are.
    pub agent: &'a str,
    /// The events.
    pub drafts: &'a [Draft],
    /// Values of other tables.
    pub changes: &'a [Change],
    /// The run of a child agent.
    pub run: Option<ChildRun<'a>>,
    /// The messages as they stand after the events.
    pub snapshot: Option<UnitSnapshot<'a>>,
}

/// What became of a unit.
#[derive(Debug)]
pub struct Recorded {
    /// Its events.
    pub events: Vec<Appended>,
    /// Its snapshot. When that is outdated nothing of the unit was stored.
    pub saved: Option<Saved>,
}

impl Inner {
    /// Stores a unit: all of it or nothing.
    pub(super) fn record(&self, unit: &Unit<'_>) -> Result<Recorded> {
        if unit.changes.is_empty() && unit.run.is_none() && unit.snapshot.is_none() {
            return Ok(Recorded { events: self.append(unit.agent, unit.drafts)?, saved: None });
        }
        check_name(unit.agent)?;
        let now = self.clock.now();
        let mut is_outdated = false;
        let recorded = self.write(ACTION, |txn| {
            let recorded = record_in(txn, unit, now)?;
            is_outdated = recorded.saved == Some(Saved::Outdated);
            // Undoes what was stored before the snapshot turned out to count from an older one.
            if is_outdated { Err(Error::invalid("the snapshot is outdated")) } else { Ok(recorded) }
        });
        match recorded {
            Err(_) if is_outdated => Ok(Recorded { events: Vec::new(), saved: Some(Saved::Outdated) }),
            outcome => outcome,
        }
    }
}

fn record_in(txn: &mut Txn<'_>, unit: &Unit<'_>, now: f64) -> Result<Recorded> {
    if let Some(UnitSnapshot { messages: Messages::Given { keep, base, .. }, .. }) = &unit.snapshot
        && snapshot::is_outdated(txn, unit.agent, *keep, *base)?
    {
        return Ok(Recorded { events: Vec::new(), saved: Some(Saved::Outdated) });
    }
    let events =
        if unit.drafts.is_empty() { Vec::new() } else { append_in(txn, unit.agent, unit.drafts, now)? };
    changes_in(txn, unit.changes)?;
    if let Some(run) = &unit.run {
        put_run(txn, run)?;
    }
    let saved = match &unit.snapshot {
        Some(wanted) => {
            let saved = save(txn, unit.agent, wanted)?;
            branches::keep(txn, unit.agent)?;
            Some(saved)
        }
        None => None,
    };
    Ok(Recorded { events, saved })
}

fn put_run(txn: &mut Txn<'_>, run: &ChildRun<'_>) -> Result<()> {
    if find_run_in(txn.inner, txn.connection, run.job, Some(run.parent))?.is_some() {
        return Ok(());
    }
    let number = next_run_in(txn, run.parent, run.name)?;
    let prefix = format!("{}:{}:{number}", run.parent, run.name);
    for (part, value) in [("meta", &run.record), ("conversation", &run.conversation)] {
        let key = format!("{prefix}:{part}").into_bytes();
        change_in(txn, &Change { table: Table::Subagents, key, value: Some(value.clone()) })?;
    }
    Ok(())
}

fn save(txn: &mut Txn<'_>, agent: &str, wanted: &UnitSnapshot<'_>) -> Result<Saved> {
    let watermark = highest_id(txn)?;
    match &wanted.messages {
        Messages::Given { keep, base, fresh } => {
            let tag = tag_at(&wanted.tag, watermark, Value::Nil);
            snapshot::save_in(txn, &Save { agent, keep: *keep, base: *base, fresh, tag: &tag })
        }
        Messages::Told => {
            let told = match snapshot::known_base(txn, agent)? {
                Some(base) => working::go_on(txn.inner, txn.connection, agent, base)?,
                None => working::tell(txn.inner, txn.connection, agent)?,
            };
            let state = told.base.as_ref().map_or(Value::Nil, |base| base.compact_state.clone());
            let tag = tag_at(&wanted.tag, watermark, state);
            let own = told.base.as_ref().filter(|base| base.id > 0);
            if let Some((keep, base)) = own.map(|base| (base.count, base.id)) {
                let fresh = pack(&told.fresh);
                return snapshot::save_in(txn, &Save { agent, keep, base, fresh: &fresh, tag: &tag });
            }
            let messages = told.messages(txn.inner, txn.connection)?;
            save_whole(txn, agent, &messages, &tag)
        }
    }
}

/// Stores a list of messages that counts from no other.
pub(super) fn save_whole(txn: &mut Txn<'_>, agent: &str, messages: &[Value], tag: &Tag) -> Result<Saved> {
    snapshot::save_in(txn, &Save { agent, keep: 0, base: 0, fresh: &pack(messages), tag })
}

/// The highest event of the session, those of this transaction included.
pub(super) fn highest_id(txn: &mut Txn<'_>) -> Result<i64> {
    let fault = txn.fault(ACTION);
    if txn.ledger.is_none() {
        *txn.ledger = Some(super::ledger::Ledger::load(txn.connection).map_err(&fault)?);
    }
    match txn.ledger.as_mut() {
        Some(ledger) => {
            ledger.refresh(txn.connection).map_err(&fault)?;
            Ok(ledger.max_id)
        }
        None => Ok(0),
    }
}

/// The tag with its watermark, and with the counters that stood before where it brings none.
fn tag_at(tag: &Tag, watermark: i64, state: Value) -> Tag {
    match tag {
        Tag::Branch { branch, parents, compact_state, .. } => Tag::Branch {
            branch: branch.clone(),
            parents: parents.clone(),
            watermark,
            compact_state: if compact_state.truthy() { compact_state.clone() } else { state },
        },
        Tag::Plain => Tag::of_branch(Value::Nil, watermark, state),
    }
}

fn pack(messages: &[Value]) -> Vec<Vec<u8>> {
    let packed = |message: &Value| {
        let mut body = Vec::with_capacity(256);
        msgpack::put_value(&mut body, message);
        body
    };
    messages.iter().map(packed).collect()
}

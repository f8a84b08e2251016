//! Snapshots: the messages of an agent as they stood at a turn, at the cost of what is new in them.
//!
//! A turn writes one segment with its new messages and one row that says which segments make up the
//! list. The peer's own rows, which hold the whole list, follow when enough is new.

mod head;
mod lag;
mod load;
mod peer;
mod tag;

use rusqlite::Connection;

pub use self::head::{Head, Heads, Record, open_segment};
use self::head::{Part, agent_number, messages_of, newest_id, next_segment, row_id, seal_segment};
pub use self::lag::{lagging, unwritten};
pub use self::load::{Base, Conversation, Newest, SnapshotInfo, base, last_tag, newest_tagged};
pub use self::peer::{SLOTS, records};
pub use self::tag::{Path as BranchPath, Tag, parse_path};
use super::handle::{Inner, Txn};
use super::ledger::Ledger;
use crate::codec::msgpack;
use crate::db::schema::Group;
use crate::error::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

const ACTION: &str = "save a snapshot in";

/// A snapshot on its way in.
#[derive(Debug)]
pub struct Save<'a> {
    /// Whose messages they are.
    pub agent: &'a str,
    /// How many messages the caller knows to be those of `base`, from the first.
    pub keep: usize,
    /// The snapshot that `keep` counts from.
    pub base: i64,
    /// The messages after those, each one `MessagePack` object.
    pub fresh: &'a [Vec<u8>],
    /// What it is tagged with.
    pub tag: &'a Tag,
}

/// What became of a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The snapshot is stored under this id.
    As(i64),
    /// `base` is not the newest snapshot any more: every message must be given.
    Outdated,
}

impl Inner {
    /// Stores a snapshot; unchanged messages cost nothing.
    pub(super) fn save_snapshot(&self, save: &Save<'_>) -> Result<Saved> {
        self.write(ACTION, |txn| {
            let saved = save_in(txn, save)?;
            if *save.tag != Tag::Plain {
                super::branches::keep_known(txn, save.agent)?;
            }
            Ok(saved)
        })
    }
}

/// Loads or finds the head of an agent.
pub(super) fn head_of<'a>(txn: &'a mut Txn<'_>, agent: &str) -> Result<&'a mut Head> {
    let connection = txn.connection;
    let inner = txn.inner;
    let fault = txn.fault(ACTION);
    txn.heads.get(
        agent,
        |head| is_level(connection, agent, head).map_err(&fault),
        || load_head(inner, connection, agent),
    )
}

/// Whether neither a newer snapshot nor a list of the peer's came after this head.
fn is_level(connection: &Connection, agent: &str, head: &Head) -> rusqlite::Result<bool> {
    let newest = head.record.as_ref().map_or(0, |record| record.id);
    Ok(newest_id(connection, head.agent)? == newest && peer::is_as_written(connection, agent)?)
}

fn load_head(inner: &Inner, connection: &Connection, agent: &str) -> Result<Head> {
    let fault = inner.fault(ACTION);
    let number = match agent_number(connection, agent).map_err(&fault)? {
        Some(number) => number,
        None => add_agent(connection, agent).map_err(&fault)?,
    };
    let mut head = Head::new(number);
    head.next_segment = next_segment(connection, number).map_err(&fault)?;
    let newest = newest_id(connection, number).map_err(&fault)?;
    if newest > 0 {
        let mut record = load::record(inner, connection, newest)?;
        let segments = load::segments(inner, connection, number, &mut record.parts)?;
        let bodies: Vec<&[u8]> = segments
            .iter()
            .zip(&record.parts)
            .filter_map(|(segment, part)| messages_of(segment, part.take))
            .flatten()
            .collect();
        head.set_messages(bodies.into_iter());
        head.record = Some(record);
    }
    peer::look(inner, connection, agent, &mut head)?;
    Ok(head)
}

fn add_agent(connection: &Connection, agent: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached("INSERT INTO amber_agent (name) VALUES (?1)")?.execute([agent])?;
    Ok(connection.last_insert_rowid())
}

/// Stores a snapshot inside a transaction that somebody else commits.
pub(super) fn save_in(txn: &mut Txn<'_>, save: &Save<'_>) -> Result<Saved> {
    let fault = txn.fault(ACTION);
    txn.ensure(Group::Snapshot).map_err(&fault)?;
    if save.agent.is_empty() {
        return Err(Error::invalid("agent: the name of an agent must not be empty"));
    }
    let last_turn = last_turn(txn, save.agent)?;
    let newest = head_of(txn, save.agent)?.record.as_ref().map_or(0, |record| record.id);
    let head = head_of(txn, save.agent)?;
    if save.keep > 0 && (newest != save.base || save.keep > head.hashes.len()) {
        return Ok(Saved::Outdated);
    }
    let fresh: Vec<u64> = save.fresh.iter().map(|body| xxh3_64(body)).collect();
    let alike = fresh.iter().zip(&head.hashes[save.keep..]).take_while(|(one, other)| one == other).count();
    let kept = save.keep + alike;
    let total = save.keep + save.fresh.len();
    let is_same_list = kept == total && total == head.hashes.len();
    let turn = turn_of(head, save.tag, last_turn, is_same_list);
    if is_same_list
        && head.record.as_ref().is_some_and(|record| record.turn == turn && record.tag == *save.tag)
    {
        return Ok(Saved::As(newest));
    }
    peer::part_ways(txn, save.agent, save.tag)?;
    peer::part_with_tag(txn, save.agent, save.tag)?;
    let id = write_rows(txn, save, kept, turn)?;
    let head = head_of(txn, save.agent)?;
    head.hashes.truncate(kept);
    head.hashes.extend(&fresh[alike..]);
    head.sizes.truncate(kept);
    head.sizes.extend(save.fresh[alike..].iter().map(Vec::len));
    head.unseen_bytes += save.fresh[alike..].iter().map(Vec::len).sum::<usize>();
    head.pending = true;
    peer::refresh_if_due(txn, save.agent)?;
    Ok(Saved::As(id))
}

/// Whether a list that counts from `base` cannot be stored, since that is not the newest snapshot any more.
pub(super) fn is_outdated(txn: &mut Txn<'_>, agent: &str, keep: usize, base: i64) -> Result<bool> {
    if keep == 0 {
        return Ok(false);
    }
    txn.ensure(Group::Snapshot).map_err(txn.fault(ACTION))?;
    let head = head_of(txn, agent)?;
    let newest = head.record.as_ref().map_or(0, |record| record.id);
    Ok(newest != base || keep > head.hashes.len())
}

/// What the conversation goes on from, where that is known without a look at the peer's rows.
pub(super) fn known_base(txn: &mut Txn<'_>, agent: &str) -> Result<Option<Base>> {
    txn.ensure(Group::Snapshot).map_err(txn.fault(ACTION))?;
    let head = head_of(txn, agent)?;
    let record = head.record.as_ref().filter(|record| !record.parts.is_empty() || record.messages == 0);
    Ok(record.map(|record| Base::ours(head.agent, record)))
}

/// Brings the peer's rows of `agent` level with the newest snapshot.
pub(super) fn show(txn: &mut Txn<'_>, agent: &str) -> Result<()> {
    peer::refresh(txn, agent)
}

/// The turn that a snapshot closes: the tag's, else that of the newest event, else the next number.
fn turn_of(head: &Head, tag: &Tag, last_turn: Option<i64>, is_same_list: bool) -> i64 {
    let previous = head.record.as_ref().map_or(0, |record| record.turn);
    tag.turn().or(last_turn).unwrap_or(if is_same_list && previous > 0 { previous } else { previous + 1 })
}

fn last_turn(txn: &mut Txn<'_>, agent: &str) -> Result<Option<i64>> {
    let fault = txn.fault(ACTION);
    if txn.ledger.is_none() {
        *txn.ledger = Some(Ledger::load(txn.connection).map_err(&fault)?);
    }
    match txn.ledger.as_mut() {
        Some(ledger) => Ok(ledger.space(txn.connection, agent).map_err(&fault)?.last_turn),
        None => Ok(None),
    }
}

fn write_rows(txn: &mut Txn<'_>, save: &Save<'_>, kept: usize, turn: i64) -> Result<i64> {
    let fault = txn.fault(ACTION);
    let ts = txn.inner.clock.now();
    let connection = txn.connection;
    let added = &save.fresh[kept - save.keep..];
    let head = head_of(txn, save.agent)?;
    let mut parts = head.parts_of(kept);
    if !added.is_empty() {
        let segment = head.next_segment;
        let id = row_id(head.agent, segment);
        let mut body = Vec::with_capacity(added.iter().map(Vec::len).sum::<usize>() + 8);
        msgpack::put_list_header(&mut body, added.len());
        for message in added {
            body.extend_from_slice(message);
        }
        let count = i64::try_from(added.len()).unwrap_or(i64::MAX);
        connection
            .prepare_cached("INSERT INTO amber_segment (id, messages, body) VALUES (?1, ?2, ?3)")
            .and_then(|mut insert| insert.execute((id, count, seal_segment(id, &body))))
            .map_err(&fault)?;
        parts.push(Part { segment, take: added.len(), whole: true });
        head.next_segment += 1;
    }
    let newest = head.record.as_ref().map_or_else(|| row_id(head.agent, 0), |record| record.id);
    let record =
        Record { id: newest + 1, turn, messages: kept + added.len(), ts, tag: save.tag.clone(), parts };
    connection
        .prepare_cached("INSERT INTO amber_snapshot (id, agent, turn, body) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut insert| insert.execute((record.id, head.agent, turn, record.seal())))
        .map_err(&fault)?;
    let id = record.id;
    head.record = Some(record);
    Ok(id)
}

//! The index that our searches use: plain tokens, and a row for each block that says where it stands.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::Source;
use super::content::Content;
use super::id::{BlockId, Origin};
use super::lane::{Lane, Step};
use super::names::Names;
use super::whole;
use crate::codec::Value;
use crate::db::schema::Group;
use crate::lineage::{repeats, stamp_of};
use crate::recall::blocks::{Block, Kind, Standing, cut_message};
use crate::recall::rank::Corpus;
use crate::recall::words::{Words, analyse};

const BLOCK: &str = "\
INSERT INTO amber_block
(id, owner, kind, type, live, length, place, round, block, turn, event_id, tool, channel, ts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const TOKENS: &str = "INSERT INTO amber_text (rowid, body, whole) VALUES (?1, ?2, ?3)";
const LEAVE: &str = "\
UPDATE amber_block SET live = 0
WHERE id BETWEEN ?1 AND ?2 AND owner = ?3 AND turn >= ?4 AND live = 1";
/// The type of every message of a channel.
pub(super) const CHANNEL: &str = "channel";

/// Adds rows to an index. Reads them, and what stands before them, from `source`.
pub(super) struct Indexer<'c> {
    source: &'c Connection,
    target: &'c Connection,
    names: Names,
    lanes: HashMap<(Origin, String), Lane>,
    words: Words,
    blocks: Vec<Block>,
    /// What was added.
    pub(super) added: Corpus,
    /// Whether blocks that were there before changed their place.
    pub(super) reached_back: bool,
}

/// Where a block stands.
struct Row {
    id: BlockId,
    owner: i64,
    kind_of_event: i64,
    place: i64,
}

impl<'c> Indexer<'c> {
    pub(super) fn new(source: &'c Connection, target: &'c Connection) -> Self {
        Self {
            source,
            target,
            names: Names::default(),
            lanes: HashMap::new(),
            words: Words::default(),
            blocks: Vec::new(),
            added: Corpus::default(),
            reached_back: false,
        }
    }

    /// Adds rows of one table, in their order.
    pub(super) fn add<'a>(
        &mut self,
        origin: Origin,
        rows: impl Iterator<Item = &'a Source>,
    ) -> rusqlite::Result<()> {
        for row in rows {
            let Some(content) = Content::open(origin.table(), &row.key, &row.stored) else { continue };
            let Some((owner, number)) = origin.parse(&row.key) else { continue };
            if origin == Origin::Channels {
                self.add_message(owner, number, row.rowid, &content)?;
            } else {
                self.add_event(origin, owner, row.rowid, content.into_value())?;
            }
        }
        Ok(())
    }

    fn add_message(
        &mut self,
        channel: &str,
        number: u64,
        row: i64,
        content: &Content,
    ) -> rusqlite::Result<()> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let Some(block) = cut_message(channel, number, content.value()) else { return Ok(()) };
        let key = (Origin::Channels, channel.to_owned());
        let mut lane = match self.lanes.remove(&key) {
            Some(lane) => lane,
            None => Lane::load(self.target, self.names.number(self.target, channel)?, Origin::Channels)?,
        };
        (lane.row, lane.place) = (row, lane.place + 1);
        let owner = lane.owner;
        self.lanes.insert(key, lane);
        let kind_of_event = self.names.number(self.target, CHANNEL)?;
        let id = BlockId { origin: Origin::Channels, row, part: 0 };
        self.put(&block, &Row { id, owner, kind_of_event, place: number.saturating_add(1) })
    }

    fn add_event(&mut self, origin: Origin, agent: &str, row: i64, event: Value) -> rusqlite::Result<()> {
        let key = (origin, agent.to_owned());
        let mut lane = match self.lanes.remove(&key) {
            Some(lane) => lane,
            None => Lane::load(self.target, self.names.number(self.target, agent)?, origin)?,
        };
        let outcome = self.add_to(&mut lane, row, event);
        self.lanes.insert(key, lane);
        outcome
    }

    fn add_to(&mut self, lane: &mut Lane, row: i64, event: Value) -> rusqlite::Result<()> {
        let repeats = self.repeats(lane, &event)?;
        match lane.step(self.target, &event, row)? {
            Step::Live | Step::Tangled => {}
            Step::Anew { turn, row } => self.leave(lane, turn, row)?,
        }
        let before = lane.cutter.place;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        lane.cutter.cut(&event, Standing { live: true, repeats }, &mut blocks);
        if stamp_of(&event).is_none() && (!blocks.is_empty() || lane.cutter.place != before) {
            lane.note_loose(row);
        }
        let kind_of_event = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let kind_of_event =
            if blocks.is_empty() { 0 } else { self.names.number(self.target, kind_of_event)? };
        for block in &blocks {
            let is_told = block.kind != Kind::Other;
            lane.place += i64::from(is_told);
            let id = BlockId { origin: lane.origin, row, part: block.part };
            let place = if is_told { lane.place } else { 0 };
            self.put(block, &Row { id, owner: lane.owner, kind_of_event, place })?;
        }
        self.blocks = blocks;
        lane.row = row;
        lane.previous = Some(event);
        Ok(())
    }

    /// Whether an event says only what the one before it said.
    fn repeats(&self, lane: &mut Lane, event: &Value) -> rusqlite::Result<bool> {
        if lane.previous.is_none() && lane.row > 0 {
            lane.previous = event_at(self.source, lane.origin, lane.row)?;
        }
        Ok(lane.previous.as_ref().is_some_and(|previous| repeats(event, previous)))
    }

    fn leave(&mut self, lane: &Lane, turn: i64, row: i64) -> rusqlite::Result<()> {
        self.reached_back = true;
        let mut leave = self.target.prepare_cached(LEAVE)?;
        for (first, last) in BlockId::spans_from(lane.origin, row) {
            leave.execute((first, last, lane.owner, turn))?;
        }
        Ok(())
    }

    fn put(&mut self, block: &Block, row: &Row) -> rusqlite::Result<()> {
        self.words.clear();
        analyse(&block.text, &mut self.words);
        let id = row.id.number();
        if !self.words.is_empty() {
            self.target.prepare_cached(TOKENS)?.execute((id, &self.words.body, &self.words.whole))?;
        } else if block.kind == Kind::Other {
            return Ok(());
        }
        let length = word_count(&self.words);
        let tool = self.names.some(self.target, &block.tool_name)?;
        let channel = self.names.some(self.target, &block.channel)?;
        self.target.prepare_cached(BLOCK)?.execute(params![
            id,
            row.owner,
            block.kind as i64,
            row.kind_of_event,
            block.live,
            length,
            row.place,
            block.round,
            block.block,
            block.turn,
            block.event_id,
            tool,
            channel,
            block.ts,
        ])?;
        self.added.blocks += 1;
        self.added.words += u64::from(length);
        Ok(())
    }

    /// Reads tangled lanes as a whole and keeps the state of all.
    pub(super) fn finish(&mut self) -> rusqlite::Result<()> {
        for ((origin, agent), lane) in &mut self.lanes {
            if lane.is_tangled {
                self.reached_back = true;
                whole::place_again(self.source, self.target, *origin, agent, lane)?;
            }
            lane.save(self.target)?;
        }
        Ok(())
    }
}

fn word_count(words: &Words) -> u32 {
    let count = |column: &str| {
        if column.is_empty() { 0 } else { memchr::memchr_iter(b' ', column.as_bytes()).count() + 1 }
    };
    u32::try_from(count(&words.body) + count(&words.whole)).unwrap_or(u32::MAX)
}

/// The event of a row; `None` where there is none that can be read.
pub(super) fn event_at(source: &Connection, origin: Origin, row: i64) -> rusqlite::Result<Option<Value>> {
    let found: Option<(Vec<u8>, Vec<u8>)> = source
        .prepare_cached(origin.row())?
        .query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.and_then(|(key, stored)| Content::open(origin.table(), &key, &stored)).map(Content::into_value))
}

/// Removes the index, one of an older shape as well.
pub(super) fn drop_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DROP TABLE IF EXISTS amber_text; DROP TABLE IF EXISTS amber_block; DROP TABLE IF EXISTS amber_name;
         DROP TABLE IF EXISTS amber_lane; DROP TABLE IF EXISTS amber_turn;",
    )
}

/// Makes an empty index in a database of its own.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(Group::Text.ddl())
}

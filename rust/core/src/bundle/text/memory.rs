//! Memory search: blocks of what was said and done, found by their words.

use rusqlite::{Connection, OptionalExtension};

use super::find::{Index, Narrow, find};
use super::id::{BlockId, Origin};
use super::{corpus, names};
use crate::bundle::Payload;
use crate::bundle::handle::{Inner, Txn};
use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::{Group, has_table};
use crate::error::{Error, Result};
use crate::model::event_key;
use crate::recall::blocks::{Kind, cut_message, pieces};
use crate::recall::query::parse;
use crate::recall::snippet::snippet;

const ACTION: &str = "search";
/// What a memory search finds when nobody says otherwise.
const TOLD: [Kind; 7] =
    [Kind::User, Kind::Text, Kind::Tool, Kind::Trigger, Kind::Subagent, Kind::Channel, Kind::Summary];

/// What a memory search is narrowed to; the default is all that is live.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Only what this agent (or channel) said.
    pub agent: Option<String>,
    /// Only blocks of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Only calls of this tool and their results.
    pub tool: Option<String>,
    /// Only blocks of this time or later, in seconds since 1970.
    pub since: Option<f64>,
    /// Only blocks of this time or earlier.
    pub until: Option<f64>,
    /// Only blocks from the first of these turns to the last.
    pub turns: (Option<i64>, Option<i64>),
    /// Whether blocks of branches that were left are found too.
    pub all_branches: bool,
}

/// Where one side of a search has a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// The rank, from 0.
    pub rank: usize,
    /// How well it fits; higher is better.
    pub score: f64,
}

/// A block that a memory search found, with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockHit {
    /// The number of the block in the index, the same whenever the index is made.
    pub number: i64,
    /// Its name, by which it is read again.
    pub block_id: String,
    /// Whose it is: the agent, or the channel of a message.
    pub agent: String,
    /// What it is.
    pub kind: Kind,
    /// The round of the agent, from 1.
    pub round: i64,
    /// The place within the round, from 0.
    pub block: i64,
    /// The turn of the event.
    pub turn: Option<i64>,
    /// When it happened, in seconds since 1970.
    pub ts: f64,
    /// The id of the event; 0 for a message of a channel.
    pub event_id: i64,
    /// The key of the event or message; empty for an event beside the log.
    pub event_key: String,
    /// The tool that was called.
    pub tool_name: String,
    /// The channel of a message, or of what a message started.
    pub channel: String,
    /// The text.
    pub content: String,
    /// The part of the text that holds the words of the query, with these marked.
    pub snippet: String,
    /// How well it fits; higher is better.
    pub score: f64,
    /// Where its words have it.
    pub keyword: Option<Side>,
    /// Where its meaning has it.
    pub vector: Option<Side>,
}

/// How much is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Live blocks that a memory search finds.
    pub blocks: u64,
    /// Blocks of branches that were left.
    pub left: u64,
    /// All blocks, those of other events included.
    pub all: u64,
}

impl Inner {
    /// Brings the index level; returns how many blocks of an agent, or of all, are new since this was
    /// last asked, by whatever handle and whatever indexed them.
    pub(in crate::bundle) fn index_memory(&self, agent: Option<&str>) -> Result<u64> {
        self.check_process("index")?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: "index" });
        }
        let mut state = self.lock();
        self.commit_batch(&mut state, "index")?;
        self.index_text(&mut state)?;
        let connection = state.connection.as_ref().ok_or_else(|| self.closed("index"))?;
        let fault = self.fault("index");
        let mut grown = Vec::new();
        if super::find::has_index(connection).map_err(&fault)? {
            for (owner, count, known) in counts(connection, agent).map_err(&fault)? {
                if count != known {
                    grown.push((owner, count, count.saturating_sub(known).max(0)));
                }
            }
        }
        if grown.is_empty() {
            return Ok(0);
        }
        self.write_locked(&mut state, "index", |txn| {
            for (owner, count, _) in &grown {
                note_count(txn.connection, owner, *count).map_err(txn.fault("index"))?;
            }
            Ok(())
        })?;
        Ok(grown.iter().map(|(_, _, more)| more.unsigned_abs()).sum())
    }

    /// Throws the indexes of words away and makes them anew.
    pub(in crate::bundle) fn rebuild_memory(&self) -> Result<()> {
        self.check_process("index")?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: "index" });
        }
        let mut state = self.lock();
        self.commit_batch(&mut state, "index")?;
        self.rebuild(&mut state)?;
        self.index_text(&mut state)
    }

    /// The `k` blocks that fit best, ties in the order in which they were appended.
    pub(in crate::bundle) fn find_blocks(
        &self,
        text: &str,
        k: usize,
        filter: &MemoryFilter,
    ) -> Result<Vec<BlockHit>> {
        let query = parse(text);
        if k == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let narrow = narrowed(filter);
        self.on_index(|rows, indexes| {
            let hits = find(indexes, &query, k, &narrow).map_err(self.fault(ACTION))?;
            let blocks = hits.into_iter().enumerate().map(|(rank, hit)| {
                let index = indexes.get(hit.index).ok_or_else(|| self.lost_row())?;
                let mut block = self.block_hit(rows, index, hit.id)?.ok_or_else(|| self.lost_row())?;
                block.score = hit.score;
                block.keyword = Some(Side { rank, score: hit.score });
                block.snippet = snippet(&block.content, &query);
                Ok(block)
            });
            blocks.collect()
        })
    }

    /// One block with its whole text; `None` where no block has that name.
    pub(in crate::bundle) fn block(&self, name: &str) -> Result<Option<BlockHit>> {
        let Some((origin, key, part)) = BlockId::parse_name(name) else { return Ok(None) };
        self.on_index(|rows, indexes| {
            let fault = self.fault(ACTION);
            if !has_table(rows, origin.table()).map_err(&fault)? {
                return Ok(None);
            }
            let row: Option<i64> = rows
                .prepare_cached(origin.find())
                .and_then(|mut select| select.query_row([&key], |row| row.get(0)).optional())
                .map_err(&fault)?;
            let Some(row) = row else { return Ok(None) };
            for index in indexes {
                if let Some(found) = self.block_hit(rows, index, BlockId { origin, row, part })? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    /// What is known of a block, with its text cut again from its row.
    pub(super) fn block_hit(
        &self,
        rows: &Connection,
        index: &Index<'_>,
        id: BlockId,
    ) -> Result<Option<BlockHit>> {
        const BLOCK: &str = "\
SELECT kind, round, block, turn, ts, event_id, tool, channel FROM amber_block WHERE id = ?1";
        let fault = self.fault(ACTION);
        let placed = index
            .connection
            .prepare_cached(BLOCK)
            .and_then(|mut select| {
                select
                    .query_row([id.number()], |row| {
                        let kind: u8 = row.get(0)?;
                        Ok(BlockHit {
                            number: id.number(),
                            block_id: String::new(),
                            agent: String::new(),
                            kind: Kind::ALL.get(usize::from(kind)).copied().unwrap_or(Kind::Other),
                            round: row.get(1)?,
                            block: row.get(2)?,
                            turn: row.get(3)?,
                            ts: row.get(4)?,
                            event_id: row.get(5)?,
                            event_key: String::new(),
                            tool_name: names::spelt(index.connection, row.get(6)?)?,
                            channel: names::spelt(index.connection, row.get(7)?)?,
                            content: String::new(),
                            snippet: String::new(),
                            score: 0.0,
                            keyword: None,
                            vector: None,
                        })
                    })
                    .optional()
            })
            .map_err(&fault)?;
        let Some(mut hit) = placed else { return Ok(None) };
        let found: Option<(Vec<u8>, Vec<u8>)> = rows
            .prepare_cached(id.origin.row())
            .and_then(|mut select| {
                select.query_row([id.row], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(&fault)?;
        let (key, stored) = found.ok_or_else(|| self.lost_row())?;
        let (owner, number) = id.origin.parse(&key).ok_or_else(|| self.lost_row())?;
        hit.block_id = id.name(owner, number);
        owner.clone_into(&mut hit.agent);
        hit.content = self.text_of(id, &key, &stored)?;
        if id.origin != Origin::Given {
            hit.event_key = String::from_utf8_lossy(&key).into_owned();
        }
        Ok(Some(hit))
    }

    /// The text of a block, cut from the row that it comes from.
    pub(super) fn text_of(&self, id: BlockId, key: &[u8], stored: &[u8]) -> Result<String> {
        let table = id.origin.table();
        let damaged = |what: String| {
            Error::damaged(&self.path, format!("{table}[{}]", String::from_utf8_lossy(key)), what)
        };
        let value = match codec::open(table, key, stored) {
            Ok(Stored::Object(body)) => msgpack::decode(&body).map_err(|fault| damaged(fault.to_string()))?,
            Ok(Stored::Bytes(_)) => Value::Nil,
            Err(fault) => return Err(damaged(fault.to_string())),
        };
        let text = match id.origin {
            Origin::Channels => {
                let (channel, _) = id.origin.parse(key).ok_or_else(|| self.lost_row())?;
                cut_message(channel, 0, &value).map(|block| block.text)
            }
            Origin::Events | Origin::Given => pieces(&value).into_iter().nth(id.part).map(|piece| piece.text),
        };
        text.ok_or_else(|| self.lost_row())
    }

    /// Keeps events for the index alone: those of `events` that it was not handed before. What it was
    /// handed before and `events` does not repeat is forgotten.
    pub(in crate::bundle) fn give(&self, agent: &str, from: u64, events: &[Payload]) -> Result<()> {
        self.write("index", |txn| give(txn, agent, from, events))
    }

    /// How much is indexed, as the index stands.
    pub(in crate::bundle) fn memory_stats(&self) -> Result<MemoryStats> {
        const COUNT: &str = "\
SELECT coalesce(sum(live AND kind <> ?1), 0), coalesce(sum(NOT live AND kind <> ?1), 0) FROM amber_block";
        self.on_index(|_, indexes| {
            let mut stats = MemoryStats::default();
            for index in indexes {
                let (blocks, left): (i64, i64) = index
                    .connection
                    .query_row(COUNT, [Kind::Other as i64], |row| Ok((row.get(0)?, row.get(1)?)))
                    .map_err(self.fault(ACTION))?;
                stats.blocks += blocks.unsigned_abs();
                stats.left += left.unsigned_abs();
                stats.all += index.corpus.blocks;
            }
            Ok(stats)
        })
    }
}

/// A filter in the index's own form.
pub(super) fn narrowed(filter: &MemoryFilter) -> Narrow<'_> {
    Narrow {
        agent: filter.agent.as_deref(),
        kinds: Some(filter.kinds.as_deref().unwrap_or(&TOLD)),
        types: None,
        tool: filter.tool.as_deref(),
        since: filter.since,
        until: filter.until,
        turns: filter.turns,
        all_branches: filter.all_branches,
        by_event: false,
    }
}

/// How many live blocks each owner has, and how many it had when that was last noted.
fn counts(connection: &Connection, agent: Option<&str>) -> rusqlite::Result<Vec<(String, i64, i64)>> {
    const COUNTS: &str = "\
SELECT n.name, sum(l.place), coalesce((SELECT value FROM amber_meta AS m WHERE m.name = 'told:' || n.name), 0)
FROM amber_lane AS l JOIN amber_name AS n ON n.id = l.owner WHERE ?1 IS NULL OR n.name = ?1
GROUP BY n.name";
    let mut select = connection.prepare_cached(COUNTS)?;
    select.query_map([agent], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

fn note_count(connection: &Connection, owner: &str, count: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES ('told:' || ?1, ?2)")?
        .execute((owner, count))?;
    Ok(())
}

fn give(txn: &mut Txn<'_>, agent: &str, from: u64, events: &[Payload]) -> Result<()> {
    const KEEP: &str = "INSERT INTO amber_given (key, value) VALUES (?1, ?2)";
    const HELD: &str = "SELECT value FROM amber_given WHERE key = ?1";
    let fault = txn.fault("index");
    txn.ensure(Group::Given).map_err(&fault)?;
    let connection = txn.connection;
    let mut is_new = false;
    for (number, event) in (from..).zip(events) {
        let key = event_key(agent, number);
        let Payload::Object(body) = event else { continue };
        let value = codec::seal(Origin::Given.table(), &key, body);
        if !is_new {
            let held: Option<Vec<u8>> = connection
                .prepare_cached(HELD)
                .and_then(|mut select| select.query_row([&key], |row| row.get(0)).optional())
                .map_err(&fault)?;
            if held.as_ref() == Some(&value) {
                continue;
            }
            if held.is_some() {
                forget(connection, agent).map_err(&fault)?;
                return give(txn, agent, from, events);
            }
            is_new = true;
        }
        connection.prepare_cached(KEEP).and_then(|mut keep| keep.execute((&key, &value))).map_err(&fault)?;
    }
    Ok(())
}

/// Forgets all events that were handed over for an agent, and their blocks.
fn forget(connection: &Connection, agent: &str) -> rusqlite::Result<()> {
    let rows: Vec<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT rowid, key FROM amber_given")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let theirs =
        rows.iter().filter(|(_, key)| Origin::Given.parse(key).is_some_and(|(owner, _)| owner == agent));
    super::vectors::note_moves(connection)?;
    let has_index = super::find::has_index(connection)?;
    let held = corpus(connection)?;
    let (mut blocks, mut words) = (held.blocks, held.words);
    for (row, _) in theirs {
        connection.prepare_cached("DELETE FROM amber_given WHERE rowid = ?1")?.execute([row])?;
        for span in BlockId::spans_of(Origin::Given, *row) {
            super::vectors::drop_vectors(connection, span, None)?;
        }
        if !has_index {
            continue;
        }
        for (first, last) in BlockId::spans_of(Origin::Given, *row) {
            let gone: (i64, i64) = connection
                .prepare_cached(
                    "SELECT count(*), coalesce(sum(length), 0) FROM amber_block WHERE id BETWEEN ?1 AND ?2",
                )?
                .query_row((first, last), |found| Ok((found.get(0)?, found.get(1)?)))?;
            blocks = blocks.saturating_sub(gone.0.unsigned_abs());
            words = words.saturating_sub(gone.1.unsigned_abs());
            connection
                .prepare_cached("DELETE FROM amber_text WHERE rowid IN (SELECT id FROM amber_block WHERE id BETWEEN ?1 AND ?2)")?
                .execute((first, last))?;
            connection
                .prepare_cached("DELETE FROM amber_block WHERE id BETWEEN ?1 AND ?2")?
                .execute((first, last))?;
        }
    }
    if has_index && let Some(owner) = names::find(connection, agent)? {
        for statement in [
            "DELETE FROM amber_lane WHERE owner = ?1 AND origin = ?2",
            "DELETE FROM amber_turn WHERE owner = ?1 AND origin = ?2",
        ] {
            connection.prepare_cached(statement)?.execute((owner, Origin::Given.number()))?;
        }
    }
    super::set_mark(connection, super::Mark::Blocks, i64::try_from(blocks).unwrap_or(i64::MAX))?;
    super::set_mark(connection, super::Mark::Words, i64::try_from(words).unwrap_or(i64::MAX))
}

//! Asking the index: words are words, a filter is part of the question, and nothing raises.

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::find::{self, Index, Narrow, find, has_index, is_wiped};
use super::id::Origin;
use super::names;
use super::ours::{self, CHANNEL, Indexer};
use super::{corpus, is_of_old_shape, mark, rows_after};
use crate::bundle::handle::{Inner, State};
use crate::bundle::value::open_value;
use crate::codec::Value;
use crate::db::schema::{Table, has_table};
use crate::db::{ffi, open};
use crate::error::{Error, Result};
use crate::recall::query::parse;
use crate::recall::rank::Corpus;

const ACTION: &str = "search";

/// What a search is narrowed to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Only what this agent (or channel) said.
    pub agent: Option<&'a str>,
    /// Only events of these types.
    pub types: Option<&'a [String]>,
}

/// A row that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The block of the row that fits best.
    pub doc_id: i64,
    /// How well it fits; higher is better.
    pub score: f64,
    /// The key of the event or message.
    pub source: String,
    /// The agent, or the channel of a message.
    pub owner: String,
    /// The event's type; `channel` for a message.
    pub kind: String,
    /// The event's id; 0 for a message.
    pub event_id: i64,
    /// Who sent a message.
    pub sender: Option<String>,
}

impl Inner {
    /// The `k` rows that fit best, ties in the order in which they were appended.
    pub(in crate::bundle) fn search(&self, text: &str, k: usize, filter: Filter<'_>) -> Result<Vec<Hit>> {
        let query = parse(text);
        if k == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let narrow = Narrow {
            agent: filter.agent,
            kinds: None,
            types: filter.types,
            tool: None,
            since: None,
            until: None,
            turns: (None, None),
            all_branches: true,
            by_event: true,
        };
        self.on_index(|rows, indexes| {
            let hits = find(indexes, &query, k, &narrow).map_err(self.fault(ACTION))?;
            hits.into_iter().map(|hit| self.event_hit(rows, indexes, hit)).collect()
        })
    }

    fn event_hit(&self, rows: &Connection, indexes: &[Index<'_>], hit: find::Hit) -> Result<Hit> {
        let fault = self.fault(ACTION);
        let index = indexes.get(hit.index).ok_or_else(|| self.lost_row())?.connection;
        let number = hit.id.number();
        let (kind, event_id): (Option<i64>, i64) = index
            .prepare_cached("SELECT type, event_id FROM amber_block WHERE id = ?1")
            .and_then(|mut select| select.query_row([number], |row| Ok((row.get(0)?, row.get(1)?))))
            .map_err(&fault)?;
        let found: Option<(Vec<u8>, Vec<u8>)> = rows
            .prepare_cached(hit.id.origin.row())
            .and_then(|mut select| {
                select.query_row([hit.id.row], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(&fault)?;
        let (key, stored) = found.ok_or_else(|| self.lost_row())?;
        let sender = match hit.id.origin {
            Origin::Channels => Some(self.sender(&key, &stored)?),
            Origin::Events | Origin::Given => None,
        };
        Ok(Hit {
            doc_id: number,
            score: hit.score,
            owner: hit.id.origin.parse(&key).map(|(owner, _)| owner.to_owned()).unwrap_or_default(),
            source: String::from_utf8_lossy(&key).into_owned(),
            kind: match hit.id.origin {
                Origin::Channels => CHANNEL.to_owned(),
                Origin::Events | Origin::Given => names::spelt(index, kind).map_err(&fault)?,
            },
            event_id,
            sender,
        })
    }

    pub(super) fn lost_row(&self) -> Error {
        Error::damaged(&self.path, "its text index", "it names a row that is not there")
    }

    fn sender(&self, key: &[u8], stored: &[u8]) -> Result<String> {
        let value = open_value(&self.path, Table::Channels, key, stored)?;
        Ok(value.get("sender").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Runs `work` on an index that holds all rows: where the rows are, and the indexes to ask.
    pub(super) fn on_index<R>(&self, work: impl Fn(&Connection, &[Index<'_>]) -> Result<R>) -> Result<R> {
        if self.source.is_some() {
            return self.at_rest(&work);
        }
        self.check_process(ACTION)?;
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        match self.on_known_disk(&mut state, &work) {
            Ok(Some(found)) => return Ok(found),
            // The index is derived: it is made anew once, and what it finds then is the answer.
            Err(Error::Damaged { .. }) => self.rebuild(&mut state)?,
            Ok(None) => {}
            Err(error) => return Err(error),
        }
        match self.index_text(&mut state) {
            // The index cannot grow, on a full disk say: what it lacks is indexed in memory.
            Err(Error::Io { .. }) => {
                drop(state);
                return self.at_rest(&work);
            }
            outcome => outcome?,
        }
        let found = self.on_level_disk(&state, &work);
        if !matches!(found, Err(Error::Damaged { .. })) {
            return found;
        }
        self.rebuild(&mut state)?;
        self.index_text(&mut state)?;
        self.on_level_disk(&state, &work)
    }

    /// Works on the index if it is level. What was found of the file holds while nobody has committed.
    fn on_known_disk<R>(
        &self,
        state: &mut State,
        work: &impl Fn(&Connection, &[Index<'_>]) -> Result<R>,
    ) -> Result<Option<R>> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?;
        let fault = self.fault(ACTION);
        let mut level = state.level;
        // One transaction for all that is read, or each statement would take and leave a lock.
        let found = self.reading(connection, || {
            connection
                .prepare_cached("SELECT 1 FROM sqlite_master")
                .and_then(|mut first| first.exists([]))
                .map_err(&fault)?;
            let version = ffi::data_version(connection);
            if let Some((_, held)) = level.filter(|(known, _)| version == Some(*known)) {
                let index = Index::open(connection, held).map_err(&fault)?;
                return work(connection, &[index]).map(Some);
            }
            level = None;
            if self.is_behind(connection).map_err(&fault)? {
                return Ok(None);
            }
            let found = self.on_disk(connection, work)?;
            if has_index(connection).map_err(&fault)? {
                level = version.zip(Some(corpus(connection).map_err(&fault)?));
            }
            Ok(Some(found))
        });
        state.level = level;
        found
    }

    fn on_level_disk<R>(
        &self,
        state: &State,
        work: &impl Fn(&Connection, &[Index<'_>]) -> Result<R>,
    ) -> Result<R> {
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?;
        self.reading(connection, || self.on_disk(connection, work))
    }

    /// Reads in one transaction.
    fn reading<R>(&self, connection: &Connection, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let run =
            |statement| -> rusqlite::Result<usize> { connection.prepare_cached(statement)?.execute([]) };
        run("BEGIN").map_err(self.fault(ACTION))?;
        let found = work();
        let ended = run("COMMIT").map_err(self.fault(ACTION));
        if ended.is_err() && !connection.is_autocommit() {
            run("ROLLBACK").map_err(self.fault(ACTION))?;
        }
        found.and_then(|found| ended.map(|_| found))
    }

    fn on_disk<R>(
        &self,
        connection: &Connection,
        work: &impl Fn(&Connection, &[Index<'_>]) -> Result<R>,
    ) -> Result<R> {
        let fault = self.fault(ACTION);
        if !has_index(connection).map_err(&fault)? {
            return work(connection, &[]);
        }
        if is_wiped(connection).map_err(&fault)? {
            return Err(Error::damaged(&self.path, "its text index", "its records hold nothing but zeros"));
        }
        let index = corpus(connection).and_then(|held| Index::open(connection, held)).map_err(&fault)?;
        work(connection, &[index])
    }

    /// Works on a bundle that cannot be written: what its index lacks is indexed in memory.
    fn at_rest<R>(&self, work: &impl Fn(&Connection, &[Index<'_>]) -> Result<R>) -> Result<R> {
        self.read(ACTION, |connection| {
            let fault = self.fault(ACTION);
            if has_index(connection).map_err(&fault)? && !is_rewritten(connection).map_err(&fault)? {
                let rest = rest_of(connection, false)?;
                let found = match &rest {
                    Rest::Nothing => self.on_disk(connection, work),
                    Rest::After(memory, added) => self.on_disk(connection, &|rows, indexes| {
                        let more = Index::open(memory, *added).map_err(self.fault(ACTION))?;
                        work(rows, &[indexes, &[more]].concat())
                    }),
                    Rest::All => Err(self.lost_row()),
                };
                // An index that is damaged counts for nothing: all is indexed anew, in memory.
                if !matches!(found, Err(Error::Damaged { .. })) {
                    return found;
                }
            }
            match rest_of(connection, true)? {
                Rest::After(memory, held) => {
                    let index = Index::open(&memory, held).map_err(&fault)?;
                    work(connection, &[index])
                }
                Rest::Nothing | Rest::All => work(connection, &[]),
            }
        })
    }
}

/// Whether rows were rewritten since they were indexed.
fn is_rewritten(connection: &Connection) -> rusqlite::Result<bool> {
    if is_of_old_shape(connection)? {
        return Ok(true);
    }
    if !has_table(connection, "amber_foreign")? {
        return Ok(false);
    }
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM amber_foreign WHERE rewritten = 1)", [], |row| row.get(0))
}

/// The rows that an index does not hold.
enum Rest {
    /// There are none.
    Nothing,
    /// They are in this index in memory.
    After(Connection, Corpus),
    /// They change what the index says of older rows.
    All,
}

/// Indexes in memory what the bundle's index lacks, or all rows.
fn rest_of(connection: &Connection, all: bool) -> Result<Rest> {
    let path = std::path::Path::new("");
    let fault = |source: rusqlite::Error| crate::db::fault::translate(path, ACTION, &source);
    let mut marks = Vec::new();
    for origin in Origin::ALL {
        let from = if all { 0 } else { mark(connection, origin.mark()).map_err(fault)? };
        if origin.last_row(connection).map_err(fault)? > from {
            marks.push((origin, from));
        }
    }
    if marks.is_empty() {
        return Ok(Rest::Nothing);
    }
    let memory = open::in_memory()?;
    ours::create(&memory).map_err(fault)?;
    if !all {
        for table in ["amber_name", "amber_lane", "amber_turn"] {
            copy(connection, &memory, table).map_err(fault)?;
        }
    }
    let mut indexer = Indexer::new(connection, &memory);
    for (origin, mut from) in marks {
        loop {
            let rows = rows_after(connection, origin, from).map_err(fault)?;
            let Some(last) = rows.last().map(|row| row.rowid) else { break };
            indexer.add(origin, rows.iter()).map_err(fault)?;
            from = last;
        }
    }
    indexer.finish().map_err(fault)?;
    let (added, reached_back) = (indexer.added, indexer.reached_back);
    if reached_back && !all { Ok(Rest::All) } else { Ok(Rest::After(memory, added)) }
}

/// Copies a small table of the index.
fn copy(from: &Connection, to: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut select = from.prepare(&format!("SELECT * FROM {table}"))?;
    let columns = select.column_count();
    let slots = vec!["?"; columns].join(", ");
    let mut insert = to.prepare(&format!("INSERT INTO {table} VALUES ({slots})"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let cells: Vec<Cell> = (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
        insert.execute(params_from_iter(cells))?;
    }
    Ok(())
}

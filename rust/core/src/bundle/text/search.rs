//! Asking the index: words are words, a filter is part of the question, and nothing raises.

use rusqlite::{Connection, OptionalExtension};

use super::ours::{self, CHANNEL};
use super::{Mark, last_row, mark, rows_after};
use crate::bundle::handle::Inner;
use crate::bundle::value::open_value;
use crate::codec::Value;
use crate::db::open;
use crate::db::schema::{Table, has_table};
use crate::error::{Error, Result};
use crate::recall::common::Plan;
use crate::recall::query::{Query, parse};

const ACTION: &str = "search";

const RANKED: &str = "\
SELECT b.id, -bm25(amber_text), b.source, b.agent, b.type, b.event_id
FROM amber_text JOIN amber_block AS b ON b.id = amber_text.rowid
WHERE amber_text MATCH ?1 AND (?2 IS NULL OR b.agent = ?2)
  AND (?3 IS NULL OR b.type IN (SELECT value FROM json_each(?3)))
ORDER BY bm25(amber_text), b.id LIMIT ?4";
const NEWEST: &str = "\
SELECT b.id, 0.0, b.source, b.agent, b.type, b.event_id
FROM amber_text JOIN amber_block AS b ON b.id = amber_text.rowid
WHERE amber_text MATCH ?1 AND (?2 IS NULL OR b.agent = ?2)
  AND (?3 IS NULL OR b.type IN (SELECT value FROM json_each(?3)))
ORDER BY amber_text.rowid DESC LIMIT ?4";

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
    /// The row of the index.
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
        if self.source.is_some() {
            return self.search_at_rest(&query, k, filter);
        }
        self.check_process(ACTION)?;
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        match self.index_text(&mut state) {
            // The index cannot grow, on a full disk say: what it lacks is indexed in memory.
            Err(Error::Io { .. }) => {
                drop(state);
                return self.search_at_rest(&query, k, filter);
            }
            outcome => outcome?,
        }
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?;
        let found = ask(self, connection, &query, k, filter);
        if !matches!(found, Err(Error::Damaged { .. })) {
            return found;
        }
        // The index is derived: it is made anew once, and what it finds then is the answer.
        self.rebuild(&mut state)?;
        self.index_text(&mut state)?;
        ask(self, state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?, &query, k, filter)
    }

    /// Searches a bundle that cannot be written: what its index lacks is indexed in memory.
    fn search_at_rest(&self, query: &Query, k: usize, filter: Filter<'_>) -> Result<Vec<Hit>> {
        self.read(ACTION, |connection| {
            let fault = self.fault(ACTION);
            let indexed = if has_table(connection, "amber_text").map_err(&fault)? {
                ask(self, connection, query, k, filter)
            } else {
                Ok(Vec::new())
            };
            // An index that is damaged counts for nothing: all is indexed anew, in memory.
            let (mut hits, is_whole) = match indexed {
                Ok(hits) => (hits, true),
                Err(Error::Damaged { .. }) => (Vec::new(), false),
                Err(error) => return Err(error),
            };
            let extra = self.index_rest(connection, is_whole)?;
            if let Some(extra) = extra {
                hits.extend(ask(self, &extra, query, k, filter)?);
                hits.sort_by(|one, other| other.score.total_cmp(&one.score));
                hits.truncate(k);
                for hit in &mut hits {
                    hit.sender = sender(self, connection, &hit.kind, &hit.source)?;
                }
            }
            Ok(hits)
        })
    }

    /// An index of the rows that the bundle's own does not hold; `None` when it holds all.
    fn index_rest(&self, connection: &Connection, is_whole: bool) -> Result<Option<Connection>> {
        let fault = self.fault(ACTION);
        let mut extra = None;
        let tables = [(Table::Events, Mark::OurEvents), (Table::Channels, Mark::OurChannels)];
        let has_index = is_whole && has_table(connection, "amber_text").map_err(&fault)?;
        for (table, which) in tables {
            let last = last_row(connection, table).map_err(&fault)?;
            let mut from = if has_index { mark(connection, which).map_err(&fault)? } else { 0 };
            while from < last {
                let rows = rows_after(connection, table, from).map_err(&fault)?;
                let Some(end) = rows.last().map(|row| row.rowid) else { break };
                if extra.is_none() {
                    let memory = open::in_memory()?;
                    ours::create(&memory).map_err(&fault)?;
                    extra = Some(memory);
                }
                if let Some(memory) = &extra {
                    ours::index(memory, table, rows.iter()).map_err(&fault)?;
                }
                from = end;
            }
        }
        Ok(extra)
    }
}

fn ask(
    inner: &Inner,
    connection: &Connection,
    query: &Query,
    k: usize,
    filter: Filter<'_>,
) -> Result<Vec<Hit>> {
    let fault = inner.fault(ACTION);
    if !has_table(connection, "amber_block").map_err(&fault)? {
        return Ok(Vec::new());
    }
    if is_wiped(connection).map_err(&fault)? {
        return Err(Error::damaged(&inner.path, "its text index", "its records hold nothing but zeros"));
    }
    let (statement, expression) = match plan(connection, query).map_err(&fault)? {
        Plan::Nothing => return Ok(Vec::new()),
        Plan::Ranked(expression) => (RANKED, expression),
        Plan::OnlyCommon(expression) => (NEWEST, expression),
    };
    let types = filter.types.map(|types| {
        serde_json::Value::Array(types.iter().map(|kind| serde_json::Value::String(kind.clone())).collect())
            .to_string()
    });
    let limit = i64::try_from(k).unwrap_or(i64::MAX);
    let mut hits: Vec<Hit> = connection
        .prepare_cached(statement)
        .and_then(|mut select| {
            select
                .query_map((&expression, filter.agent, types, limit), |row| {
                    Ok(Hit {
                        doc_id: row.get(0)?,
                        score: row.get(1)?,
                        source: row.get(2)?,
                        owner: row.get(3)?,
                        kind: row.get(4)?,
                        event_id: row.get(5)?,
                        sender: None,
                    })
                })?
                .collect()
        })
        .map_err(&fault)?;
    for hit in &mut hits {
        hit.sender = sender(inner, connection, &hit.kind, &hit.source)?;
    }
    Ok(hits)
}

/// Whether the two records that describe the index are all zeros. To SQLite that is an empty index,
/// in which nothing is found and nothing is wrong.
fn is_wiped(connection: &Connection) -> rusqlite::Result<bool> {
    const WIPED: &str = "\
SELECT EXISTS (SELECT 1 FROM amber_text_data WHERE id IN (1, 10) AND block = zeroblob(length(block)))
  AND EXISTS (SELECT 1 FROM amber_block)";
    connection.prepare_cached(WIPED)?.query_row([], |row| row.get(0))
}

fn sender(inner: &Inner, connection: &Connection, kind: &str, source: &str) -> Result<Option<String>> {
    let fault = inner.fault(ACTION);
    if kind != CHANNEL || !has_table(connection, "channels").map_err(&fault)? {
        return Ok(None);
    }
    let key = source.as_bytes();
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(Table::Channels.sql().get)
        .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
        .map_err(&fault)?;
    let Some(stored) = stored else { return Ok(None) };
    let value = open_value(&inner.path, Table::Channels, key, &stored)?;
    Ok(Some(value.get("sender").and_then(Value::as_str).unwrap_or_default().to_owned()))
}

/// Leaves out words that most blocks hold, where that can be known.
fn plan(connection: &Connection, query: &Query) -> rusqlite::Result<Plan> {
    const VOCABULARY: &str = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.amber_vocabulary USING fts5vocab('main', 'amber_text', 'row')";
    let total: i64 = connection
        .prepare_cached("SELECT coalesce(max(id), 0) FROM amber_block")?
        .query_row([], |row| row.get(0))?;
    connection.execute_batch(VOCABULARY)?;
    let mut frequency = connection.prepare_cached("SELECT doc FROM temp.amber_vocabulary WHERE term = ?1")?;
    let failure = std::cell::RefCell::new(None);
    let count = |term: &str, select: &mut rusqlite::CachedStatement<'_>| {
        select.query_row([term], |row| row.get::<_, i64>(0)).optional()
    };
    let select = std::cell::RefCell::new(&mut frequency);
    let plan = query.plan(total.unsigned_abs(), |term| match count(term, &mut select.borrow_mut()) {
        Ok(found) => found.unwrap_or(0).unsigned_abs(),
        Err(source) => {
            failure.replace(Some(source));
            0
        }
    });
    failure.into_inner().map_or(Ok(plan), Err)
}

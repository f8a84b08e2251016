//! Reading the log: a page at a time, in the order of numbers, never of texts.

use rusqlite::Connection;

use super::handle::Inner;
use super::ledger::{self, last_number};
use super::value::{Payload, open_owned};
use crate::codec::msgpack;
use crate::db::schema::{Table, has_table};
use crate::error::Result;
use crate::model::Namespace;

const ACTION: &str = "read";
/// Rows that are read before the writer gets a turn.
const ROWS: usize = 512;
const WIDTHS: std::ops::RangeInclusive<usize> = 6..=19;

/// What a reader wants of a log.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only events with a higher id.
    pub since: Option<i64>,
    /// Only events with this id or a lower one.
    pub until: Option<i64>,
    /// Only events of these types.
    pub types: Option<Vec<String>>,
    /// Newest first.
    pub reverse: bool,
}

/// Part of a log.
#[derive(Debug, Default)]
pub struct Page {
    /// Number, key and value of each event.
    pub rows: Vec<Row>,
    /// The number to go on from, `None` at the end of the log.
    pub next: Option<u64>,
}

/// One event.
#[derive(Debug)]
pub struct Row {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Payload,
}

impl Selection {
    fn wants(&self, body: &[u8]) -> bool {
        let id = || msgpack::field(body, "event_id").and_then(msgpack::as_i64);
        self.since.is_none_or(|since| id().is_some_and(|id| id > since))
            && self.until.is_none_or(|until| id().is_none_or(|id| id <= until))
            && self.types.as_ref().is_none_or(|types| {
                let found = msgpack::field(body, "type").and_then(msgpack::as_str);
                found.is_some_and(|found| types.iter().any(|wanted| wanted == found))
            })
    }
}

impl Inner {
    /// One page of the log of `agent`: at most `limit` events from number `from` on (or back).
    pub(super) fn page(
        &self,
        agent: &str,
        wanted: &Selection,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Page> {
        self.read(ACTION, |connection| page_in(self, connection, agent, wanted, from, limit))
    }

    /// One page of the messages of a channel.
    pub(super) fn message_page(&self, channel: &str, from: u64, limit: usize) -> Result<Page> {
        self.read(ACTION, |connection| {
            let fault = self.fault(ACTION);
            if !has_table(connection, "channels").map_err(&fault)? {
                return Ok(Page::default());
            }
            let space = Namespace::messages(channel);
            let (rows, next) = rows_from(connection, &space, Table::Channels, from, false, limit.min(ROWS))
                .map_err(&fault)?;
            let rows = rows
                .into_iter()
                .map(|(key, stored)| {
                    let value = open_owned(&self.path, Table::Channels, &key, stored)?;
                    Ok(Row { key, value })
                })
                .collect::<Result<_>>()?;
            Ok(Page { rows, next })
        })
    }

    /// One page of all events in the order of their rows.
    pub(super) fn rows_after(&self, rowid: i64, limit: usize) -> Result<(Vec<Row>, Option<i64>)> {
        self.read(ACTION, |connection| {
            let fault = self.fault(ACTION);
            if !has_table(connection, "events").map_err(&fault)? {
                return Ok((Vec::new(), None));
            }
            let raw: Vec<(i64, Vec<u8>, Vec<u8>)> = connection
                .prepare_cached(Table::Events.sql().after)
                .and_then(|mut select| {
                    select
                        .query_map((rowid, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
                            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                        })?
                        .collect()
                })
                .map_err(&fault)?;
            let next = raw.last().filter(|_| raw.len() == limit).map(|(rowid, ..)| *rowid);
            let rows = raw
                .into_iter()
                .map(|(_, key, stored)| {
                    let value = open_owned(&self.path, Table::Events, &key, stored)?;
                    Ok(Row { key, value })
                })
                .collect::<Result<_>>()?;
            Ok((rows, next))
        })
    }

    /// All events by time; the sort is stable, so that those of one time stay as they were appended.
    pub(super) fn all_rows(&self) -> Result<Vec<Row>> {
        let (mut rows, mut from) = (Vec::new(), Some(i64::MIN));
        while let Some(after) = from {
            let (page, next) = self.rows_after(after, ROWS)?;
            rows.extend(page);
            from = next;
        }
        Ok(in_order_of_time(rows))
    }

    /// The highest event id of the session.
    pub(super) fn max_event_id(&self) -> Result<i64> {
        self.with_numbers(ACTION, |ledger, connection| {
            ledger.refresh(connection)?;
            Ok(ledger.max_id)
        })
    }

    /// The owners of all logs.
    pub(super) fn namespaces(&self) -> Result<Vec<String>> {
        self.read(ACTION, |connection| ledger::namespaces(connection).map_err(self.fault(ACTION)))
    }

    /// The event with that id.
    pub(super) fn event_by_id(&self, agent: &str, id: i64) -> Result<Option<Payload>> {
        let wanted = Selection { since: Some(id - 1), until: Some(id), ..Selection::default() };
        let mut from = None;
        loop {
            let page = self.page(agent, &wanted, from, 1)?;
            if let Some(row) = page.rows.into_iter().next() {
                return Ok(Some(row.value));
            }
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(None),
            }
        }
    }
}

/// One page of a log, on a connection that is at hand.
pub(super) fn page_in(
    inner: &Inner,
    connection: &Connection,
    agent: &str,
    wanted: &Selection,
    from: Option<u64>,
    limit: usize,
) -> Result<Page> {
    let fault = inner.fault(ACTION);
    if !has_table(connection, "events").map_err(&fault)? {
        return Ok(Page::default());
    }
    let log = Namespace::events(agent);
    let start = match from {
        Some(from) => from,
        None => first_number(inner, connection, agent, wanted).map_err(&fault)?,
    };
    let mut page = Page::default();
    let mut seen = 0;
    let mut at = Some(start);
    while let Some(number) = at
        && page.rows.len() < limit
        && seen < ROWS
    {
        let take = (ROWS - seen).min(limit - page.rows.len());
        let (rows, next) =
            rows_from(connection, &log, Table::Events, number, wanted.reverse, take).map_err(&fault)?;
        seen += rows.len();
        at = next;
        for (key, stored) in rows {
            let value = open_owned(&inner.path, Table::Events, &key, stored)?;
            let is_wanted = match &value {
                Payload::Object(body) => wanted.wants(body),
                Payload::Bytes(_) => wanted.since.is_none() && wanted.types.is_none(),
            };
            if is_wanted {
                page.rows.push(Row { key, value });
            } else if is_past(&value, wanted) && is_ordered(inner, connection, agent).map_err(&fault)? {
                at = None;
                break;
            }
        }
    }
    page.next = at;
    Ok(page)
}

/// How far a clock may have been set back, in seconds. An event that is older by more was given its
/// time by the caller.
const CLOCK_STEP: f64 = 86_400.0;

/// Sorts events by time. A clock that was set back moves none of them before one appended earlier.
fn in_order_of_time(mut rows: Vec<Row>) -> Vec<Row> {
    if rows.iter().all(|row| event_id(row).is_some()) {
        rows.sort_by_key(event_id);
    } else {
        rows.sort_by(|one, other| one.key.cmp(&other.key));
    }
    let mut latest = f64::NEG_INFINITY;
    let mut timed: Vec<(f64, Row)> = Vec::with_capacity(rows.len());
    for row in rows {
        let own = time_of(&row);
        let time = if own < latest && latest - own < CLOCK_STEP { latest } else { own };
        latest = latest.max(own);
        timed.push((time, row));
    }
    timed.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    timed.into_iter().map(|(_, row)| row).collect()
}

fn event_id(row: &Row) -> Option<i64> {
    match &row.value {
        Payload::Object(body) => msgpack::field(body, "event_id").and_then(msgpack::as_i64),
        Payload::Bytes(_) => None,
    }
}

fn time_of(row: &Row) -> f64 {
    match &row.value {
        Payload::Object(body) => msgpack::field(body, "ts").and_then(msgpack::as_f64).unwrap_or(0.0),
        Payload::Bytes(_) => 0.0,
    }
}

/// Whether no later event of an ordered log can be wanted.
fn is_past(value: &Payload, wanted: &Selection) -> bool {
    let Payload::Object(body) = value else { return false };
    let Some(id) = msgpack::field(body, "event_id").and_then(msgpack::as_i64) else { return false };
    if wanted.reverse {
        wanted.since.is_some_and(|since| id <= since)
    } else {
        wanted.until.is_some_and(|until| id > until)
    }
}

fn is_ordered(inner: &Inner, connection: &Connection, agent: &str) -> rusqlite::Result<bool> {
    super::order::is_ordered(inner, connection, agent)
}

/// Where to start: found by halving where ids grow with the numbers, else at the very end or beginning.
fn first_number(
    inner: &Inner,
    connection: &Connection,
    agent: &str,
    wanted: &Selection,
) -> rusqlite::Result<u64> {
    let log = Namespace::events(agent);
    let bound = if wanted.reverse { wanted.until } else { wanted.since };
    if bound.is_none() && !wanted.reverse {
        return Ok(0);
    }
    let last = last_number(connection, &log, Table::Events, 0)?.unwrap_or(0);
    match bound {
        Some(bound) if is_ordered(inner, connection, agent)? => {
            let after = super::order::first_after(connection, &log, last, bound)?;
            Ok(if wanted.reverse { after.saturating_sub(1) } else { after })
        }
        _ => Ok(if wanted.reverse { last } else { 0 }),
    }
}

type RawRows = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows from number `from` on (or back), and the number to go on from.
pub(super) fn rows_from(
    connection: &Connection,
    space: &Namespace,
    table: Table,
    from: u64,
    reverse: bool,
    limit: usize,
) -> rusqlite::Result<(RawRows, Option<u64>)> {
    let mut found: RawRows = Vec::new();
    let mut at = Some(from);
    let widths: Vec<usize> = if reverse { WIDTHS.rev().collect() } else { WIDTHS.collect() };
    for width in widths {
        let (low, high) = if reverse { (0, from) } else { (from, u64::MAX) };
        let Some((first, last)) = space.span(width, low, high) else { continue };
        if width > 6 && !reverse && found.is_empty() && !has_width(connection, space, table, width)? {
            break;
        }
        let statement = if reverse { table.sql().span_back } else { table.sql().span };
        let mut select = connection.prepare_cached(statement)?;
        let length = i64::try_from(first.len()).unwrap_or(i64::MAX);
        let left = i64::try_from(limit - found.len()).unwrap_or(i64::MAX);
        let mut rows = select.query((first, last, length, left))?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_blob()?;
            if let Some(number) = space.number(key) {
                found.push((key.to_vec(), row.get_ref(1)?.as_blob()?.to_vec()));
                at = if reverse { number.checked_sub(1) } else { Some(number + 1) };
            }
        }
        if found.len() >= limit {
            return Ok((found, at));
        }
        if !reverse && !has_width(connection, space, table, width + 1)? {
            break;
        }
    }
    Ok((found, None))
}

/// Whether numbers of that many digits are in use. Among the first few of them sort no shorter keys, as
/// they do among all.
fn has_width(
    connection: &Connection,
    space: &Namespace,
    table: Table,
    width: usize,
) -> rusqlite::Result<bool> {
    let Some(low) = u32::try_from(width - 1).ok().and_then(|digits| 10_u64.checked_pow(digits)) else {
        return Ok(false);
    };
    let (first, last) = (space.key(low), space.key(low + 63));
    let length = i64::try_from(first.len()).unwrap_or(i64::MAX);
    connection.prepare_cached(table.sql().span)?.exists((first, last, length, 1))
}

//! Keyword search of one session: two derived indexes, written in batches behind watermarks.
//!
//! `amber_text` answers every search of ours. `fts` is the peer's, kept level so that its searches
//! find our events. Neither is written with an append; both are brought level before a search, at a
//! flush and at close, in the transaction that moves their watermarks.

mod content;
mod ours;
mod peer;
mod search;

use rusqlite::{Connection, OptionalExtension};

pub(in crate::bundle) use self::peer::check as check_peer_entry;
pub use self::search::{Filter, Hit};
use super::handle::{Inner, State, Txn};
use super::ledger;
use crate::db::fault::translate_derived;
use crate::db::schema::{Group, Table, has_table};
use crate::error::{Error, Result};

const ACTION: &str = "index";
/// Rows and bytes that are indexed in one transaction: each leaves a segment of the index, and
/// segments are merged later, so more at a time costs less in all; but other writers wait meanwhile.
const ROWS: usize = 4000;
const BYTES: usize = 8 << 20;

/// A row of the log or of a channel that is to be indexed.
struct Source {
    rowid: i64,
    key: Vec<u8>,
    stored: Vec<u8>,
}

/// How far an index has got with one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    OurEvents,
    OurChannels,
    PeerEvents,
    PeerChannels,
    PeerValues,
}

impl Mark {
    const fn name(self) -> &'static str {
        match self {
            Self::OurEvents => "text:events",
            Self::OurChannels => "text:channels",
            Self::PeerEvents => "peer_text:events",
            Self::PeerChannels => "peer_text:channels",
            Self::PeerValues => "peer_text:values",
        }
    }
}

fn mark(connection: &Connection, mark: Mark) -> rusqlite::Result<i64> {
    if !has_table(connection, "amber_meta")? {
        return Ok(0);
    }
    connection
        .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")?
        .query_row([mark.name()], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
}

fn set_mark(connection: &Connection, mark: Mark, rowid: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")?
        .execute((mark.name(), rowid))?;
    Ok(())
}

/// The last row of a table.
fn last_row(connection: &Connection, table: Table) -> rusqlite::Result<i64> {
    if !has_table(connection, table.name())? {
        return Ok(0);
    }
    let statement = match table {
        Table::Channels => "SELECT coalesce(max(rowid), 0) FROM channels",
        _ => "SELECT coalesce(max(rowid), 0) FROM events",
    };
    connection.prepare_cached(statement)?.query_row([], |row| row.get(0))
}

fn rows_after(connection: &Connection, table: Table, rowid: i64) -> rusqlite::Result<Vec<Source>> {
    let mut select = connection.prepare_cached(table.sql().after)?;
    let mut rows = select.query((rowid, i64::try_from(ROWS).unwrap_or(i64::MAX)))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < BYTES
        && let Some(row) = rows.next()?
    {
        let source = Source { rowid: row.get(0)?, key: row.get(1)?, stored: row.get(2)? };
        bytes += source.stored.len();
        found.push(source);
    }
    Ok(found)
}

impl Inner {
    /// Brings both indexes level; the holder of the mutex calls this outside any transaction.
    pub(super) fn index_text(&self, state: &mut State) -> Result<()> {
        loop {
            let connection = state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?;
            if !self.is_behind(connection).map_err(self.fault(ACTION))? {
                return Ok(());
            }
            match self.write_locked(state, ACTION, index_some) {
                Ok(()) => {}
                Err(error @ Error::Damaged { .. }) => {
                    // A derived index that cannot be written is made anew; what it was made from is not touched.
                    self.rebuild(state).map_err(|_| error)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_behind(&self, connection: &Connection) -> rusqlite::Result<bool> {
        for (table, ours, peer) in [
            (Table::Events, Mark::OurEvents, Mark::PeerEvents),
            (Table::Channels, Mark::OurChannels, Mark::PeerChannels),
        ] {
            let last = last_row(connection, table)?;
            if last > mark(connection, ours)? || (self.options.peer_text && last > mark(connection, peer)?) {
                return Ok(true);
            }
        }
        Ok(has_table(connection, "amber_foreign")? && ledger::has_foreign(connection)?)
    }

    /// Throws both indexes away, so that the next look makes them anew.
    pub(super) fn rebuild(&self, state: &mut State) -> Result<()> {
        self.write_locked(state, ACTION, |txn| {
            let fault = txn.fault(ACTION);
            txn.ensure(Group::Private).map_err(&fault)?;
            ours::drop_all(txn.connection).map_err(&fault)?;
            peer::drop_all(txn.connection).map_err(&fault)?;
            for mark in
                [Mark::OurEvents, Mark::OurChannels, Mark::PeerEvents, Mark::PeerChannels, Mark::PeerValues]
            {
                set_mark(txn.connection, mark, 0).map_err(&fault)?;
            }
            Ok(())
        })?;
        state.known.clear();
        Ok(())
    }
}

/// Indexes a bounded number of rows.
fn index_some(txn: &mut Txn<'_>) -> Result<()> {
    let fault = txn.fault(ACTION);
    take_in_foreign(txn)?;
    txn.ensure(Group::Text).map_err(&fault)?;
    let inner = txn.inner;
    let spoilt = |source: rusqlite::Error| translate_derived(&inner.path, ACTION, &source);
    let peer_text = inner.options.peer_text;
    let seen = if peer_text {
        txn.ensure(Group::PeerText).map_err(&fault)?;
        peer::adopt(txn)?
    } else {
        std::collections::HashSet::new()
    };
    for (table, ours, peer) in [
        (Table::Events, Mark::OurEvents, Mark::PeerEvents),
        (Table::Channels, Mark::OurChannels, Mark::PeerChannels),
    ] {
        if !has_table(txn.connection, table.name()).map_err(&fault)? {
            continue;
        }
        let our_mark = mark(txn.connection, ours).map_err(&fault)?;
        let peer_mark = if peer_text { mark(txn.connection, peer).map_err(&fault)? } else { i64::MAX };
        let mut from = our_mark.min(peer_mark);
        loop {
            let rows = rows_after(txn.connection, table, from).map_err(fault)?;
            let Some(last) = rows.last().map(|row| row.rowid) else { break };
            let new = |from: i64| rows.iter().filter(move |row| row.rowid > from);
            ours::index(txn.connection, table, new(our_mark)).map_err(spoilt)?;
            set_mark(txn.connection, ours, our_mark.max(last)).map_err(fault)?;
            if peer_text {
                let unseen = new(peer_mark).filter(|row| !seen.contains(&row.key));
                peer::index(txn.connection, table, unseen).map_err(spoilt)?;
                set_mark(txn.connection, peer, peer_mark.max(last)).map_err(fault)?;
            }
            // What the peer has indexed is known in this transaction only.
            if seen.is_empty() {
                break;
            }
            from = last;
        }
    }
    // What contradicts what the index holds is met here, where it is known for damage, and not at
    // the commit.
    txn.connection.execute_batch("INSERT INTO amber_text (amber_text) VALUES ('flush')").map_err(spoilt)?;
    if peer_text {
        txn.connection.execute_batch("INSERT INTO fts (fts) VALUES ('flush')").map_err(spoilt)?;
    }
    Ok(())
}

/// Rows that another program added or rewrote: rewritten ones make our index start anew.
fn take_in_foreign(txn: &mut Txn<'_>) -> Result<()> {
    let fault = txn.fault(ACTION);
    if !has_table(txn.connection, "amber_foreign").map_err(&fault)? {
        if has_table(txn.connection, "events").map_err(&fault)? {
            txn.ensure(Group::Log).map_err(&fault)?;
        }
        return Ok(());
    }
    if !ledger::has_foreign(txn.connection).map_err(&fault)? {
        return Ok(());
    }
    let rewritten: bool = txn
        .connection
        .query_row("SELECT EXISTS (SELECT 1 FROM amber_foreign WHERE rewritten = 1)", [], |row| row.get(0))
        .map_err(&fault)?;
    if rewritten {
        ours::drop_all(txn.connection).map_err(&fault)?;
        set_mark(txn.connection, Mark::OurEvents, 0).map_err(&fault)?;
        set_mark(txn.connection, Mark::OurChannels, 0).map_err(&fault)?;
        txn.ensure(Group::Text).map_err(&fault)?;
    }
    ledger::adopt_foreign(txn.connection).map_err(&fault)
}

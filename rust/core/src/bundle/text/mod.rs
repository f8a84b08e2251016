//! Keyword search of one session: two derived indexes, written in batches behind watermarks.
//!
//! `amber_text` answers every search of ours. `fts` is the peer's, kept level so that its searches
//! find our events. Neither is written with an append; both are brought level before a search, at a
//! flush and at close, in the transaction that moves their watermarks.

mod content;
mod find;
mod id;
mod lane;
mod memory;
mod names;
mod ours;
mod peer;
mod search;
mod vectors;
mod whole;

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};

use self::id::Origin;
pub use self::memory::{BlockHit, MemoryFilter, MemoryStats, Side};
use self::ours::Indexer;
pub(in crate::bundle) use self::peer::check as check_peer_entry;
pub use self::search::{Filter, Hit};
pub use self::vectors::{Meaning, Model};
pub(in crate::bundle) use self::vectors::{Shelves, check_graphs};
use super::handle::{Inner, State, Txn};
use super::ledger;
use crate::db::fault::translate_derived;
use crate::db::schema::{Group, has_table};
use crate::error::{Error, Result};
use crate::recall::rank::Corpus;

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
    OurGiven,
    Blocks,
    Words,
    /// How often blocks that were there before changed their place.
    Moves,
    /// Whether vectors may be older than the texts of their blocks.
    Unchecked,
    PeerEvents,
    PeerChannels,
    PeerValues,
}

impl Mark {
    const fn name(self) -> &'static str {
        match self {
            Self::OurEvents => "text:events",
            Self::OurChannels => "text:channels",
            Self::OurGiven => "text:given",
            Self::Blocks => "text:blocks",
            Self::Words => "text:words",
            Self::Moves => "text:moves",
            Self::Unchecked => "text:unchecked",
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

fn rows_after(connection: &Connection, origin: Origin, rowid: i64) -> rusqlite::Result<Vec<Source>> {
    let mut select = connection.prepare_cached(origin.after())?;
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
        for origin in Origin::ALL {
            let last = origin.last_row(connection)?;
            let peers = peers_mark(origin).filter(|_| self.options.peer_text);
            let is_level = |done: Mark| -> rusqlite::Result<bool> { Ok(last <= mark(connection, done)?) };
            if !is_level(origin.mark())? || !peers.map_or(Ok(true), is_level)? {
                return Ok(true);
            }
        }
        Ok(mark(connection, Mark::Unchecked)? != 0
            || is_of_old_shape(connection)?
            || (has_table(connection, "amber_foreign")? && ledger::has_foreign(connection)?))
    }

    /// Throws both indexes away, so that the next look makes them anew.
    pub(super) fn rebuild(&self, state: &mut State) -> Result<()> {
        self.write_locked(state, ACTION, |txn| {
            let fault = txn.fault(ACTION);
            txn.ensure(Group::Private).map_err(&fault)?;
            drop_ours(txn.connection).map_err(&fault)?;
            peer::drop_all(txn.connection).map_err(&fault)?;
            for mark in [Mark::PeerEvents, Mark::PeerChannels, Mark::PeerValues] {
                set_mark(txn.connection, mark, 0).map_err(&fault)?;
            }
            Ok(())
        })?;
        state.known.clear();
        Ok(())
    }
}

/// How far the peer's index has got with rows that it has as well.
const fn peers_mark(origin: Origin) -> Option<Mark> {
    match origin {
        Origin::Events => Some(Mark::PeerEvents),
        Origin::Channels => Some(Mark::PeerChannels),
        Origin::Given => None,
    }
}

/// Whether the file holds our index in the shape of an earlier version: it is made anew then.
fn is_of_old_shape(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(!find::has_index(connection)?
        && (has_table(connection, "amber_block")? || has_table(connection, "amber_text")?))
}

/// Removes our index; all that it was made from is indexed again.
fn drop_ours(connection: &Connection) -> rusqlite::Result<()> {
    ours::drop_all(connection)?;
    for done in [Mark::OurEvents, Mark::OurChannels, Mark::OurGiven, Mark::Blocks, Mark::Words] {
        set_mark(connection, done, 0)?;
    }
    set_mark(connection, Mark::Unchecked, 1)?;
    vectors::note_moves(connection)
}

/// Indexes a bounded number of rows.
fn index_some(txn: &mut Txn<'_>) -> Result<()> {
    let fault = txn.fault(ACTION);
    take_in_foreign(txn)?;
    if is_of_old_shape(txn.connection).map_err(&fault)? {
        txn.ensure(Group::Private).map_err(&fault)?;
        drop_ours(txn.connection).map_err(&fault)?;
    }
    txn.ensure(Group::Text).map_err(&fault)?;
    let inner = txn.inner;
    let connection = txn.connection;
    let spoilt = |source: rusqlite::Error| translate_derived(&inner.path, ACTION, &source);
    let peer_text = inner.options.peer_text;
    let seen = if peer_text {
        txn.ensure(Group::PeerText).map_err(&fault)?;
        peer::adopt(txn)?
    } else {
        HashSet::new()
    };
    let mut indexer = Indexer::new(connection, connection);
    for origin in Origin::ALL {
        if has_table(connection, origin.table()).map_err(&fault)? {
            index_table(connection, origin, &mut indexer, peer_text.then_some(&seen)).map_err(spoilt)?;
        }
    }
    indexer.finish().map_err(spoilt)?;
    if indexer.reached_back {
        vectors::note_moves(connection).map_err(&fault)?;
    }
    grow(connection, indexer.added).map_err(&fault)?;
    // What contradicts what the index holds is met here, where it is known for damage, and not at
    // the commit.
    connection.execute_batch("INSERT INTO amber_text (amber_text) VALUES ('flush')").map_err(spoilt)?;
    if peer_text {
        connection.execute_batch("INSERT INTO fts (fts) VALUES ('flush')").map_err(spoilt)?;
    }
    check_vectors(inner, connection)
}

/// Compares vectors with the texts of their blocks, where the index was made anew and holds all of them again.
fn check_vectors(inner: &Inner, connection: &Connection) -> Result<()> {
    let fault = inner.fault(ACTION);
    if mark(connection, Mark::Unchecked).map_err(&fault)? == 0 {
        return Ok(());
    }
    for origin in Origin::ALL {
        let is_level =
            origin.last_row(connection).and_then(|last| Ok(last <= mark(connection, origin.mark())?));
        if !is_level.map_err(&fault)? {
            return Ok(());
        }
    }
    inner.check_vectors(connection)
}

/// Indexes rows of one table. `seen` holds the keys that the peer has in its own index, where that is
/// to be kept level as well.
fn index_table(
    connection: &Connection,
    origin: Origin,
    indexer: &mut Indexer<'_>,
    seen: Option<&HashSet<Vec<u8>>>,
) -> rusqlite::Result<()> {
    let ours = origin.mark();
    let peers = seen.zip(peers_mark(origin)).zip(origin.shared());
    let our_mark = mark(connection, ours)?;
    let peer_mark = peers.map_or(Ok(i64::MAX), |((_, peers), _)| mark(connection, peers))?;
    let mut from = our_mark.min(peer_mark);
    loop {
        let rows = rows_after(connection, origin, from)?;
        let Some(last) = rows.last().map(|row| row.rowid) else { return Ok(()) };
        let new = |from: i64| rows.iter().filter(move |row| row.rowid > from);
        indexer.add(origin, new(our_mark))?;
        set_mark(connection, ours, our_mark.max(last))?;
        if let Some(((seen, peers), table)) = peers {
            peer::index(connection, table, new(peer_mark).filter(|row| !seen.contains(&row.key)))?;
            set_mark(connection, peers, peer_mark.max(last))?;
        }
        // What the peer has indexed is known in this transaction only.
        if seen.is_none_or(HashSet::is_empty) {
            return Ok(());
        }
        from = last;
    }
}

/// Counts what was added to our index.
fn grow(connection: &Connection, added: Corpus) -> rusqlite::Result<()> {
    if added.blocks == 0 {
        return Ok(());
    }
    for (which, more) in [(Mark::Blocks, added.blocks), (Mark::Words, added.words)] {
        let count = mark(connection, which)?.saturating_add_unsigned(more);
        set_mark(connection, which, count)?;
    }
    Ok(())
}

/// How much our index holds.
fn corpus(connection: &Connection) -> rusqlite::Result<Corpus> {
    let count = |which| mark(connection, which).map(i64::unsigned_abs);
    Ok(Corpus { blocks: count(Mark::Blocks)?, words: count(Mark::Words)? })
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
        drop_ours(txn.connection).map_err(&fault)?;
        txn.forget(Group::Text);
    }
    ledger::adopt_foreign(txn.connection).map_err(&fault)
}

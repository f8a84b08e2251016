//! Vectors of blocks, several models side by side, and what is found by them.
//!
//! A vector is kept under its model and its block's number, with a digest of the text that it was made
//! of. It is derived: what it was made from can be embedded again. It is never written with an append.

mod find;
mod kept;
mod peer;
mod shelf;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;

pub use self::find::Meaning;
pub(in crate::bundle) use self::kept::check_graphs;
use self::shelf::Shelf;
use super::id::BlockId;
use super::{Mark, mark, set_mark};
use crate::bundle::handle::{Inner, Txn};
use crate::db::schema::{Group, has_table};
use crate::error::{Error, Result};
use crate::recall::blocks::Kind;
use crate::recall::vectors::MOST_DIMENSIONS;

const ACTION: &str = "embed";

/// A model, and how long its vectors are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Model {
    /// What tells it from others.
    pub name: String,
    /// How many numbers a vector has.
    pub dimensions: usize,
}

/// The vectors that an open bundle has read, one shelf a model.
#[derive(Default)]
pub(in crate::bundle) struct Shelves {
    known: Mutex<HashMap<Model, Shelf>>,
    /// How many threads wait for them.
    waiting: AtomicUsize,
}

impl Shelves {
    fn lock(&self) -> MutexGuard<'_, HashMap<Model, Shelf>> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        known
    }

    /// Lets those go first that wait, for whoever unlocks and locks again would pass them.
    fn give_way(&self) {
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }
}

/// What the file says of a model.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: i64,
    /// How often vectors were taken away.
    cleared: i64,
    /// The row that was added last; 0 where there never was one.
    last: i64,
}

impl Model {
    fn check(&self) -> Result<()> {
        if self.dimensions == 0 || self.dimensions > MOST_DIMENSIONS {
            let limits = format!("a vector has 1 to {MOST_DIMENSIONS} numbers, not {}", self.dimensions);
            return Err(Error::invalid(limits));
        }
        Ok(())
    }

    /// What the file says of it.
    fn find(&self, connection: &Connection) -> rusqlite::Result<Option<Known>> {
        const FIND: &str = "SELECT id, cleared, last FROM amber_model WHERE name = ?1 AND dimensions = ?2";
        if !has_table(connection, Group::Vectors.witness())? {
            return Ok(None);
        }
        connection
            .prepare_cached(FIND)?
            .query_row((&self.name, size(self.dimensions)), |row| {
                Ok(Known { number: row.get(0)?, cleared: row.get(1)?, last: row.get(2)? })
            })
            .optional()
    }

    fn number(&self, connection: &Connection) -> rusqlite::Result<i64> {
        if let Some(known) = self.find(connection)? {
            return Ok(known.number);
        }
        connection
            .prepare_cached(
                "INSERT INTO amber_model (name, dimensions, cleared, last) VALUES (?1, ?2, 0, 0)",
            )?
            .execute((&self.name, size(self.dimensions)))?;
        Ok(connection.last_insert_rowid())
    }
}

fn size(dimensions: usize) -> i64 {
    i64::try_from(dimensions).unwrap_or(i64::MAX)
}

/// A short digest of a text.
fn digest(text: &str) -> i64 {
    xxh3_64(text.as_bytes()).cast_signed()
}

impl Inner {
    /// Blocks that have no vector of a model, with their texts, in the order of their rows.
    pub(in crate::bundle) fn pending_blocks(
        &self,
        model: &Model,
        limit: usize,
    ) -> Result<Vec<(i64, String)>> {
        model.check()?;
        self.check_process(ACTION)?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: ACTION });
        }
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        self.index_text(&mut state)?;
        let connection = state.connection.as_ref().ok_or_else(|| self.closed(ACTION))?;
        if !super::find::has_index(connection).map_err(self.fault(ACTION))? {
            return Ok(Vec::new());
        }
        let mut known = self.shelves.lock();
        let held = known.entry(model.clone()).or_default();
        let ids = held.missing(connection, model, limit).map_err(self.fault(ACTION))?;
        let mut pending = Vec::with_capacity(ids.len());
        for id in ids {
            let text = self.block_text(connection, id)?.ok_or_else(|| self.lost_row())?;
            held.offered.insert(id.number(), digest(&text));
            pending.push((id.number(), text));
        }
        Ok(pending)
    }

    /// How many blocks have no vector of a model.
    pub(in crate::bundle) fn count_pending(&self, model: &Model) -> Result<u64> {
        const BLOCKS: &str = "SELECT count(*) FROM amber_block WHERE kind <> ?1";
        const HELD: &str = "SELECT count(*) FROM amber_vector WHERE model = ?1";
        model.check()?;
        self.on_index(|rows, indexes| {
            let count = || -> rusqlite::Result<i64> {
                let mut blocks: i64 = 0;
                for index in indexes {
                    let some: i64 = index
                        .connection
                        .prepare_cached(BLOCKS)?
                        .query_row([Kind::Other as i64], |row| row.get(0))?;
                    blocks += some;
                }
                let Some(known) = model.find(rows)? else { return Ok(blocks) };
                let held: i64 = rows.prepare_cached(HELD)?.query_row([known.number], |row| row.get(0))?;
                Ok(blocks - held)
            };
            count().map(|count| count.max(0).unsigned_abs()).map_err(self.fault(ACTION))
        })
    }

    /// The models that there are vectors of, with their sizes; those that the peer made have no name.
    pub(in crate::bundle) fn vector_models(&self) -> Result<Vec<(String, usize)>> {
        const OWN: &str = "\
SELECT name, dimensions FROM amber_model AS m
WHERE EXISTS (SELECT 1 FROM amber_vector WHERE model = m.id) ORDER BY id";
        self.read(ACTION, |connection| {
            let models = || -> rusqlite::Result<Vec<(String, usize)>> {
                let mut models = Vec::new();
                if has_table(connection, Group::Vectors.witness())? {
                    let mut select = connection.prepare_cached(OWN)?;
                    let found = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, u32>(1)?)))?;
                    for row in found {
                        let (name, dimensions): (String, u32) = row?;
                        models.push((name, usize::try_from(dimensions).unwrap_or(usize::MAX)));
                    }
                }
                models.extend(peer::sizes(connection)?.into_iter().map(|size| (String::new(), size)));
                Ok(models)
            };
            models().map_err(self.fault(ACTION))
        })
    }

    /// Keeps the vectors of blocks, row after row, in one transaction. What is no block any more, or
    /// has another text than it was asked for with, is left out; returns how many were kept.
    pub(in crate::bundle) fn put_vectors(&self, model: &Model, ids: &[i64], rows: &[f32]) -> Result<usize> {
        model.check()?;
        if rows.len() != ids.len() * model.dimensions {
            return Err(Error::invalid(format!(
                "{} numbers are not {} vectors of {}",
                rows.len(),
                ids.len(),
                model.dimensions
            )));
        }
        if let Some(at) = rows.iter().position(|number| !number.is_finite()) {
            let row = at / model.dimensions;
            return Err(Error::invalid(format!("the vector of text {row} holds NaN or an infinity")));
        }
        let offered: Vec<Option<i64>> = {
            let mut known = self.shelves.lock();
            let held = known.entry(model.clone()).or_default();
            ids.iter().map(|id| held.offered.remove(id)).collect()
        };
        self.write(ACTION, |txn| self.keep(txn, model, (ids, &offered), rows))
    }

    fn keep(
        &self,
        txn: &mut Txn<'_>,
        model: &Model,
        (ids, offered): (&[i64], &[Option<i64>]),
        rows: &[f32],
    ) -> Result<usize> {
        const KEEP: &str = "\
INSERT OR REPLACE INTO amber_vector (model, block, digest, numbers) VALUES (?1, ?2, ?3, ?4)";
        const LAST: &str = "UPDATE amber_model SET last = ?2 WHERE id = ?1";
        let fault = txn.fault(ACTION);
        txn.ensure(Group::Text).map_err(&fault)?;
        txn.ensure(Group::Vectors).map_err(&fault)?;
        let number = model.number(txn.connection).map_err(&fault)?;
        let (mut kept, mut last) = (0, 0);
        for ((id, offered), row) in ids.iter().zip(offered).zip(rows.chunks_exact(model.dimensions)) {
            let digest = match (offered, BlockId::of(*id)) {
                (Some(digest), Some(_)) if is_block(txn.connection, *id).map_err(&fault)? => *digest,
                (None, Some(block)) => match self.block_text(txn.connection, block)? {
                    Some(text) if is_block(txn.connection, *id).map_err(&fault)? => digest(&text),
                    _ => continue,
                },
                _ => continue,
            };
            let is_blank = row.iter().all(|number| *number == 0.0);
            let numbers = if is_blank { Vec::new() } else { bytes_of(row) };
            txn.connection
                .prepare_cached(KEEP)
                .and_then(|mut keep| keep.execute(params![number, id, digest, numbers]))
                .map_err(&fault)?;
            (kept, last) = (kept + 1, txn.connection.last_insert_rowid());
        }
        if kept > 0 {
            txn.connection
                .prepare_cached(LAST)
                .and_then(|mut note| note.execute((number, last)))
                .map_err(&fault)?;
        }
        Ok(kept)
    }

    /// Whether there are vectors of a model, its own or the peer's of that size.
    pub(in crate::bundle) fn has_vectors(&self, model: &Model) -> Result<bool> {
        const ANY: &str = "SELECT EXISTS (SELECT 1 FROM amber_vector WHERE model = ?1)";
        self.read(ACTION, |connection| {
            let any = || -> rusqlite::Result<bool> {
                if let Some(known) = model.find(connection)?
                    && connection.prepare_cached(ANY)?.query_row([known.number], |row| row.get(0))?
                {
                    return Ok(true);
                }
                peer::any(connection, model.dimensions)
            };
            any().map_err(self.fault(ACTION))
        })
    }

    /// How many live blocks a memory search finds by meaning.
    pub(in crate::bundle) fn count_vectors(&self, model: &Model) -> Result<u64> {
        if model.dimensions == 0 {
            return Ok(0);
        }
        model.check()?;
        self.on_index(|rows, indexes| {
            let mut known = self.shelves.lock();
            let held = known.entry(model.clone()).or_default();
            held.level(self, rows, indexes, model)?;
            Ok(held.live_count())
        })
    }

    /// The text of a block; `None` where its row is gone.
    fn block_text(&self, rows: &Connection, id: BlockId) -> Result<Option<String>> {
        let fault = self.fault(ACTION);
        if !has_table(rows, id.origin.table()).map_err(&fault)? {
            return Ok(None);
        }
        let found: Option<(Vec<u8>, Vec<u8>)> = rows
            .prepare_cached(id.origin.row())
            .and_then(|mut select| {
                select.query_row([id.row], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(&fault)?;
        match found {
            Some((key, stored)) => self.text_of(id, &key, &stored).map(Some),
            None => Ok(None),
        }
    }

    /// Takes away vectors whose block is gone or says something else now.
    pub(super) fn check_vectors(&self, connection: &Connection) -> Result<()> {
        let fault = self.fault(ACTION);
        if has_table(connection, Group::Vectors.witness()).map_err(&fault)? {
            let known: Vec<(i64, i64, i64)> = connection
                .prepare_cached("SELECT block, min(digest), max(digest) FROM amber_vector GROUP BY block")
                .and_then(|mut select| {
                    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
                })
                .map_err(&fault)?;
            for (block, least, most) in known {
                let text = match BlockId::of(block) {
                    Some(id) if is_block(connection, block).map_err(&fault)? => {
                        self.block_text(connection, id)?
                    }
                    _ => None,
                };
                let now = text.map(|text| digest(&text));
                if now != Some(least) || now != Some(most) {
                    drop_vectors(connection, (block, block), now).map_err(&fault)?;
                }
            }
        }
        set_mark(connection, Mark::Unchecked, 0).map_err(&fault)
    }
}

/// Notes that blocks changed their place: what is remembered of them is read again.
pub(super) fn note_moves(connection: &Connection) -> rusqlite::Result<()> {
    let moves = mark(connection, Mark::Moves)?.wrapping_add(1);
    set_mark(connection, Mark::Moves, moves)
}

/// Takes away the vectors of blocks between two numbers, but those made of a text with that digest.
pub(super) fn drop_vectors(
    connection: &Connection,
    (first, last): (i64, i64),
    kept: Option<i64>,
) -> rusqlite::Result<()> {
    const DROP: &str =
        "DELETE FROM amber_vector WHERE model = ?1 AND block BETWEEN ?2 AND ?3 AND digest IS NOT ?4";
    const NOTE: &str = "UPDATE amber_model SET cleared = cleared + 1 WHERE id = ?1";
    if !has_table(connection, Group::Vectors.witness())? {
        return Ok(());
    }
    let models: Vec<i64> = connection
        .prepare_cached("SELECT id FROM amber_model")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for model in models {
        if connection.prepare_cached(DROP)?.execute((model, first, last, kept))? > 0 {
            connection.prepare_cached(NOTE)?.execute([model])?;
        }
    }
    Ok(())
}

fn is_block(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM amber_block WHERE id = ?1 AND kind <> ?2)")?
        .query_row((id, Kind::Other as i64), |row| row.get(0))
}

fn bytes_of(row: &[f32]) -> Vec<u8> {
    row.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn floats_of(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

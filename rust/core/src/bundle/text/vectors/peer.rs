//! Vectors that the peer made, read from the tables beneath its virtual one, which needs an extension.
//!
//! `_rowids` says in which chunk and slot a vector stands, `_vector_chunks00` holds the numbers of a
//! chunk, `_metadatachunks00` the entries' numbers in `_values`. The peer names no model.

use rusqlite::{Connection, OptionalExtension};

use super::super::id::BlockId;
use super::{ACTION, floats_of};
use crate::bundle::handle::Inner;
use crate::codec::{self, Stored, msgpack};
use crate::db::schema::has_table;
use crate::error::Result;

fn table(dimensions: usize, part: &str) -> String {
    format!("memory_vec_{dimensions}d_{part}")
}

fn has(connection: &Connection, dimensions: usize) -> rusqlite::Result<bool> {
    for part in ["rowids", "values", "chunks", "vector_chunks00", "metadatachunks00"] {
        if !has_table(connection, &table(dimensions, part))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The last of the peer's vectors of a size; 0 where there is none.
pub(super) fn last(connection: &Connection, dimensions: usize) -> rusqlite::Result<i64> {
    if !has(connection, dimensions)? {
        return Ok(0);
    }
    let last = format!("SELECT coalesce(max(rowid), 0) FROM {}", table(dimensions, "rowids"));
    connection.prepare_cached(&last)?.query_row([], |row| row.get(0))
}

/// The sizes of which the peer has vectors.
pub(super) fn sizes(connection: &Connection) -> rusqlite::Result<Vec<usize>> {
    const TABLES: &str = "SELECT name FROM sqlite_master WHERE name GLOB 'memory_vec_*d_rowids'";
    let names: Vec<String> = connection
        .prepare_cached(TABLES)?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut sizes = Vec::new();
    for name in names {
        let size = name.strip_prefix("memory_vec_").and_then(|rest| rest.strip_suffix("d_rowids"));
        if let Some(size) = size.and_then(|size| size.parse().ok())
            && any(connection, size)?
        {
            sizes.push(size);
        }
    }
    sizes.sort_unstable();
    Ok(sizes)
}

/// Whether the peer has vectors of a size.
pub(super) fn any(connection: &Connection, dimensions: usize) -> rusqlite::Result<bool> {
    Ok(last(connection, dimensions)? > 0)
}

/// The vectors of blocks that still say what they said when the peer embedded them.
pub(super) fn read(inner: &Inner, rows: &Connection, dimensions: usize) -> Result<(Vec<i64>, Vec<f32>)> {
    let fault = inner.fault(ACTION);
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    let chunks: Vec<i64> = rows
        .prepare_cached(&format!("SELECT chunk_id FROM {} ORDER BY chunk_id", table(dimensions, "chunks")))
        .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
        .map_err(&fault)?;
    for number in chunks {
        let Some(chunk) = Chunk::read(rows, dimensions, number).map_err(&fault)? else { continue };
        for slot in chunk.slots(rows, dimensions).map_err(&fault)? {
            let Some((vector, entry)) = chunk.at(slot, dimensions) else { continue };
            let Some(entry) = entry_of(rows, dimensions, entry).map_err(&fault)? else { continue };
            if let Some(id) = block_of(inner, rows, &entry)?
                && vector.iter().all(|number| number.is_finite())
            {
                ids.push(id.number());
                numbers.extend(vector);
            }
        }
    }
    Ok((ids, numbers))
}

/// As many vectors as the peer keeps in one row.
struct Chunk {
    number: i64,
    /// One bit a slot, the lowest first.
    valid: Vec<u8>,
    vectors: Vec<u8>,
    entries: Vec<u8>,
}

impl Chunk {
    fn read(rows: &Connection, dimensions: usize, number: i64) -> rusqlite::Result<Option<Self>> {
        let select = format!(
            "SELECT c.validity, v.vectors, m.data FROM {} AS c JOIN {} AS v ON v.rowid = c.chunk_id \
             JOIN {} AS m ON m.rowid = c.chunk_id WHERE c.chunk_id = ?1",
            table(dimensions, "chunks"),
            table(dimensions, "vector_chunks00"),
            table(dimensions, "metadatachunks00"),
        );
        rows.prepare_cached(&select)?
            .query_row([number], |row| {
                Ok(Self { number, valid: row.get(0)?, vectors: row.get(1)?, entries: row.get(2)? })
            })
            .optional()
    }

    /// The slots in use, in the order in which they were given.
    fn slots(&self, rows: &Connection, dimensions: usize) -> rusqlite::Result<Vec<usize>> {
        let select = format!(
            "SELECT chunk_offset FROM {} WHERE chunk_id = ?1 ORDER BY rowid",
            table(dimensions, "rowids")
        );
        let slots: Vec<i64> = rows
            .prepare_cached(&select)?
            .query_map([self.number], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let slots = slots.into_iter().filter_map(|slot| usize::try_from(slot).ok());
        Ok(slots
            .filter(|slot| self.valid.get(slot / 8).is_some_and(|bits| bits >> (slot % 8) & 1 == 1))
            .collect())
    }

    /// The vector in a slot and the number of its entry.
    fn at(&self, slot: usize, dimensions: usize) -> Option<(Vec<f32>, i64)> {
        let length = dimensions * size_of::<f32>();
        let vector = self.vectors.get(slot * length..(slot + 1) * length)?;
        let entry = self.entries.get(slot * 8..slot * 8 + 8)?.try_into().ok()?;
        Some((floats_of(vector).collect(), i64::from_le_bytes(entry)))
    }
}

/// What the peer notes of a block: its name and its text.
struct Entry {
    block: String,
    content: String,
}

fn entry_of(rows: &Connection, dimensions: usize, number: i64) -> rusqlite::Result<Option<Entry>> {
    let name = table(dimensions, "values");
    let stored: Option<Vec<u8>> = rows
        .prepare_cached(&format!("SELECT value FROM {name} WHERE id = ?1"))?
        .query_row([number], |row| row.get(0))
        .optional()?;
    let Some(stored) = stored else { return Ok(None) };
    let Ok(Stored::Object(body)) = codec::open(&name, b"", &stored) else { return Ok(None) };
    let text = |field| msgpack::field(&body, field).and_then(msgpack::as_str).map(str::to_owned);
    Ok(text("block_id").zip(text("content")).map(|(block, content)| Entry { block, content }))
}

fn block_of(inner: &Inner, rows: &Connection, entry: &Entry) -> Result<Option<BlockId>> {
    let Some((origin, key, part)) = BlockId::parse_name(&entry.block) else { return Ok(None) };
    let fault = inner.fault(ACTION);
    if !has_table(rows, origin.table()).map_err(&fault)? {
        return Ok(None);
    }
    let row: Option<i64> = rows
        .prepare_cached(origin.find())
        .and_then(|mut select| select.query_row([&key], |row| row.get(0)).optional())
        .map_err(&fault)?;
    let Some(row) = row else { return Ok(None) };
    let id = BlockId { origin, row, part };
    match inner.block_text(rows, id) {
        Ok(Some(text)) if text == entry.content => Ok(Some(id)),
        // A row that has no such piece any more is reported where it is read.
        Ok(_) | Err(crate::error::Error::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

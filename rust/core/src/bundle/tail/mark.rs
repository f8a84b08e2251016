//! How far the tail is taken in: one private row, written in the transaction that takes it in.

use std::hash::{BuildHasher, Hasher, RandomState};

use rusqlite::{Connection, OptionalExtension};
use xxhash_rust::xxh3::xxh3_64;

use crate::db::schema::has_table;

const NAME: &str = "tail";
/// How many events got another number than they were acknowledged with.
const RENUMBERED: &str = "tail:renumbered";
const BYTES: usize = 40;
const CHECKED: usize = 32;

/// The first record of an epoch stands here, behind the head of the file.
pub const START: u64 = 64;

/// Where the tail stands: every record up to number `seq` of `epoch` is in the file, the next one of that
/// epoch begins at `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Drawn when the bundle first got a tail; no other bundle has it.
    pub bundle: u64,
    /// The life of the tail.
    pub epoch: u64,
    /// The last record of it that is in the file; 0 for none.
    pub seq: u64,
    /// Where the next one begins.
    pub offset: u64,
}

impl Mark {
    /// The mark of a bundle that has no tail yet.
    pub fn first() -> Self {
        Self { bundle: RandomState::new().build_hasher().finish(), epoch: 1, seq: 0, offset: START }
    }

    /// The beginning of the next life, in which the file is written from its start again.
    pub fn recycled(self) -> Self {
        Self { epoch: self.epoch + 1, seq: 0, offset: START, ..self }
    }

    /// The mark behind one more record.
    pub fn behind(self, length: usize) -> Self {
        Self { seq: self.seq + 1, offset: self.offset + length as u64, ..self }
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        for number in [self.bundle, self.epoch, self.seq, self.offset] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (checked, check) = bytes.split_at(CHECKED);
        if check != xxh3_64(checked).to_le_bytes() {
            return None;
        }
        let number =
            |at: usize| checked.get(at..at + 8).and_then(|part| part.try_into().ok()).map(u64::from_le_bytes);
        Some(Self { bundle: number(0)?, epoch: number(8)?, seq: number(16)?, offset: number(24)? })
    }

    /// The mark that the file holds; `None` when it has none that can be believed.
    pub fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        if !has_table(connection, "amber_meta")? {
            return Ok(None);
        }
        let row: Option<Vec<u8>> = connection
            .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")?
            .query_row([NAME], |row| row.get(0))
            .optional()?;
        Ok(row.and_then(|row| Self::of_bytes(&row)))
    }

    /// Stores the mark.
    pub fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")?
            .execute((NAME, self.to_bytes()))?;
        Ok(())
    }
}

/// How many events of tails got another number than they were acknowledged with.
pub fn renumbered(connection: &Connection) -> rusqlite::Result<u64> {
    if !has_table(connection, "amber_meta")? {
        return Ok(0);
    }
    let count: Option<i64> = connection
        .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")?
        .query_row([RENUMBERED], |row| row.get(0))
        .optional()?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// Counts such events.
pub fn note_renumbered(connection: &Connection, count: u32) -> rusqlite::Result<()> {
    const ADD: &str = "INSERT INTO amber_meta (name, value) VALUES (?1, ?2) \
        ON CONFLICT DO UPDATE SET value = value + excluded.value";
    connection.prepare_cached(ADD)?.execute((RENUMBERED, count))?;
    Ok(())
}

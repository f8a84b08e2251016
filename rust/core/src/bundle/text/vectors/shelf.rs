//! The vectors of one model as an open bundle holds them in memory, kept level with the file.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::find::Index;
use super::super::id::{BlockId, Origin};
use super::super::{Mark, mark};
use super::{ACTION, Known, Model, digest, floats_of, peer};
use crate::bundle::handle::Inner;
use crate::error::{Error, Result};
use crate::recall::blocks::Kind;
use crate::recall::vectors::Vectors;

const TRAITS: &str = "id, owner, kind, live, tool, turn, ts";
/// As many vectors are read before they are added.
const BATCH: usize = 4096;

/// What a filter asks of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    pub(super) owner: i64,
    /// `u32::MAX` for what is no block of the index.
    pub(super) kind: u32,
    pub(super) is_live: bool,
    pub(super) tool: Option<i64>,
    pub(super) turn: Option<i64>,
    pub(super) ts: f64,
}

impl Traits {
    const UNKNOWN: Self = Self { owner: 0, kind: u32::MAX, is_live: false, tool: None, turn: None, ts: 0.0 };

    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            owner: row.get(1)?,
            kind: row.get(2)?,
            is_live: row.get(3)?,
            tool: row.get(4)?,
            turn: row.get(5)?,
            ts: row.get(6)?,
        })
    }
}

/// Where vectors on a shelf come from, and how far they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Nothing,
    /// Of the model itself: its number, how often vectors were taken away, the last row.
    Own(i64, i64, i64),
    /// The peer's, up to a row.
    Peers(i64),
}

/// The vectors of one model.
pub(in crate::bundle) struct Shelf {
    pub(super) vectors: Option<Vectors>,
    /// One for each slot.
    pub(super) traits: Vec<Traits>,
    /// The digests of texts that were handed out to be embedded.
    pub(super) offered: HashMap<i64, i64>,
    /// Whether the file was asked for the graph of the vectors.
    pub(super) is_fetched: bool,
    /// How many vectors the graph links that the file holds; 0 where it has none that fits.
    pub(super) kept: usize,
    read: Read,
    /// The count of moves that the traits belong to; `None` where they must be read again.
    moves: Option<i64>,
    /// For each origin the first row that may have blocks without a vector, and what that was found at.
    cursors: [i64; Origin::ALL.len()],
    cursors_at: Option<(i64, i64)>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            vectors: None,
            traits: Vec::new(),
            offered: HashMap::new(),
            is_fetched: false,
            kept: 0,
            read: Read::Nothing,
            moves: None,
            cursors: [0; Origin::ALL.len()],
            cursors_at: None,
        }
    }
}

impl Shelf {
    /// Reads what the file holds and the shelf does not.
    pub(super) fn level(
        &mut self,
        inner: &Inner,
        rows: &Connection,
        indexes: &[Index<'_>],
        model: &Model,
    ) -> Result<()> {
        let fault = inner.fault(ACTION);
        let own = model.find(rows).map_err(&fault)?;
        let has_own = match own {
            Some(known) => self.read_own(inner, rows, model, known)?,
            None => false,
        };
        if !has_own {
            self.read_peers(inner, rows, model)?;
        }
        // Indexes in memory come and go with each search.
        let is_on_disk = matches!(indexes, [index] if std::ptr::eq(index.connection, rows));
        let moves = mark(rows, Mark::Moves).map_err(&fault)?;
        if !is_on_disk || self.moves != Some(moves) {
            self.traits.clear();
            self.read_all_traits(indexes).map_err(&fault)?;
            self.moves = is_on_disk.then_some(moves);
        } else {
            self.read_new_traits(indexes).map_err(&fault)?;
        }
        if matches!(indexes, [index] if !std::ptr::eq(index.connection, rows)) {
            self.check(inner, rows)?;
        }
        Ok(())
    }

    /// Reads vectors of the model itself; whether there are any.
    fn read_own(&mut self, inner: &Inner, rows: &Connection, model: &Model, known: Known) -> Result<bool> {
        const AFTER: &str =
            "SELECT id, block, numbers FROM amber_vector WHERE +model = ?1 AND id > ?2 ORDER BY id";
        let fault = inner.fault(ACTION);
        let Known { number, cleared, last: newest } = known;
        let from = match self.read {
            Read::Own(read, at, from) if (read, at) == (number, cleared) && self.vectors.is_some() => from,
            _ => 0,
        };
        if newest == 0 {
            return Ok(false);
        }
        if from == newest {
            return Ok(true);
        }
        // Where vectors were taken away, the graph serves those that are left.
        let graph = match &self.vectors {
            Some(vectors) if from == 0 && self.own_number() == Some(number) => vectors.graph_bytes(),
            _ => None,
        };
        let mut vectors = if let Some(vectors) = self.vectors.take().filter(|_| from > 0) {
            vectors
        } else {
            self.forget();
            Vectors::new(model.dimensions)?
        };
        let mut select = rows.prepare_cached(AFTER).map_err(&fault)?;
        let mut found = select.query((number, from)).map_err(&fault)?;
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        while let Some(row) = found.next().map_err(&fault)? {
            let number: i64 = row.get(0).map_err(&fault)?;
            let block: i64 = row.get(1).map_err(&fault)?;
            let bytes = row.get_ref(2).and_then(|cell| Ok(cell.as_blob()?)).map_err(&fault)?;
            if bytes.is_empty() {
                vectors.remove(block);
                continue;
            }
            if bytes.len() != model.dimensions * size_of::<f32>() {
                let at = format!("amber_vector[{number}]");
                return Err(Error::damaged(&inner.path, &at, format!("a vector of {} bytes", bytes.len())));
            }
            ids.push(block);
            numbers.extend(floats_of(bytes));
            if ids.len() == BATCH {
                vectors.add(&ids, &numbers)?;
                ids.clear();
                numbers.clear();
            }
        }
        vectors.add(&ids, &numbers)?;
        if let Some(graph) = graph {
            vectors.load_graph(&graph);
        }
        self.vectors = Some(vectors);
        self.read = Read::Own(number, cleared, newest);
        Ok(true)
    }

    fn read_peers(&mut self, inner: &Inner, rows: &Connection, model: &Model) -> Result<()> {
        let fault = inner.fault(ACTION);
        let last = peer::last(rows, model.dimensions).map_err(&fault)?;
        if self.read == Read::Peers(last) && self.vectors.is_some() {
            return Ok(());
        }
        self.forget();
        let mut vectors = Vectors::new(model.dimensions)?;
        if last > 0 {
            let (ids, numbers) = peer::read(inner, rows, model.dimensions)?;
            vectors.add(&ids, &numbers)?;
        }
        self.vectors = Some(vectors);
        self.read = Read::Peers(last);
        Ok(())
    }

    fn forget(&mut self) {
        self.traits.clear();
        self.moves = None;
        self.is_fetched = false;
        self.kept = 0;
    }

    /// The number of the model whose own vectors these are.
    pub(super) fn own_number(&self) -> Option<i64> {
        match self.read {
            Read::Own(number, ..) => Some(number),
            _ => None,
        }
    }

    fn read_all_traits(&mut self, indexes: &[Index<'_>]) -> rusqlite::Result<()> {
        let Some(vectors) = &self.vectors else { return Ok(()) };
        self.traits.resize(vectors.ids().len(), Traits::UNKNOWN);
        for index in indexes {
            let mut select = index.connection.prepare_cached(&format!("SELECT {TRAITS} FROM amber_block"))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(slot) = vectors.slot(row.get(0)?) {
                    self.traits[slot] = Traits::of(row)?;
                }
            }
        }
        Ok(())
    }

    fn read_new_traits(&mut self, indexes: &[Index<'_>]) -> rusqlite::Result<()> {
        let Some(vectors) = &self.vectors else { return Ok(()) };
        for id in &vectors.ids()[self.traits.len()..] {
            let mut found = None;
            for index in indexes {
                let mut select = index
                    .connection
                    .prepare_cached(&format!("SELECT {TRAITS} FROM amber_block WHERE id = ?1"))?;
                found = found.or(select.query_row([id], Traits::of).optional()?);
            }
            self.traits.push(found.unwrap_or(Traits::UNKNOWN));
        }
        Ok(())
    }

    /// Leaves out vectors of texts that rows, rewritten since they were indexed, do not hold any more.
    fn check(&mut self, inner: &Inner, rows: &Connection) -> Result<()> {
        let (Some(vectors), Read::Own(model, _, _)) = (&self.vectors, self.read) else { return Ok(()) };
        let fault = inner.fault(ACTION);
        let known: Vec<(i64, i64)> = rows
            .prepare_cached("SELECT block, digest FROM amber_vector WHERE model = ?1")
            .and_then(|mut select| select.query_map([model], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(&fault)?;
        for (block, made_of) in known {
            let (Some(slot), Some(id)) = (vectors.slot(block), BlockId::of(block)) else { continue };
            let text = match self.traits[slot].kind {
                u32::MAX => None,
                _ => inner.block_text(rows, id)?,
            };
            if text.is_none_or(|text| digest(&text) != made_of) {
                self.traits[slot] = Traits::UNKNOWN;
            }
        }
        Ok(())
    }

    /// How many live blocks of the kinds that a memory search finds have a vector.
    pub(super) fn live_count(&self) -> u64 {
        let Some(vectors) = &self.vectors else { return 0 };
        let is_told =
            |traits: &Traits| traits.is_live && traits.kind != Kind::Other as u32 && traits.kind != u32::MAX;
        let slots = vectors.ids().iter().enumerate().filter(|(slot, id)| vectors.slot(**id) == Some(*slot));
        slots.filter(|(slot, _)| is_told(&self.traits[*slot])).count() as u64
    }

    /// Blocks that have no vector, at most so many, in the order of their rows.
    pub(super) fn missing(
        &mut self,
        connection: &Connection,
        model: &Model,
        limit: usize,
    ) -> rusqlite::Result<Vec<BlockId>> {
        const WITHOUT: &str = "\
SELECT id FROM amber_block AS b WHERE id BETWEEN ?1 AND ?2 AND kind <> ?3
AND NOT EXISTS (SELECT 1 FROM amber_vector WHERE model = ?4 AND block = b.id) ORDER BY id LIMIT ?5";
        const ALL: &str = "\
SELECT id FROM amber_block WHERE id BETWEEN ?1 AND ?2 AND kind <> ?3 AND ?4 IS NULL ORDER BY id LIMIT ?5";
        let own = model.find(connection)?;
        let at = (own.map_or(-1, |known| known.cleared), mark(connection, Mark::Moves)?);
        if self.cursors_at.replace(at) != Some(at) {
            self.cursors = [0; Origin::ALL.len()];
        }
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut missing = Vec::new();
        for (origin, cursor) in Origin::ALL.into_iter().zip(&mut self.cursors) {
            let mut ids = Vec::new();
            for (first, last) in BlockId::spans_from(origin, *cursor) {
                let mut select = connection.prepare_cached(if own.is_some() { WITHOUT } else { ALL })?;
                let number = own.map(|known| known.number);
                let mut rows = select.query((first, last, Kind::Other as i64, number, most))?;
                while let Some(row) = rows.next()? {
                    ids.extend(BlockId::of(row.get(0)?));
                }
            }
            ids.sort_unstable_by_key(|id| (id.row, id.part));
            *cursor = match ids.first() {
                Some(id) => id.row,
                None => mark(connection, origin.mark())?.saturating_add(1),
            };
            missing.extend(ids);
        }
        missing.truncate(limit);
        Ok(missing)
    }
}

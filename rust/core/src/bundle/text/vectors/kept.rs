//! The graph of a model's vectors: made where a search goes by it, and kept in the file beside them.
//!
//! It is derived of the vectors. What does not fit them, or is damaged, is made anew.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::shelf::Shelf;
use super::{ACTION, Model};
use crate::bundle::handle::Inner;
use crate::db::schema::{Group, has_table};
use crate::error::{Error, Result};
use crate::recall::vectors::{Engine, Vectors, is_graph};

/// So many vectors are linked before other searches get a turn.
const STEP: usize = 1000;
/// A graph is kept again once one of so many of its vectors is new; fewer are linked again after opening.
const NEW_OF: usize = 16;
/// A graph lies in rows of so many bytes.
const PART: usize = 4 << 20;

/// A graph that is to be written.
struct Fresh {
    number: i64,
    count: usize,
    bytes: Vec<u8>,
}

impl Inner {
    /// Makes the graph that a search by `engine` would go by, links what is new to it, and keeps it in the
    /// file if that may be written. Appends go on meanwhile.
    pub(in crate::bundle) fn link_vectors(&self, model: &Model, engine: Engine) -> Result<()> {
        if engine == Engine::Scan || model.dimensions == 0 {
            return Ok(());
        }
        self.link_in_memory(model, engine)?;
        self.keep_graph(model)
    }

    /// The same before a search, which is answered whether the graph can be kept or not.
    pub(super) fn link_for_search(&self, model: &Model, engine: Engine) -> Result<()> {
        self.link_in_memory(model, engine)?;
        match self.keep_graph(model) {
            Err(Error::Io { .. } | Error::Busy { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    fn link_in_memory(&self, model: &Model, engine: Engine) -> Result<()> {
        model.check()?;
        self.on_index(|rows, indexes| {
            let mut known = self.shelves.lock();
            let held = known.entry(model.clone()).or_default();
            held.level(self, rows, indexes, model)?;
            held.fetch_graph(rows, engine).map_err(self.fault(ACTION))
        })?;
        while self.shelves.lock().get_mut(model).is_some_and(|shelf| shelf.link_some(engine)) {
            self.shelves.give_way();
        }
        Ok(())
    }

    fn keep_graph(&self, model: &Model) -> Result<()> {
        const TAKE: &str = "DELETE FROM amber_graph WHERE model = ?1";
        const KEEP: &str = "INSERT INTO amber_graph (model, part, body) VALUES (?1, ?2, ?3)";
        if self.source.is_some() {
            return Ok(());
        }
        let fresh = self.shelves.lock().get(model).and_then(Shelf::fresh_graph);
        let Some(Fresh { number, count, bytes }) = fresh else { return Ok(()) };
        self.write(ACTION, |txn| {
            let fault = txn.fault(ACTION);
            txn.ensure(Group::Graph).map_err(fault)?;
            let write = || -> rusqlite::Result<()> {
                txn.connection.prepare_cached(TAKE)?.execute([number])?;
                let mut keep = txn.connection.prepare_cached(KEEP)?;
                for (part, body) in (0_i64..).zip(bytes.chunks(PART)) {
                    keep.execute(params![number, part, body])?;
                }
                Ok(())
            };
            write().map_err(fault)
        })?;
        if let Some(shelf) = self.shelves.lock().get_mut(model) {
            shelf.kept = count;
        }
        Ok(())
    }
}

impl Shelf {
    /// Takes the graph that the file holds, where a search would go by it and there is none in memory.
    pub(super) fn fetch_graph(&mut self, rows: &Connection, engine: Engine) -> rusqlite::Result<()> {
        let number = self.own_number();
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        let Some(number) = number.filter(|_| !self.is_fetched && engine.wants_graph(vectors.len())) else {
            return Ok(());
        };
        self.is_fetched = true;
        if vectors.linked().is_none()
            && let Some(bytes) = kept_bytes(rows, number)?
            && vectors.load_graph(&bytes)
        {
            self.kept = vectors.linked().unwrap_or_default();
        }
        Ok(())
    }

    /// Whether vectors are not linked that an engine would want to be.
    pub(super) fn lacks_links(&self, engine: Engine) -> bool {
        let count = |vectors: &Vectors| (vectors.linked().unwrap_or_default(), vectors.ids().len());
        engine == Engine::Hnsw && self.vectors.as_ref().map(count).is_some_and(|(linked, all)| linked < all)
    }

    /// Links some of the vectors that are not linked; whether there are more.
    fn link_some(&mut self, engine: Engine) -> bool {
        let Some(vectors) = &mut self.vectors else { return false };
        // A graph comes into being only where it is asked for.
        let is_wanted = engine == Engine::Hnsw || vectors.linked().is_some();
        is_wanted && vectors.linked() != Some(vectors.ids().len()) && vectors.link_some(STEP)
    }

    /// The graph where it differs enough from the one that is kept.
    fn fresh_graph(&self) -> Option<Fresh> {
        let number = self.own_number()?;
        let vectors = self.vectors.as_ref()?;
        let count = vectors.linked().filter(|count| *count > 0)?;
        let is_fresh = count.saturating_sub(self.kept).saturating_mul(NEW_OF) >= count;
        let bytes = if is_fresh { vectors.graph_bytes() } else { None };
        bytes.map(|bytes| Fresh { number, count, bytes })
    }
}

/// The bytes of a kept graph; `None` where they are no bytes.
fn kept_bytes(connection: &Connection, model: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    const PARTS: &str = "SELECT body FROM amber_graph WHERE model = ?1 ORDER BY part";
    if !has_table(connection, Group::Graph.witness())? {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(PARTS)?;
    let mut parts = select.query([model])?;
    let mut bytes = Vec::new();
    while let Some(part) = parts.next()? {
        let ValueRef::Blob(body) = part.get_ref(0)? else { return Ok(None) };
        bytes.extend_from_slice(body);
    }
    Ok(Some(bytes))
}

/// How many graphs are kept, and the models of those that are damaged.
pub(in crate::bundle) fn check_graphs(connection: &Connection) -> rusqlite::Result<(u64, Vec<i64>)> {
    let models: Vec<i64> = connection
        .prepare("SELECT DISTINCT model FROM amber_graph ORDER BY model")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut damaged = Vec::new();
    for model in &models {
        if !kept_bytes(connection, *model)?.is_some_and(|bytes| is_graph(&bytes)) {
            damaged.push(*model);
        }
    }
    Ok((models.len() as u64, damaged))
}

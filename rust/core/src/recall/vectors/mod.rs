//! Vectors and those of them nearest to a query, by a scan or by a graph, behind one interface.

mod codes;
mod engine;
mod graph;
mod kernel;
mod scan;

use std::cmp::Ordering;
use std::collections::HashMap;

use self::codes::{Bytes, Signs};
pub use self::engine::{Engine, is_graph};
use self::graph::Graph;
use crate::error::{Error, Result};

/// The most numbers that a vector may have.
pub const MOST_DIMENSIONS: usize = 32_768;
/// Up to how many vectors a scan looks at the numbers themselves, and up to how many at bytes.
const PLAIN: usize = 1_000;
const BYTES: usize = 20_000;

/// A vector that a search found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Its id.
    pub id: i64,
    /// The cosine of the angle between it and the query.
    pub score: f32,
}

/// Which vectors a search looks at.
pub trait Filter: Sync {
    /// Whether the vector in a slot is one of them.
    fn keeps(&self, slot: usize) -> bool;

    /// Whether every vector is.
    fn is_all(&self) -> bool {
        false
    }
}

/// Every vector.
#[derive(Debug, Clone, Copy)]
pub struct All;

impl Filter for All {
    fn keeps(&self, _: usize) -> bool {
        true
    }

    fn is_all(&self) -> bool {
        true
    }
}

impl<F: Fn(usize) -> bool + Sync> Filter for F {
    fn keeps(&self, slot: usize) -> bool {
        self(slot)
    }
}

/// The small forms that a scan goes by, level with the vectors.
#[derive(Debug)]
enum Codes {
    Plain,
    Bytes(Bytes),
    Signs(Signs, Bytes),
}

/// Vectors of one size, each with an id. A vector of zeros has nothing to compare: it has no slot.
///
/// Slots are given in the order of adding and kept until the vectors are rebuilt; a removed one is empty.
#[derive(Debug)]
pub struct Vectors {
    dimensions: usize,
    ids: Vec<i64>,
    /// One after the other, each of length 1.
    rows: Vec<f32>,
    gone: Vec<bool>,
    gone_count: usize,
    slots: HashMap<i64, usize>,
    codes: Codes,
    /// It links the first of the vectors, where there is one.
    graph: Option<Graph>,
}

impl Vectors {
    /// No vectors, of a size.
    pub fn new(dimensions: usize) -> Result<Self> {
        if dimensions == 0 || dimensions > MOST_DIMENSIONS {
            let limits = format!("a vector has 1 to {MOST_DIMENSIONS} numbers, not {dimensions}");
            return Err(Error::invalid(limits));
        }
        Ok(Self {
            dimensions,
            ids: Vec::new(),
            rows: Vec::new(),
            gone: Vec::new(),
            gone_count: 0,
            slots: HashMap::new(),
            codes: Codes::Plain,
            graph: None,
        })
    }

    /// How many numbers a vector has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.ids.len() - self.gone_count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of all slots, those of empty ones too.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// The slot of a vector.
    pub fn slot(&self, id: i64) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    /// Adds vectors, row after row; one whose id is there already takes the place of that.
    ///
    /// Nothing is added when a number is NaN or infinite or the sizes do not fit.
    pub fn add(&mut self, ids: &[i64], rows: &[f32]) -> Result<()> {
        if rows.len() != ids.len() * self.dimensions {
            return Err(Error::invalid(format!(
                "{} numbers are not {} vectors of {}",
                rows.len(),
                ids.len(),
                self.dimensions
            )));
        }
        rows.chunks_exact(self.dimensions).try_for_each(check)?;
        let before = self.rows.len();
        for (id, row) in ids.iter().zip(rows.chunks_exact(self.dimensions)) {
            self.remove(*id);
            if let Some(unit) = unit(row) {
                self.slots.insert(*id, self.ids.len());
                self.ids.push(*id);
                self.gone.push(false);
                self.rows.extend(unit);
            }
        }
        self.code_from(before);
        Ok(())
    }

    /// Removes a vector; whether there was one.
    pub fn remove(&mut self, id: i64) -> bool {
        let Some(slot) = self.slots.remove(&id) else { return false };
        self.gone_count += usize::from(!std::mem::replace(&mut self.gone[slot], true));
        true
    }

    /// The vectors nearest to a query among those that a filter keeps, the nearest first and equally near
    /// ones by id. There are fewer than `k` only where the filter keeps fewer.
    pub fn search(&self, query: &[f32], k: usize, filter: &impl Filter) -> Result<Vec<Near>> {
        self.search_by(Engine::Auto, query, k, filter)
    }

    /// The same by a way of one's choice. By the graph, where there is one: others than the nearest may be
    /// found for some of them.
    pub fn search_by(
        &self,
        engine: Engine,
        query: &[f32],
        k: usize,
        filter: &impl Filter,
    ) -> Result<Vec<Near>> {
        if query.len() != self.dimensions {
            return Err(Error::invalid(format!(
                "the query has {} numbers, the vectors {}",
                query.len(),
                self.dimensions
            )));
        }
        check(query)?;
        let Some(query) = unit(query).filter(|_| k > 0 && !self.is_empty()) else { return Ok(Vec::new()) };
        let query: Vec<f32> = query.collect();
        let near = if self.walks(engine, filter) { self.by_graph(&query, k, filter) } else { None };
        Ok(near.unwrap_or_else(|| self.scan(&query, k, filter)))
    }

    fn row(&self, slot: usize) -> &[f32] {
        &self.rows[slot * self.dimensions..(slot + 1) * self.dimensions]
    }

    /// Makes the small forms of what was added, and other ones for all where there are too many now.
    fn code_from(&mut self, before: usize) {
        let count = self.ids.len();
        let fits = match self.codes {
            Codes::Plain => count <= PLAIN,
            Codes::Bytes(_) => count <= BYTES,
            Codes::Signs(..) => true,
        };
        let from = if fits {
            before
        } else {
            self.codes = if count > BYTES {
                Codes::Signs(Signs::default(), Bytes::default())
            } else {
                Codes::Bytes(Bytes::default())
            };
            0
        };
        let new = &self.rows[from..];
        match &mut self.codes {
            Codes::Plain => {}
            Codes::Bytes(bytes) => bytes.extend(new, self.dimensions),
            Codes::Signs(signs, bytes) => {
                signs.extend(new, self.dimensions);
                bytes.extend(new, self.dimensions);
            }
        }
    }
}

/// Refuses a vector that holds NaN or an infinity.
fn check(row: &[f32]) -> Result<()> {
    match row.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!("a vector holds NaN or an infinity, at place {at}"))),
    }
}

/// A vector of length 1 in the direction of another; `None` for one that has no direction.
fn unit(row: &[f32]) -> Option<impl Iterator<Item = f32>> {
    let length = row.iter().map(|number| f64::from(*number) * f64::from(*number)).sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a number of a vector of length 1")]
    let scaled = move |number: &f32| (f64::from(*number) / length) as f32;
    (length > 0.0).then(|| row.iter().map(scaled))
}

/// The nearest first, and equally near ones by id.
fn order(one: &Near, other: &Near) -> Ordering {
    other.score.total_cmp(&one.score).then_with(|| one.id.cmp(&other.id))
}

#[cfg(test)]
mod tests;

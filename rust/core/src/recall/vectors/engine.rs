//! Which way a search goes, and the graph that one of them needs.

use xxhash_rust::xxh3::xxh3_64;

use super::graph::Graph;
use super::{Filter, Near, Vectors};

/// From how many vectors on a search goes by the graph of its own accord, where there is one.
const WALK_FROM: usize = 300_000;
/// A filter is tried on so many vectors. Where it keeps fewer than one of so many, a scan of those is quicker.
const TRIED: usize = 256;
const KEPT_OF: usize = 10;
/// So many vectors that the graph does not link yet are looked at one by one beside it.
const TAIL: usize = 4096;
/// A kept graph is made anew where more than one of so many of its vectors are gone.
const GONE_OF: usize = 4;
const NUMBER: usize = size_of::<u64>();

/// How the nearest vectors are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// By the graph where there is one and very many vectors, else by the scan.
    #[default]
    Auto,
    /// By a look at every vector.
    Scan,
    /// By the graph, where there is one and the filter keeps enough.
    Hnsw,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Scan, Self::Hnsw];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Scan => "scan",
            Self::Hnsw => "hnsw",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Whether a search of so many vectors would go by a graph.
    pub fn wants_graph(self, count: usize) -> bool {
        match self {
            Self::Auto => count >= WALK_FROM,
            Self::Scan => false,
            Self::Hnsw => true,
        }
    }
}

/// Whether bytes are a graph as it was kept.
pub fn is_graph(bytes: &[u8]) -> bool {
    body_of(bytes).is_some()
}

impl Vectors {
    /// Links at most so many more vectors to the graph, which begins with the first of them; whether there
    /// are more to link.
    pub fn link_some(&mut self, most: usize) -> bool {
        let dimensions = self.dimensions;
        let graph = self.graph.get_or_insert_with(|| Graph::new(dimensions));
        let upto = self.ids.len().min(graph.len().saturating_add(most));
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        graph.extend(&self.rows[..upto * dimensions], threads);
        upto < self.ids.len()
    }

    /// How many vectors the graph links; `None` where there is none.
    pub fn linked(&self) -> Option<usize> {
        self.graph.as_ref().map(Graph::len)
    }

    /// The graph as bytes, where there is one.
    ///
    /// In little-endian 64-bit numbers: how many slots it has, for each its id and what its row is known by
    /// again; then the graph; then xxh3 of all before.
    pub fn graph_bytes(&self) -> Option<Vec<u8>> {
        let graph = self.graph.as_ref()?;
        let mut bytes = (graph.len() as u64).to_le_bytes().to_vec();
        for (slot, id) in self.ids[..graph.len()].iter().enumerate() {
            let print = self.print(slot);
            bytes.extend(id.to_le_bytes());
            // No row is known by the print of one that was removed.
            bytes.extend(if self.gone[slot] { !print } else { print }.to_le_bytes());
        }
        bytes.extend(graph.to_bytes());
        let check = xxh3_64(&bytes);
        bytes.extend(check.to_le_bytes());
        Some(bytes)
    }

    /// Takes a graph from bytes; whether it is of these vectors, in the order in which they were added
    /// here. Of those that it was made of, some may be gone; those that came since are not linked.
    pub fn load_graph(&mut self, bytes: &[u8]) -> bool {
        let graph = self.read_graph(bytes);
        let is_ours = graph.is_some();
        self.graph = graph.or(self.graph.take());
        is_ours
    }

    fn read_graph(&self, bytes: &[u8]) -> Option<Graph> {
        let (count, rest) = body_of(bytes)?.split_first_chunk::<NUMBER>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (slots, graph) = rest.split_at_checked(count.checked_mul(2 * NUMBER)?)?;
        let graph = Graph::from_bytes(graph, self.dimensions).filter(|graph| graph.len() == count)?;
        let (mut kept, mut next) = (Vec::with_capacity(count), 0);
        for slot in slots.as_chunks::<NUMBER>().0.chunks_exact(2) {
            let is_here = self.ids.get(next) == Some(&i64::from_le_bytes(slot[0]))
                && self.print(next) == u64::from_le_bytes(slot[1]);
            kept.push(is_here);
            next += usize::from(is_here);
        }
        match count - next {
            0 => Some(graph),
            gone if gone * GONE_OF > count => None,
            _ => Some(graph.without(&kept)),
        }
    }

    /// What the row of a slot is known by again.
    fn print(&self, slot: usize) -> u64 {
        let bytes: Vec<u8> = self.row(slot).iter().flat_map(|number| number.to_le_bytes()).collect();
        xxh3_64(&bytes)
    }

    /// Whether a search goes by the graph.
    pub(super) fn walks(&self, engine: Engine, filter: &impl Filter) -> bool {
        let count = self.ids.len();
        let step = (count / TRIED).max(1);
        let tried = || (0..count).step_by(step);
        let keeps = |slot: &usize| !self.gone[*slot] && filter.keeps(*slot);
        let linked = self.linked().unwrap_or(0);
        engine.wants_graph(count)
            && linked > 0
            && count - linked <= TAIL
            && tried().filter(keeps).count() * KEPT_OF >= tried().count()
    }

    /// The nearest that the graph finds; `None` where it finds too few, for which a scan must answer.
    pub(super) fn by_graph(&self, query: &[f32], k: usize, filter: &impl Filter) -> Option<Vec<Near>> {
        let keeps = |slot: usize| !self.gone[slot] && filter.keeps(slot);
        let graph = self.graph.as_ref()?;
        let found = graph.search(&self.rows, query, k, None, keeps);
        let tail = (graph.len()..self.ids.len()).filter(|slot| keeps(*slot));
        let near = self.rescore(query, k, found.into_iter().chain(tail));
        (near.len() == k).then_some(near)
    }
}

/// What stands before the check, where that is right.
fn body_of(bytes: &[u8]) -> Option<&[u8]> {
    let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(NUMBER)?)?;
    (xxh3_64(body).to_le_bytes() == check).then_some(body)
}

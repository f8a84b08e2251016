//! Which way a search goes, and the graph that one of them needs.

use xxhash_rust::xxh3::Xxh3;

use super::graph::Graph;
use super::{Filter, Near, Vectors, order};

/// From how many vectors on a search goes by the graph of its own accord, where there is one.
const WALK_FROM: usize = 300_000;
/// A filter is tried on so many vectors. Where it keeps fewer than one of so many, a scan of those is quicker.
const TRIED: usize = 256;
const KEPT_OF: usize = 10;
const CHECK: usize = 8;

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

impl Vectors {
    /// Links the vectors to a graph; from then on what is added is linked at once.
    pub fn build_graph(&mut self) {
        if self.graph.is_none() {
            self.graph = Some(Graph::new(self.dimensions));
            self.link();
        }
    }

    /// Whether there is a graph.
    pub fn has_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// The graph as bytes, where there is one.
    pub fn graph_bytes(&self) -> Option<Vec<u8>> {
        let graph = self.graph.as_ref()?;
        let mut bytes = self.print(graph.len()).to_le_bytes().to_vec();
        bytes.extend(graph.to_bytes());
        Some(bytes)
    }

    /// Takes a graph from bytes and links what was added since; whether they are of these vectors, in the
    /// order in which they were added here.
    pub fn load_graph(&mut self, bytes: &[u8]) -> bool {
        let Some((print, bytes)) = bytes.split_first_chunk::<CHECK>() else { return false };
        let graph = Graph::from_bytes(bytes, self.dimensions)
            .filter(|graph| graph.len() <= self.ids.len() && self.print(graph.len()).to_le_bytes() == *print);
        let Some(graph) = graph else { return false };
        self.graph = Some(graph);
        self.link();
        true
    }

    pub(super) fn link(&mut self) {
        if let Some(graph) = &mut self.graph {
            let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            graph.extend(&self.rows, threads);
        }
    }

    /// What the first vectors and their ids are known by again.
    fn print(&self, count: usize) -> u64 {
        let mut hasher = Xxh3::new();
        for id in &self.ids[..count] {
            hasher.update(&id.to_le_bytes());
        }
        for number in &self.rows[..count * self.dimensions] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.digest()
    }

    /// Whether a search goes by the graph.
    pub(super) fn walks(&self, engine: Engine, filter: &impl Filter) -> bool {
        let count = self.ids.len();
        let is_asked = match engine {
            Engine::Auto => count >= WALK_FROM,
            Engine::Scan => false,
            Engine::Hnsw => true,
        };
        let step = (count / TRIED).max(1);
        let tried = || (0..count).step_by(step);
        let keeps = |slot: &usize| !self.gone[*slot] && filter.keeps(*slot);
        is_asked && self.graph.is_some() && tried().filter(keeps).count() * KEPT_OF >= tried().count()
    }

    /// The nearest that the graph finds; `None` where it finds too few, for which a scan must answer.
    pub(super) fn by_graph(&self, query: &[f32], k: usize, filter: &impl Filter) -> Option<Vec<Near>> {
        let keeps = |slot: usize| !self.gone[slot] && filter.keeps(slot);
        let found = self.graph.as_ref()?.search(&self.rows, query, k, None, keeps);
        let near = found.into_iter().map(|slot| (slot, super::kernel::dot(self.row(slot), query)));
        let mut near: Vec<Near> = near.map(|(slot, score)| Near { id: self.ids[slot], score }).collect();
        near.sort_unstable_by(order);
        (near.len() == k).then_some(near)
    }
}

//! Memory search for Python.

use amberlog_core::bundle::{BlockHit, Meaning, MemoryFilter, Model, Payload};
use amberlog_core::recall::blocks::Kind;
use amberlog_core::recall::vectors::Engine;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::PyBundle;
use crate::convert;
use crate::error::{Outcome, Raise};

/// A block that a memory search found.
#[pyclass(frozen, get_all, name = "BlockHit", module = "amberlog._core")]
pub(crate) struct PyBlockHit {
    number: i64,
    block_id: String,
    agent: String,
    kind: &'static str,
    round: i64,
    block: i64,
    turn: Option<i64>,
    ts: f64,
    event_id: i64,
    event_key: String,
    tool_name: String,
    channel: String,
    content: String,
    snippet: String,
    score: f64,
    keyword_score: Option<f64>,
    keyword_rank: Option<usize>,
    vector_score: Option<f64>,
    vector_rank: Option<usize>,
}

impl PyBlockHit {
    fn of(hit: BlockHit) -> Self {
        Self {
            number: hit.number,
            block_id: hit.block_id,
            agent: hit.agent,
            kind: hit.kind.name(),
            round: hit.round,
            block: hit.block,
            turn: hit.turn,
            ts: hit.ts,
            event_id: hit.event_id,
            event_key: hit.event_key,
            tool_name: hit.tool_name,
            channel: hit.channel,
            content: hit.content,
            snippet: hit.snippet,
            score: hit.score,
            keyword_score: hit.keyword.map(|side| side.score),
            keyword_rank: hit.keyword.map(|side| side.rank),
            vector_score: hit.vector.map(|side| side.score),
            vector_rank: hit.vector.map(|side| side.rank),
        }
    }
}

fn kinds_of(names: Option<Vec<String>>) -> PyResult<Option<Vec<Kind>>> {
    let Some(names) = names else { return Ok(None) };
    let kinds = names.iter().map(|name| {
        Kind::named(name).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            PyValueError::new_err(format!(
                "unknown kind of block '{name}': it is one of {}",
                known.join(", ")
            ))
        })
    });
    kinds.collect::<PyResult<_>>().map(Some)
}

fn engine_of(name: &str) -> PyResult<Engine> {
    Engine::named(name).ok_or_else(|| {
        let known = Engine::ALL.map(Engine::name).join(", ");
        PyValueError::new_err(format!("unknown engine '{name}': it is one of {known}"))
    })
}

/// Reads floats in the byte order of the machine.
fn floats(bytes: &[u8]) -> PyResult<Vec<f32>> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err(format!("{} bytes hold no whole number of floats", bytes.len())));
    }
    Ok(numbers.iter().map(|number| f32::from_ne_bytes(*number)).collect())
}

#[pymethods]
impl PyBundle {
    #[pyo3(signature = (agent=None))]
    fn memory_index(&self, py: Python<'_>, agent: Option<&str>) -> Outcome<u64> {
        py.detach(|| self.bundle.index_memory(agent)).or_raise(py)
    }

    fn memory_rebuild(&self, py: Python<'_>) -> Outcome<()> {
        py.detach(|| self.bundle.rebuild_memory()).or_raise(py)
    }

    fn memory_is_level(&self, py: Python<'_>) -> Outcome<bool> {
        py.detach(|| self.bundle.is_memory_level()).or_raise(py)
    }

    fn memory_give(
        &self,
        py: Python<'_>,
        agent: &str,
        start: u64,
        events: Vec<Bound<'_, PyDict>>,
    ) -> Outcome<()> {
        let packed = events
            .iter()
            .map(|event| {
                let mut body = Vec::new();
                convert::encode(event.as_any(), &mut body).map_err(|error| convert::refused(&error))?;
                Ok(Payload::Object(body))
            })
            .collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.bundle.give(agent, start, &packed)).or_raise(py)
    }

    #[pyo3(signature = (query, mode, k, *, vector=None, model=None, engine="auto", agent=None, kinds=None, tool=None, since=None, until=None, turns=None, all_branches=false))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of the search")]
    fn memory_find(
        &self,
        py: Python<'_>,
        query: &str,
        mode: &str,
        k: usize,
        vector: Option<&[u8]>,
        model: Option<String>,
        engine: &str,
        agent: Option<String>,
        kinds: Option<Vec<String>>,
        tool: Option<String>,
        since: Option<f64>,
        until: Option<f64>,
        turns: Option<(Option<i64>, Option<i64>)>,
        all_branches: bool,
    ) -> Outcome<Vec<PyBlockHit>> {
        let is_hybrid = match mode {
            "fts" => None,
            "semantic" => Some(false),
            "hybrid" => Some(true),
            _ => return Err(PyValueError::new_err(format!("unknown search mode '{mode}'"))),
        };
        let engine = engine_of(engine)?;
        let filter = MemoryFilter {
            agent,
            kinds: kinds_of(kinds)?,
            tool,
            since,
            until,
            turns: turns.unwrap_or_default(),
            all_branches,
        };
        let Some(is_hybrid) = is_hybrid else {
            let hits = py.detach(|| self.bundle.find_blocks(query, k, &filter)).or_raise(py)?;
            return Ok(hits.into_iter().map(PyBlockHit::of).collect());
        };
        let (Some(vector), Some(name)) = (vector, model) else {
            return Err(PyValueError::new_err(format!("mode '{mode}' needs a vector and its model")));
        };
        let vector = floats(vector)?;
        let model = Model { name, dimensions: vector.len() };
        let meaning = Meaning { model: &model, vector: &vector, is_hybrid, engine };
        let hits = py.detach(|| self.bundle.find_near(query, k, &filter, meaning)).or_raise(py)?;
        Ok(hits.into_iter().map(PyBlockHit::of).collect())
    }

    fn memory_pending(
        &self,
        py: Python<'_>,
        model: String,
        dimensions: usize,
        limit: usize,
    ) -> Outcome<Vec<(i64, String)>> {
        let model = Model { name: model, dimensions };
        py.detach(|| self.bundle.pending_blocks(&model, limit)).or_raise(py)
    }

    fn memory_put_vectors(
        &self,
        py: Python<'_>,
        model: String,
        dimensions: usize,
        ids: Vec<i64>,
        data: &[u8],
    ) -> Outcome<usize> {
        let model = Model { name: model, dimensions };
        let rows = floats(data)?;
        py.detach(|| self.bundle.put_vectors(&model, &ids, &rows)).or_raise(py)
    }

    fn memory_link(&self, py: Python<'_>, model: String, dimensions: usize, engine: &str) -> Outcome<()> {
        let model = Model { name: model, dimensions };
        let engine = engine_of(engine)?;
        py.detach(|| self.bundle.link_vectors(&model, engine)).or_raise(py)
    }

    fn memory_pending_count(&self, py: Python<'_>, model: String, dimensions: usize) -> Outcome<u64> {
        let model = Model { name: model, dimensions };
        py.detach(|| self.bundle.count_pending(&model)).or_raise(py)
    }

    fn memory_models(&self, py: Python<'_>) -> Outcome<Vec<(String, usize)>> {
        py.detach(|| self.bundle.vector_models()).or_raise(py)
    }

    fn memory_has_vectors(&self, py: Python<'_>, model: String, dimensions: usize) -> Outcome<bool> {
        let model = Model { name: model, dimensions };
        py.detach(|| self.bundle.has_vectors(&model)).or_raise(py)
    }

    fn memory_block(&self, py: Python<'_>, block_id: &str) -> Outcome<Option<PyBlockHit>> {
        let found = py.detach(|| self.bundle.block(block_id)).or_raise(py)?;
        Ok(found.map(PyBlockHit::of))
    }

    #[pyo3(signature = (model=None, dimensions=0))]
    fn memory_stats<'py>(
        &self,
        py: Python<'py>,
        model: Option<String>,
        dimensions: usize,
    ) -> Outcome<Bound<'py, PyDict>> {
        let model = model.map(|name| Model { name, dimensions });
        let (stats, vectors) = py
            .detach(|| {
                let vectors = model.map(|model| self.bundle.count_vectors(&model)).transpose()?;
                Ok((self.bundle.memory_stats()?, vectors.unwrap_or_default()))
            })
            .or_raise(py)?;
        let told = PyDict::new(py);
        told.set_item("blocks", stats.blocks)?;
        told.set_item("left", stats.left)?;
        told.set_item("all", stats.all)?;
        told.set_item("vectors", vectors)?;
        Ok(told)
    }
}

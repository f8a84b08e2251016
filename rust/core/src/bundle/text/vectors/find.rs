//! Finding blocks by meaning, alone or together with their words.

use rusqlite::Connection;

use super::super::find::{Index, Narrow, find};
use super::super::id::BlockId;
use super::super::memory::{BlockHit, MemoryFilter, Side, narrowed};
use super::super::names;
use super::shelf::Traits;
use super::{ACTION, Model};
use crate::bundle::handle::Inner;
use crate::error::Result;
use crate::recall::fuse::{Fused, fuse};
use crate::recall::query::parse;
use crate::recall::snippet::snippet;
use crate::recall::vectors::{Engine, Near};

/// As many of each side are ranked together for each hit, and at least.
const DEPTH: usize = 5;
const DEPTH_AT_LEAST: usize = 100;

/// What a search looks for by meaning.
#[derive(Debug, Clone, Copy)]
pub struct Meaning<'a> {
    /// Whose vectors are looked at.
    pub model: &'a Model,
    /// The vector of the query.
    pub vector: &'a [f32],
    /// Whether words count as well.
    pub is_hybrid: bool,
    /// How the nearest are looked for.
    pub engine: Engine,
}

impl Inner {
    /// The `k` blocks that are nearest to a query, or fit it best by words and meaning together.
    pub(in crate::bundle) fn find_near(
        &self,
        text: &str,
        k: usize,
        filter: &MemoryFilter,
        meaning: Meaning<'_>,
    ) -> Result<Vec<BlockHit>> {
        meaning.model.check()?;
        if k == 0 {
            return Ok(Vec::new());
        }
        if let Some(found) = self.find_linked(text, k, filter, (meaning, true))? {
            return Ok(found);
        }
        self.link_for_search(meaning.model, meaning.engine)?;
        self.find_linked(text, k, filter, (meaning, false)).map(Option::unwrap_or_default)
    }

    /// The same; `None` where vectors are to be linked first and that is to be waited for.
    fn find_linked(
        &self,
        text: &str,
        k: usize,
        filter: &MemoryFilter,
        (meaning, must_link): (Meaning<'_>, bool),
    ) -> Result<Option<Vec<BlockHit>>> {
        let query = parse(text);
        let narrow = narrowed(filter);
        let depth = if meaning.is_hybrid { k.saturating_mul(DEPTH).max(DEPTH_AT_LEAST) } else { k };
        self.on_index(|rows, indexes| {
            let near = self.nearest(rows, indexes, depth, &narrow, (meaning, must_link))?;
            let Some(near) = near else { return Ok(None) };
            let words = if meaning.is_hybrid && !query.is_empty() {
                find(indexes, &query, depth, &narrow).map_err(self.fault(ACTION))?
            } else {
                Vec::new()
            };
            let worded: Vec<BlockId> = words.iter().map(|hit| hit.id).collect();
            let meant: Vec<BlockId> = near.iter().filter_map(|near| BlockId::of(near.id)).collect();
            let fused = if meaning.is_hybrid { fuse(&worded, &meant) } else { by_meaning(&meant, &near) };
            let mut blocks = Vec::new();
            for one in fused.into_iter().take(k) {
                let mut block = self.any_block(rows, indexes, one.item)?;
                block.score = one.score;
                block.keyword = one.keyword.map(|rank| Side { rank, score: words[rank].score });
                block.vector = one.vector.map(|rank| Side { rank, score: near[rank].score.into() });
                block.snippet = snippet(&block.content, &query);
                blocks.push(block);
            }
            Ok(Some(blocks))
        })
    }

    fn any_block(&self, rows: &Connection, indexes: &[Index<'_>], id: BlockId) -> Result<BlockHit> {
        for index in indexes {
            if let Some(block) = self.block_hit(rows, index, id)? {
                return Ok(block);
            }
        }
        Err(self.lost_row())
    }

    fn nearest(
        &self,
        rows: &Connection,
        indexes: &[Index<'_>],
        k: usize,
        narrow: &Narrow<'_>,
        (meaning, must_link): (Meaning<'_>, bool),
    ) -> Result<Option<Vec<Near>>> {
        let fault = self.fault(ACTION);
        let mut known = self.shelves.lock();
        let held = known.entry(meaning.model.clone()).or_default();
        held.level(self, rows, indexes, meaning.model)?;
        held.fetch_graph(rows, meaning.engine).map_err(&fault)?;
        if must_link && held.lacks_links(meaning.engine) {
            return Ok(None);
        }
        let Some(vectors) = &held.vectors else { return Ok(Some(Vec::new())) };
        // An index in memory knows the names of the one on disk and its own.
        let numbered = |name: Option<&str>| match (name, indexes.last()) {
            (None, _) => Ok(Some(None)),
            (Some(_), None) => Ok(None),
            (Some(name), Some(index)) => names::find(index.connection, name).map(|found| found.map(Some)),
        };
        let owner = numbered(narrow.agent).map_err(&fault)?;
        let tool = numbered(narrow.tool).map_err(&fault)?;
        let (Some(owner), Some(tool)) = (owner, tool) else { return Ok(Some(Vec::new())) };
        let kinds =
            narrow.kinds.unwrap_or_default().iter().fold(0, |mask, kind| mask | 1_u64 << *kind as u32);
        let traits = &held.traits;
        let keeps = |slot: usize| keeps(&traits[slot], narrow, (owner, tool, kinds));
        vectors.search_by(meaning.engine, meaning.vector, k, &keeps).map(Some)
    }
}

/// What `amber_block` is asked in a keyword search, asked of what is remembered of it.
fn keeps(
    traits: &Traits,
    narrow: &Narrow<'_>,
    (owner, tool, kinds): (Option<i64>, Option<i64>, u64),
) -> bool {
    let (from, to) = narrow.turns;
    kinds.checked_shr(traits.kind).unwrap_or(0) & 1 == 1
        && (narrow.all_branches || traits.is_live)
        && owner.is_none_or(|owner| traits.owner == owner)
        && tool.is_none_or(|tool| traits.tool == Some(tool))
        && narrow.since.is_none_or(|since| traits.ts >= since)
        && narrow.until.is_none_or(|until| traits.ts <= until)
        && from.is_none_or(|from| traits.turn.is_some_and(|turn| turn >= from))
        && to.is_none_or(|to| traits.turn.is_some_and(|turn| turn <= to))
}

fn by_meaning(meant: &[BlockId], near: &[Near]) -> Vec<Fused<BlockId>> {
    let ranked = meant.iter().zip(near).enumerate();
    ranked
        .map(|(rank, (id, near))| Fused {
            item: *id,
            score: near.score.into(),
            keyword: None,
            vector: Some(rank),
        })
        .collect()
}

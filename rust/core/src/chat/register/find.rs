//! Finding the best sessions by the words of their messages, without reading any session.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use rusqlite::Connection;

use super::build::take;
use super::pages::{Cache, Pages};
use super::rows;
use super::segment::{Holders, ask};
use crate::chat::search::{DEMOTION, Wording};

/// The sessions in the order in which equal scores are listed, the last one first.
const SESSIONS: &str = "\
SELECT id, segment, place, automated, lineage FROM amber_session WHERE reason IS NULL \
ORDER BY shown, file DESC";

/// What is known of all sessions while a search is answered.
#[derive(Debug, Default)]
pub(super) struct Facts {
    generation: Option<i64>,
    segments: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    id: i64,
    dictionary: u32,
    /// The first message of each place, and the one behind the last.
    starts: Vec<u32>,
    sessions: Vec<Option<Fact>>,
}

#[derive(Debug, Clone, Copy)]
struct Fact {
    id: i64,
    /// Of equal scores the higher rank comes first.
    rank: u32,
    is_automated: bool,
    /// A hash of the lineage; 0 without one.
    lineage: u64,
}

/// A session with its score.
#[derive(Debug, Clone, Copy)]
struct Scored {
    score: f64,
    fact: Fact,
}

impl Facts {
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the numbers of the best sessions, one of each lineage, the best first.
    pub(super) fn best(
        &mut self,
        connection: &Connection,
        cache: &Cache,
        wording: &Wording<'_>,
        limit: usize,
    ) -> rusqlite::Result<Vec<i64>> {
        self.load(connection)?;
        let pages = Pages { connection, cache };
        let mut scored = Vec::new();
        for segment in &self.segments {
            let messages = segment.starts.last().map_or(0, |count| *count as usize);
            let holders = ask(&pages, segment.id, (segment.dictionary, messages), wording)?;
            segment.score(&holders, wording, &mut scored);
        }
        Ok(top(scored, limit.max(1)))
    }

    fn load(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let generation = rows::generation(connection)?;
        if self.generation == Some(generation) {
            return Ok(());
        }
        self.forget();
        let mut places = HashMap::new();
        let mut all = connection.prepare_cached("SELECT id, messages, dictionary FROM amber_segment")?;
        let mut found = all.query([])?;
        while let Some(row) = found.next()? {
            let mut counts = row.get_ref(1)?.as_blob()?;
            let mut starts = vec![0_u32];
            let mut sum = 0_u32;
            while let Some(count) = take(&mut counts) {
                sum = sum.saturating_add(count);
                starts.push(sum);
            }
            let id: i64 = row.get(0)?;
            places.insert(id, self.segments.len());
            let sessions = vec![None; starts.len() - 1];
            self.segments.push(Known { id, dictionary: row.get(2)?, starts, sessions });
        }
        let mut all = connection.prepare_cached(SESSIONS)?;
        let mut found = all.query([])?;
        let mut rank = 0;
        while let Some(row) = found.next()? {
            let (segment, place): (i64, u32) = (row.get(1)?, row.get(2)?);
            let lineage = row.get_ref(4)?.as_bytes_or_null()?;
            let fact = Fact {
                id: row.get(0)?,
                rank,
                is_automated: row.get(3)?,
                lineage: lineage.map_or(0, |bytes| xxhash_rust::xxh3::xxh3_64(bytes).max(1)),
            };
            rank += 1;
            let known = places.get(&segment).and_then(|at| self.segments.get_mut(*at));
            if let Some(slot) = known.and_then(|known| known.sessions.get_mut(place as usize)) {
                *slot = Some(fact);
            }
        }
        self.generation = Some(generation);
        Ok(())
    }
}

impl Known {
    fn score(&self, holders: &Holders, wording: &Wording<'_>, scored: &mut Vec<Scored>) {
        for (bounds, fact) in self.starts.windows(2).zip(&self.sessions) {
            let (Some(fact), &[begin, end]) = (fact, bounds) else { continue };
            let weighted = holders.terms.iter().zip(&wording.counts);
            let terms: f64 = weighted.map(|(found, count)| f64::from(found.count(begin, end)) * count).sum();
            if terms == 0.0 {
                continue;
            }
            let mut score = terms + 2.0 * f64::from(holders.phrase.count(begin, end));
            if fact.is_automated {
                score *= DEMOTION;
            }
            scored.push(Scored { score, fact: *fact });
        }
    }
}

fn top(mut scored: Vec<Scored>, limit: usize) -> Vec<i64> {
    let mut lineages: HashMap<u64, Scored> = HashMap::new();
    scored.retain(|one| {
        if one.fact.lineage == 0 {
            return true;
        }
        match lineages.entry(one.fact.lineage) {
            Slot::Occupied(mut best) => {
                if order(one, best.get()).is_lt() {
                    best.insert(*one);
                }
            }
            Slot::Vacant(slot) => {
                slot.insert(*one);
            }
        }
        false
    });
    scored.extend(lineages.into_values());
    if scored.len() > limit {
        scored.select_nth_unstable_by(limit, order);
        scored.truncate(limit);
    }
    scored.sort_unstable_by(order);
    scored.into_iter().map(|one| one.fact.id).collect()
}

/// The better one comes first.
fn order(left: &Scored, right: &Scored) -> std::cmp::Ordering {
    right.score.total_cmp(&left.score).then_with(|| right.fact.rank.cmp(&left.fact.rank))
}

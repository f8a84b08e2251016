//! The best blocks of a query: filtered, each told once however many forks hold it, ties in a fixed order.
//!
//! The filters are asked while the index is walked, so that what is passed over takes no place among the
//! best, and what the best have reached lets whole runs of blocks be skipped.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use tantivy::columnar::ColumnValues;
use tantivy::query::{EnableScoring, Query as Asked, Weight};
use tantivy::{DocId, Score, Searcher, SegmentReader};

use super::document::{NO_TURN, column, kind_number, name_hash};
use super::roster::{Known, Roster};
use crate::recall::blocks::Kind;

/// What the score of a session in which nobody talks is multiplied by, as of a chat session.
pub(super) const DEMOTION: f32 = 0.25;

/// Which blocks are asked for.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only sessions of exactly this name.
    pub session: Option<String>,
    /// Only blocks of exactly this agent, or messages of exactly this channel.
    pub agent: Option<String>,
    /// Only blocks of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Only calls and results of exactly this tool.
    pub tool: Option<String>,
    /// Only from this moment on, in seconds since 1970.
    pub since: Option<f64>,
    /// Only up to this moment, in seconds since 1970.
    pub until: Option<f64>,
    /// Only from this turn to that one.
    pub turns: Option<(i64, i64)>,
}

/// A block that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub score: Score,
    /// The place of its session in the roster.
    pub at: usize,
    pub id: i64,
    pub place: u64,
    pub ts: f64,
    pub kind: u64,
    /// What it has in common with the same block in sessions of the same family.
    pub same: (u64, u64),
}

/// The sessions of a moment, as a search asks for them.
#[derive(Debug)]
pub(super) struct Ground {
    pub roster: Arc<Roster>,
    families: Vec<u64>,
    /// The place in the roster of each number.
    places: HashMap<u64, usize>,
}

impl Ground {
    pub fn of(roster: Arc<Roster>) -> Self {
        let numbered = roster.sessions.iter().enumerate().filter(|(_, known)| known.number != 0);
        let places = numbered.map(|(at, known)| (known.number, at)).collect();
        Self { families: roster.families(), places, roster }
    }

    pub fn known(&self, at: usize) -> Option<&Known> {
        self.roster.sessions.get(at)
    }

    pub fn family(&self, at: usize) -> u64 {
        self.families.get(at).copied().unwrap_or_default()
    }

    /// Whether the session at one place is named rather than that at the other, where both hold a block:
    /// the one that was made later.
    pub fn is_newer(&self, a: usize, b: usize) -> bool {
        let key = |at: usize| self.known(at).map(|known| (known.created, known.path.as_str()));
        key(a) > key(b)
    }
}

/// The numbers of a segment's blocks that are read while it is walked.
struct Columns {
    session: Arc<dyn ColumnValues<u64>>,
    same: Arc<dyn ColumnValues<u64>>,
    source: Arc<dyn ColumnValues<i64>>,
    place: Arc<dyn ColumnValues<u64>>,
    kind: Arc<dyn ColumnValues<u64>>,
    ts: Arc<dyn ColumnValues<f64>>,
    turn: Arc<dyn ColumnValues<i64>>,
    agent: Arc<dyn ColumnValues<u64>>,
    tool: Arc<dyn ColumnValues<u64>>,
}

impl Columns {
    fn of(segment: &SegmentReader) -> tantivy::Result<Self> {
        let fast = segment.fast_fields();
        Ok(Self {
            session: fast.u64(column::SESSION)?.first_or_default_col(0),
            same: fast.u64(column::SAME)?.first_or_default_col(0),
            source: fast.i64(column::SOURCE)?.first_or_default_col(0),
            place: fast.u64(column::PLACE)?.first_or_default_col(0),
            kind: fast.u64(column::KIND)?.first_or_default_col(0),
            ts: fast.f64(column::TS)?.first_or_default_col(0.0),
            turn: fast.i64(column::TURN)?.first_or_default_col(NO_TURN),
            agent: fast.u64(column::AGENT)?.first_or_default_col(0),
            tool: fast.u64(column::TOOL)?.first_or_default_col(0),
        })
    }
}

/// A filter in the numbers of the index.
struct Sieve {
    agent: Option<u64>,
    tool: Option<u64>,
    /// A bit for each kind.
    kinds: Option<u64>,
    since: Option<f64>,
    until: Option<f64>,
    turns: Option<(i64, i64)>,
}

impl Sieve {
    fn of(filter: &Filter) -> Self {
        let bits = |kinds: &Vec<Kind>| kinds.iter().fold(0, |bits, kind| bits | 1 << kind_number(*kind));
        Self {
            agent: filter.agent.as_deref().map(name_hash),
            tool: filter.tool.as_deref().map(name_hash),
            kinds: filter.kinds.as_ref().map(bits),
            since: filter.since,
            until: filter.until,
            turns: filter.turns,
        }
    }

    fn lets_through(&self, columns: &Columns, doc: DocId) -> bool {
        let is = |wanted: Option<u64>, column: &Arc<dyn ColumnValues<u64>>| {
            wanted.is_none_or(|wanted| column.get_val(doc) == wanted)
        };
        is(self.agent, &columns.agent)
            && is(self.tool, &columns.tool)
            && self.kinds.is_none_or(|bits| bits >> columns.kind.get_val(doc) & 1 == 1)
            && self.since.is_none_or(|since| columns.ts.get_val(doc) >= since)
            && self.until.is_none_or(|until| columns.ts.get_val(doc) <= until)
            && self.turns.is_none_or(|(from, to)| (from..=to).contains(&columns.turn.get_val(doc)))
    }
}

/// Returns the best blocks, the best first.
pub(super) fn gather(
    asked: &dyn Asked,
    filter: &Filter,
    searcher: &Searcher,
    ground: &Ground,
    most: usize,
) -> tantivy::Result<Vec<Found>> {
    let weight = asked.weight(EnableScoring::enabled_from_searcher(searcher))?;
    let sieve = Sieve::of(filter);
    let mut best =
        Best { ground, most, found: Vec::new(), threshold: Score::MIN, last: (Score::MIN, f64::MIN) };
    for segment in searcher.segment_readers() {
        walk(weight.as_ref(), segment, &sieve, &mut best)?;
    }
    best.settle();
    Ok(best.found)
}

fn walk(
    weight: &dyn Weight,
    segment: &SegmentReader,
    sieve: &Sieve,
    best: &mut Best<'_>,
) -> tantivy::Result<()> {
    let columns = Columns::of(segment)?;
    let alive = segment.alive_bitset();
    weight.for_each_pruning(best.threshold, segment, &mut |doc, score| {
        let is_there = alive.is_none_or(|alive| alive.is_alive(doc)) && sieve.lets_through(&columns, doc);
        if is_there && let Some(at) = best.ground.places.get(&columns.session.get_val(doc)).copied() {
            let is_automated = best.ground.known(at).is_some_and(|known| known.is_automated);
            let score = if is_automated { score * DEMOTION } else { score };
            let ts = columns.ts.get_val(doc);
            if best.wants(score, ts) {
                best.take(Found {
                    score,
                    at,
                    id: columns.source.get_val(doc),
                    place: columns.place.get_val(doc),
                    ts,
                    kind: columns.kind.get_val(doc),
                    same: (best.ground.family(at), columns.same.get_val(doc)),
                });
            }
        }
        best.threshold
    })
}

/// The best so far, and some more: they are put in order when there are twice as many as are wanted.
struct Best<'g> {
    ground: &'g Ground,
    most: usize,
    found: Vec<Found>,
    /// What a block must exceed.
    threshold: Score,
    /// Score and time of the last of the best; one that is no better in either comes too late.
    last: (Score, f64),
}

impl Best<'_> {
    fn wants(&self, score: Score, ts: f64) -> bool {
        let (last_score, last_ts) = self.last;
        score > last_score || (score > self.threshold && ts >= last_ts)
    }

    fn take(&mut self, found: Found) {
        self.found.push(found);
        if self.found.len() >= self.most.saturating_mul(2).saturating_add(64) {
            self.settle();
        }
    }

    /// Leaves the best, in order.
    fn settle(&mut self) {
        let ground = self.ground;
        let mut told: HashMap<(u64, u64), Found> = HashMap::with_capacity(self.found.len());
        for found in self.found.drain(..) {
            told.entry(found.same)
                .and_modify(|known| {
                    if ground.is_newer(found.at, known.at) {
                        *known = found;
                    }
                })
                .or_insert(found);
        }
        self.found.extend(told.into_values());
        self.found.sort_unstable_by(|a, b| order(a, b, ground));
        self.found.truncate(self.most);
        if self.found.len() == self.most
            && let Some(last) = self.found.last()
        {
            // One that equals the last may come before it, by its time.
            self.threshold = last.score.next_down();
            self.last = (last.score, last.ts);
        }
    }
}

/// The best first; of equal ones the newest, then by session and place in it.
fn order(a: &Found, b: &Found, ground: &Ground) -> Ordering {
    let path = |at: usize| ground.known(at).map(|known| known.path.as_str());
    b.score
        .total_cmp(&a.score)
        .then_with(|| b.ts.total_cmp(&a.ts))
        .then_with(|| path(a.at).cmp(&path(b.at)))
        .then_with(|| a.id.cmp(&b.id))
}

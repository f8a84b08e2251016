//! Asking one or two indexes of blocks as if they were one.

use std::cmp::Ordering;
use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::id::{BlockId, Origin};
use super::names;
use crate::db::fts;
use crate::db::schema::has_table;
use crate::recall::blocks::Kind;
use crate::recall::common::Plan;
use crate::recall::query::Query;
use crate::recall::rank::{Corpus, Found, scores};

macro_rules! narrowed {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM amber_text CROSS JOIN amber_block AS b ON b.id = amber_text.rowid
WHERE amber_text MATCH ?1 AND (?2 IS NULL OR b.owner = ?2) AND (?3 >> b.kind) & 1 AND b.live >= ?4
  AND (?5 IS NULL OR b.tool = ?5) AND (?6 IS NULL OR b.ts >= ?6) AND (?7 IS NULL OR b.ts <= ?7)
  AND (?8 IS NULL OR b.turn >= ?8) AND (?9 IS NULL OR b.turn <= ?9)
  AND (?10 IS NULL OR b.type IN (SELECT value FROM json_each(?10)))",
            $rest
        )
    };
}

const RANKED: &str =
    narrowed!("b.id, amber_counts(amber_text), b.owner, b.place, b.length", " AND amber_text.rowid < ?11");
const NEWEST: &str =
    narrowed!("b.id", " AND amber_text.rowid BETWEEN ?11 AND ?12 ORDER BY amber_text.rowid DESC LIMIT ?13");

/// What a search is narrowed to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrow<'a> {
    pub(super) agent: Option<&'a str>,
    pub(super) kinds: Option<&'a [Kind]>,
    pub(super) types: Option<&'a [String]>,
    pub(super) tool: Option<&'a str>,
    pub(super) since: Option<f64>,
    pub(super) until: Option<f64>,
    pub(super) turns: (Option<i64>, Option<i64>),
    /// Whether blocks of branches that were left are found too.
    pub(super) all_branches: bool,
    /// Whether only rows of the log and of channels are looked at, one find an event.
    pub(super) by_event: bool,
}

/// One index, with what is known of it as a whole.
#[derive(Clone, Copy)]
pub(super) struct Index<'c> {
    pub(super) connection: &'c Connection,
    pub(super) corpus: Corpus,
}

/// A block that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hit {
    /// Which index holds it.
    pub(super) index: usize,
    pub(super) id: BlockId,
    pub(super) score: f64,
}

/// The numbers that a filter stands for in one index; `None` where nothing can match.
struct Bound {
    owner: Option<i64>,
    kinds: i64,
    live: i64,
    tool: Option<i64>,
    types: Option<String>,
}

impl<'c> Index<'c> {
    /// An index that is asked from here on.
    pub(super) fn open(connection: &'c Connection, corpus: Corpus) -> rusqlite::Result<Self> {
        const VOCABULARY: &str =
            "CREATE VIRTUAL TABLE temp.amber_vocabulary USING fts5vocab('main', 'amber_text', 'row')";
        if !connection.table_exists(Some("temp"), "amber_vocabulary")? {
            fts::register(connection)?;
            connection.execute_batch(VOCABULARY)?;
        }
        Ok(Self { connection, corpus })
    }

    /// Adds in how many blocks each token of a list stands. One question for all: each costs FTS5 a
    /// statement of its own.
    fn add_holders(&self, tokens: &str, holders: &mut HashMap<String, u64>) -> rusqlite::Result<()> {
        const HOLDERS: &str =
            "SELECT term, doc FROM temp.amber_vocabulary WHERE term IN (SELECT value FROM json_each(?1))";
        let mut select = self.connection.prepare_cached(HOLDERS)?;
        let mut rows = select.query([tokens])?;
        while let Some(row) = rows.next()? {
            let count: i64 = row.get(1)?;
            *holders.entry(row.get(0)?).or_default() += count.unsigned_abs();
        }
        Ok(())
    }

    fn bind(&self, narrow: &Narrow<'_>) -> rusqlite::Result<Option<Bound>> {
        let named = |name: Option<&str>| -> rusqlite::Result<Option<Option<i64>>> {
            match name {
                None => Ok(Some(None)),
                Some(name) => Ok(names::find(self.connection, name)?.map(Some)),
            }
        };
        let (Some(owner), Some(tool)) = (named(narrow.agent)?, named(narrow.tool)?) else { return Ok(None) };
        let types = match narrow.types {
            None => None,
            Some(types) => {
                let mut numbers = Vec::new();
                for name in types {
                    numbers.extend(names::find(self.connection, name)?);
                }
                Some(serde_json::Value::from(numbers).to_string())
            }
        };
        let kinds = match narrow.kinds {
            None => (1 << Kind::ALL.len()) - 1,
            Some(kinds) => kinds.iter().fold(0, |mask, kind| mask | 1 << *kind as i64),
        };
        Ok(Some(Bound { owner, kinds, live: i64::from(!narrow.all_branches), tool, types }))
    }
}

/// Finds the `k` blocks that fit best, ties in the order in which they were appended.
pub(super) fn find(
    indexes: &[Index<'_>],
    query: &Query,
    k: usize,
    narrow: &Narrow<'_>,
) -> rusqlite::Result<Vec<Hit>> {
    match plan(indexes, query)? {
        Plan::Nothing => Ok(Vec::new()),
        Plan::Ranked { expression, holders } => ranked(indexes, &expression, &holders, k, narrow),
        Plan::OnlyCommon(expression) => newest(indexes, &expression, k, narrow),
    }
}

/// Leaves out words that most blocks hold.
fn plan(indexes: &[Index<'_>], query: &Query) -> rusqlite::Result<Plan> {
    let tokens: Vec<&str> = query.tokens().map(|(token, _)| token).collect();
    let tokens = serde_json::Value::from(tokens).to_string();
    let mut holders = HashMap::new();
    for index in indexes {
        index.add_holders(&tokens, &mut holders)?;
    }
    let total = indexes.iter().map(|index| index.corpus.blocks).sum();
    Ok(query.plan(total, |token| holders.get(token).copied().unwrap_or(0)))
}

fn ranked(
    indexes: &[Index<'_>],
    expression: &str,
    holders: &[Option<u64>],
    k: usize,
    narrow: &Narrow<'_>,
) -> rusqlite::Result<Vec<Hit>> {
    let (mut ids, mut found, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    let mut corpus = Corpus::default();
    let bound = if narrow.by_event { Origin::Given.first() } else { i64::MAX };
    for (number, index) in indexes.iter().enumerate() {
        corpus.blocks += index.corpus.blocks;
        corpus.words += index.corpus.words;
        let Some(with) = index.bind(narrow)? else { continue };
        let mut select = index.connection.prepare_cached(RANKED)?;
        let (from, to) = narrow.turns;
        let mut rows = select.query(params![
            expression,
            with.owner,
            with.kinds,
            with.live,
            with.tool,
            narrow.since,
            narrow.until,
            from,
            to,
            with.types,
            bound
        ])?;
        while let Some(row) = rows.next()? {
            let Some(id) = BlockId::of(row.get(0)?) else { continue };
            ids.push((number, id));
            found.push(Found { owner: row.get(2)?, place: row.get(3)?, length: row.get(4)? });
            add_counts(row, holders.len(), &mut counts)?;
        }
    }
    let scores = scores(corpus, holders, &found, &counts);
    let hits = ids.into_iter().zip(scores).map(|((index, id), score)| Hit { index, id, score });
    Ok(best(hits.collect(), k, narrow.by_event))
}

fn add_counts(row: &Row<'_>, terms: usize, counts: &mut Vec<u8>) -> rusqlite::Result<()> {
    let each = row.get_ref(1)?.as_blob()?;
    let end = counts.len() + terms;
    counts.extend_from_slice(each.get(..terms).unwrap_or(each));
    counts.resize(end, 0);
    Ok(())
}

fn best(mut hits: Vec<Hit>, k: usize, by_event: bool) -> Vec<Hit> {
    let order = |one: &Hit, other: &Hit| -> Ordering {
        other.score.total_cmp(&one.score).then_with(|| one.id.cmp(&other.id))
    };
    if !by_event && k > 0 && k < hits.len() / 4 {
        hits.select_nth_unstable_by(k - 1, order);
        hits.truncate(k);
    }
    hits.sort_unstable_by(order);
    if by_event {
        keep_first_of_each_row(&mut hits);
    }
    hits.truncate(k);
    hits
}

fn keep_first_of_each_row(hits: &mut Vec<Hit>) {
    let mut seen = std::collections::HashSet::new();
    hits.retain(|hit| seen.insert((hit.id.origin, hit.id.row)));
}

/// The newest blocks first, of the log before those of channels.
fn newest(
    indexes: &[Index<'_>],
    expression: &str,
    k: usize,
    narrow: &Narrow<'_>,
) -> rusqlite::Result<Vec<Hit>> {
    let limit = i64::try_from(k).unwrap_or(i64::MAX);
    let mut hits = Vec::new();
    for (number, index) in indexes.iter().enumerate() {
        let Some(with) = index.bind(narrow)? else { continue };
        let mut select = index.connection.prepare_cached(NEWEST)?;
        let (from, to) = narrow.turns;
        for origin in Origin::ALL.into_iter().filter(|origin| !narrow.by_event || *origin != Origin::Given) {
            for (first, last) in BlockId::spans_from(origin, 0) {
                let mut rows = select.query(params![
                    expression,
                    with.owner,
                    with.kinds,
                    with.live,
                    with.tool,
                    narrow.since,
                    narrow.until,
                    from,
                    to,
                    with.types,
                    first,
                    last,
                    limit
                ])?;
                while let Some(row) = rows.next()? {
                    let id = BlockId::of(row.get(0)?);
                    hits.extend(id.map(|id| Hit { index: number, id, score: 0.0 }));
                }
            }
        }
    }
    hits.sort_by(|one, other| {
        let place = |hit: &Hit| (hit.id.row, hit.id.part);
        one.id.origin.cmp(&other.id.origin).then_with(|| place(other).cmp(&place(one)))
    });
    if narrow.by_event {
        keep_first_of_each_row(&mut hits);
    }
    hits.truncate(k);
    Ok(hits)
}

/// Whether the two records that describe the index are all zeros. To SQLite that is an empty index,
/// in which nothing is found and nothing is wrong.
pub(super) fn is_wiped(connection: &Connection) -> rusqlite::Result<bool> {
    const WIPED: &str = "\
SELECT EXISTS (SELECT 1 FROM amber_text_data WHERE id IN (1, 10) AND block = zeroblob(length(block)))
  AND EXISTS (SELECT 1 FROM amber_block)";
    connection.prepare_cached(WIPED)?.query_row([], |row| row.get(0))
}

/// Whether the file holds an index of the present shape.
pub(super) fn has_index(connection: &Connection) -> rusqlite::Result<bool> {
    has_table(connection, "amber_lane")
}

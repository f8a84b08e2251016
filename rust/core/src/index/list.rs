//! One page of the listing: a query on an index, its total a sum over a few counters.

use std::fmt::Write;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::cursor::{Cursor, Place};
use super::entry::{Entry, Extra, SEARCH_ROWID};
use super::write::DAMAGED;
use crate::codec::msgpack::{Reader, Token, put_map_header, put_nil, put_str};
use crate::codec::{self, Stored, msgpack};
use crate::error::{Error, Result};
use crate::recall::{Options, every_word};

/// So many hits of a search are sorted; more are met by walking the listing in its order.
const FEW_HITS: usize = 512;
/// A search whose words stand in more than one of so many sessions is not ranked: that would tell
/// little, and cost as much as all other searches together.
const COMMON_SHARE: usize = 10;

/// What a listing is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// When something last happened.
    #[default]
    LastActive,
    /// When the session was made.
    CreatedAt,
    /// The session's name.
    Name,
    /// Its status.
    Status,
    /// How well it fits the search; without one, when something last happened.
    Relevance,
}

impl Sort {
    /// The sort of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "last_active" => Self::LastActive,
            "created_at" => Self::CreatedAt,
            "name" => Self::Name,
            "status" => Self::Status,
            "relevance" => Self::Relevance,
            _ => return None,
        })
    }

    const fn column(self) -> &'static str {
        match self {
            Self::LastActive | Self::Relevance => "active",
            Self::CreatedAt => "created",
            Self::Name => "name",
            Self::Status => "status",
        }
    }
}

/// What is asked of the listing.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Words that all must be found; blank for all sessions.
    pub search: String,
    /// Only sessions with this status.
    pub status: Option<String>,
    /// Only sessions of this kind.
    pub config_type: Option<String>,
    /// Only sessions of this node.
    pub node_id: Option<String>,
    /// The order.
    pub sort: Sort,
    /// Whether the order begins at its other end.
    pub ascending: bool,
    /// The most rows.
    pub limit: u32,
    /// How many rows are passed over.
    pub offset: u64,
    /// The place to go on from, as the page before gave it.
    pub cursor: Option<String>,
}

/// One page.
#[derive(Debug, Default)]
pub struct Page {
    /// The rows, each a packed map.
    pub rows: Vec<Vec<u8>>,
    /// How many rows there are on all pages.
    pub total: u64,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
    /// The files of sessions that belong here, whose entries cannot be decoded.
    pub lost: Vec<String>,
}

/// The parts of a statement that filters make.
struct Filters {
    sql: String,
    values: Vec<Sql>,
}

impl Filters {
    fn of(query: &Query) -> Self {
        let mut filters = Self { sql: String::new(), values: Vec::new() };
        for (column, wanted) in
            [("status", &query.status), ("type", &query.config_type), ("node", &query.node_id)]
        {
            if let Some(wanted) = wanted {
                filters.add(&format!("{column} = ?"), [Sql::Text(wanted.clone())]);
            }
        }
        filters
    }

    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Sql>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }
}

/// How the sessions that a page shows are found.
enum Way {
    All,
    /// The hits, sorted.
    Hits(String),
    /// Everything in its order, of which those are left that are hits: their numbers, ascending.
    Walk(Vec<i64>),
    /// The hits by rank.
    Ranked(String),
}

/// Returns one page.
pub fn list(connection: &Connection, query: &Query) -> Result<Page, ListError> {
    let cursor = query.cursor.as_deref().map(|text| Cursor::parse(text, query)).transpose()?;
    let filters = Filters::of(query);
    if query.search.trim().is_empty() {
        let total = total(connection, &filters)?;
        return page(connection, query, &Way::All, filters, cursor, total);
    }
    let Some(words) = every_word(&query.search, Options { prefix_last: true }) else {
        return Ok(Page::default());
    };
    if !is_sound(connection)? {
        return Err(ListError::Unsound);
    }
    let hits = hits(connection, &words, &filters)?;
    let total = hits.len();
    let way = if query.sort == Sort::Relevance && !is_common(connection, total)? {
        Way::Ranked(words)
    } else if total > FEW_HITS {
        Way::Walk(hits)
    } else {
        Way::Hits(words)
    };
    page(connection, query, &way, filters, cursor, total as u64)
}

/// Why a page could not be had.
#[derive(Debug)]
pub enum ListError {
    /// The sidecar is at fault.
    Sql(rusqlite::Error),
    /// The caller is.
    Asked(Error),
    /// The text index has lost rows without SQLite's noticing.
    Unsound,
}

impl From<rusqlite::Error> for ListError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sql(source)
    }
}

impl From<Error> for ListError {
    fn from(error: Error) -> Self {
        Self::Asked(error)
    }
}

/// Whether the two records that describe the text index say anything. All zeros are an empty index to
/// SQLite, which would answer that nothing is found.
fn is_sound(connection: &Connection) -> rusqlite::Result<bool> {
    const WIPED: &str = "SELECT EXISTS (SELECT 1 FROM amber_search_data WHERE id IN (1, 10) \
                         AND length(block) > 0 AND block = zeroblob(length(block))) \
                         AND EXISTS (SELECT 1 FROM amber_entry)";
    let is_wiped: bool = connection.prepare_cached(WIPED)?.query_row([], |row| row.get(0))?;
    Ok(!is_wiped)
}

fn is_common(connection: &Connection, hits: usize) -> rusqlite::Result<bool> {
    if hits <= FEW_HITS {
        return Ok(false);
    }
    let all: i64 = connection
        .prepare_cached("SELECT coalesce(sum(n), 0) FROM amber_count")?
        .query_row([], |row| row.get(0))?;
    Ok(hits > usize::try_from(all).unwrap_or(0) / COMMON_SHARE)
}

fn total(connection: &Connection, filters: &Filters) -> rusqlite::Result<u64> {
    let sql = format!("SELECT coalesce(sum(n), 0) FROM amber_count WHERE 1{}", filters.sql);
    let sum: i64 =
        connection.prepare_cached(&sql)?.query_row(params_from_iter(&filters.values), |row| row.get(0))?;
    Ok(u64::try_from(sum).unwrap_or(0))
}

/// The numbers of the sessions that a search and the filters leave, ascending.
fn hits(connection: &Connection, words: &str, filters: &Filters) -> rusqlite::Result<Vec<i64>> {
    let sql = if filters.values.is_empty() {
        "SELECT rowid FROM amber_search WHERE amber_search MATCH ?".to_owned()
    } else {
        format!(
            "SELECT s.rowid FROM amber_search s CROSS JOIN amber_entry e ON e.id = s.rowid \
             WHERE amber_search MATCH ?{}",
            filters.sql
        )
    };
    let values = std::iter::once(Sql::Text(words.to_owned())).chain(filters.values.iter().cloned());
    let mut hits: Vec<i64> = connection
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if !hits.is_sorted() {
        hits.sort_unstable();
    }
    Ok(hits)
}

/// A session of a page: its number, its key, and what it is sorted by.
type Member = (i64, String, Sql);

fn page(
    connection: &Connection,
    query: &Query,
    way: &Way,
    mut filters: Filters,
    cursor: Option<Cursor>,
    total: u64,
) -> Result<Page, ListError> {
    let column = query.sort.column();
    let mut offset = query.offset;
    match cursor.map(|cursor| cursor.place) {
        None => {}
        Some(Place::Offset(at)) => offset = at,
        Some(Place::After(key, file)) => {
            let (range, beyond) = if query.ascending { (">=", ">") } else { ("<=", "<") };
            filters.add(
                &format!("e.{column} {range} ? AND (e.{column} {beyond} ? OR e.file > ?)"),
                [key.clone(), key, Sql::Text(file)],
            );
        }
    }
    let mut members = members(connection, query, way, filters, offset)?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_more = members.len() > limit;
    members.truncate(limit);
    let next = has_more.then(|| match (way, members.last()) {
        (Way::Ranked(_), _) | (_, None) => Place::Offset(offset.saturating_add(u64::from(query.limit))),
        (_, Some((_, file, key))) => Place::After(key.clone(), file.clone()),
    });
    let mut rows = Vec::with_capacity(members.len());
    let mut lost = Vec::new();
    let mut extras = connection.prepare_cached("SELECT extra FROM amber_entry WHERE id = ?1")?;
    let mut stored = connection.prepare_cached(STORED)?;
    for (id, file, _) in members {
        let extra: Option<Vec<u8>> = extras.query_row([id], |row| row.get(0)).optional()?;
        let shown = stored.query_row([file.as_bytes()], |row| {
            Ok(row_of(&file, row.get_ref(0)?.as_blob()?, extra.as_deref()))
        });
        match shown.optional()? {
            Some(Some(row)) => rows.push(row),
            Some(None) => lost.push(file),
            // Somebody else has removed it; the next reconcile takes that over.
            None => {}
        }
    }
    Ok(Page { rows, total, next: next.map(|place| Cursor::text(query, &place)), lost })
}

/// The sessions of a page, and one more where there is one, which tells that there is a next page.
fn members(
    connection: &Connection,
    query: &Query,
    way: &Way,
    filters: Filters,
    offset: u64,
) -> rusqlite::Result<Vec<Member>> {
    let (sql, words) = statement(query, way, &filters);
    let mut values: Vec<Sql> = words.into_iter().collect();
    values.extend(filters.values);
    let wanted = i64::from(query.limit) + 1;
    let member = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let Way::Walk(hits) = way else {
        values.push(Sql::Integer(wanted));
        values.push(Sql::Integer(i64::try_from(offset).unwrap_or(i64::MAX)));
        return connection.prepare_cached(&sql)?.query_map(params_from_iter(values), member)?.collect();
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut found, mut left) = (Vec::new(), offset);
    while (found.len() as u64) < wanted.unsigned_abs()
        && let Some(row) = rows.next()?
    {
        if hits.binary_search(&row.get(0)?).is_err() {
            continue;
        }
        if left > 0 {
            left -= 1;
        } else {
            found.push(member(row)?);
        }
    }
    Ok(found)
}

/// The statement that finds the files of a page; `words` come before the values of the filters.
fn statement(query: &Query, way: &Way, filters: &Filters) -> (String, Option<Sql>) {
    let column = query.sort.column();
    let direction = if query.ascending { "" } else { " DESC" };
    let by_column = format!(" ORDER BY e.{column}{direction}, e.file");
    let mut sql = format!("SELECT e.id, e.file, e.{column} FROM ");
    let words = match way {
        Way::All | Way::Walk(_) => {
            sql.push_str("amber_entry e INDEXED BY amber_entry_");
            sql.push_str(column);
            sql.push_str(" WHERE 1");
            None
        }
        Way::Hits(words) | Way::Ranked(words) => {
            sql.push_str(
                "amber_search s CROSS JOIN amber_entry e ON e.id = s.rowid WHERE amber_search MATCH ?",
            );
            Some(Sql::Text(words.clone()))
        }
    };
    sql.push_str(&filters.sql);
    if let Way::Ranked(_) = way {
        let direction = if query.ascending { " DESC" } else { "" };
        // Writing to a string cannot fail.
        write!(sql, " ORDER BY s.rank{direction}, e.file").unwrap_or_default();
    } else {
        sql.push_str(&by_column);
    }
    if !matches!(way, Way::Walk(_)) {
        sql.push_str(" LIMIT ? OFFSET ?");
    }
    (sql, words)
}

/// What the index holds of one session.
#[derive(Debug)]
pub enum Row {
    /// Nothing.
    Missing,
    /// The row that a listing shows.
    Shown(Vec<u8>),
    /// An entry that cannot be decoded, or could not before it was dropped; by its key.
    Lost(String),
}

/// The row of one session as a listing shows it.
pub fn row(connection: &Connection, file: &str) -> rusqlite::Result<Row> {
    const FIND: &str = "SELECT CAST(p.value AS BLOB), e.extra FROM entries p \
                        LEFT JOIN amber_entry e ON e.file = ?2 WHERE p.key = ?1";
    const DROPPED: &str = "SELECT EXISTS (SELECT 1 FROM amber_file WHERE path = ?1 AND reason = ?2)";
    let found: Option<(Vec<u8>, Option<Vec<u8>>)> = connection
        .prepare_cached(FIND)?
        .query_row((file.as_bytes(), file), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let lost = || Row::Lost(file.to_owned());
    if let Some((stored, extra)) = found {
        return Ok(row_of(file, &stored, extra.as_deref()).map_or_else(lost, Row::Shown));
    }
    let is_dropped: bool =
        connection.prepare_cached(DROPPED)?.query_row((file, DAMAGED), |row| row.get(0))?;
    Ok(if is_dropped { lost() } else { Row::Missing })
}

/// The row that an entry would be shown as.
pub fn row_of_entry(entry: &Entry) -> Option<Vec<u8>> {
    shown(&entry.pack(0), &entry.extra)
}

const STORED: &str = "SELECT CAST(value AS BLOB) FROM entries WHERE key = ?1";

fn row_of(file: &str, stored: &[u8], extra: Option<&[u8]>) -> Option<Vec<u8>> {
    let extra = extra.map_or_else(Extra::default, |extra| Extra::unpack(file, extra));
    match codec::open("entries", file.as_bytes(), stored) {
        Ok(Stored::Object(body)) => shown(&body, &extra),
        _ => None,
    }
}

/// Joins the peer's fields, ours, and why the session does not run, without decoding them.
fn shown(body: &[u8], extra: &Extra) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    let Ok(Token::Map(count)) = reader.token() else { return None };
    let mut pairs = Vec::with_capacity(body.len() + 256);
    let mut shown = 0;
    let mut lifecycle = None;
    for _ in 0..count {
        let start = reader.position();
        let key = reader.key().ok()?;
        let value = reader.raw().ok()?;
        if key == "lifecycle" {
            lifecycle = Some(value);
        }
        if key != SEARCH_ROWID {
            pairs.extend_from_slice(body.get(start..reader.position())?);
            shown += 1;
        }
    }
    extra.put_pairs(&mut pairs);
    put_str(&mut pairs, "stop_reason");
    match lifecycle.and_then(stop_reason) {
        Some(reason) => put_str(&mut pairs, reason),
        None => put_nil(&mut pairs),
    }
    let mut out = Vec::with_capacity(pairs.len() + 4);
    put_map_header(&mut out, shown + Extra::COUNT + 1);
    out.append(&mut pairs);
    Some(out)
}

/// Why a session is not running, by the peer's rule: a live one was started by a server that is not
/// this one, so it is taken for crashed unless it was shut down.
fn stop_reason(lifecycle: &[u8]) -> Option<&str> {
    if matches!(Reader::new(lifecycle).token(), Ok(Token::Map(0))) {
        return None;
    }
    let recorded =
        msgpack::field(lifecycle, "stop_reason").and_then(msgpack::as_str).filter(|text| !text.is_empty());
    let live = msgpack::field(lifecycle, "live").map(|raw| Reader::new(raw).token());
    match live {
        Some(Ok(Token::Bool(true) | Token::Int(1..))) if recorded == Some("shutdown") => Some("shutdown"),
        Some(Ok(Token::Bool(true) | Token::Int(1..))) => Some("crash"),
        _ => Some(recorded.unwrap_or("user")),
    }
}

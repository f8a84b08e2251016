//! Searching sessions for words: how they are scored, and what is shown of a hit.

use std::borrow::Cow;
use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::document::Document;
use super::entry::id_of;
use super::store::Store;
use crate::codec::json::Json;
use crate::{Error, Result};

/// Messages shown of either end of a session.
const BOOKEND: usize = 2;
/// Characters of a snippet.
const SNIPPET: usize = 120;
/// Characters of a title made of a message.
const TITLE: usize = 60;
/// More messages an hour, over at least so many messages, are no conversation.
const AUTOMATED: (f64, usize) = (60.0, 4);
/// What the score of such a session is multiplied by.
pub(super) const DEMOTION: f64 = 0.25;
/// What says that a session was no conversation.
const AUTOMATED_SOURCES: [&str; 5] = ["scheduled", "automated", "cron", "system", "batch"];
/// Keys that name the conversation that a session goes on with.
const LINEAGE: [&str; 3] = ["lineage_id", "root_session_id", "thread_id"];

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    terms: Vec<Term>,
    window: usize,
}

/// A session that holds the words.
pub(super) struct Found {
    score: f64,
    when: String,
    lineage: Option<String>,
    hit: Json,
}

/// A message with its place among all, the archived ones first.
pub(super) struct Turn<'a> {
    index: usize,
    message: Cow<'a, Json>,
    pub(super) text: String,
    is_archived: bool,
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    exact: String,
    /// Without marks on its letters and without what stands around it; empty where nothing is left.
    loose: String,
}

/// What a query asks of words that stand between white space.
#[derive(Debug)]
pub(super) struct Wording<'a> {
    /// Each term once, and whether marks on letters do not count for it.
    pub(super) terms: Vec<(&'a str, bool)>,
    /// How often the query has each.
    pub(super) counts: Vec<f64>,
    /// The words of the query in a row.
    pub(super) phrase: Vec<&'a str>,
}

impl Query {
    /// What the query asks of words; `None` where words do not tell: where more than a space stands
    /// between its terms, or one is longer than `longest` bytes.
    pub(super) fn wording(&self, longest: usize) -> Option<Wording<'_>> {
        let phrase: Vec<&str> = self.terms.iter().map(|term| &*term.exact).collect();
        if phrase.join(" ") != self.text || phrase.iter().any(|term| term.len() > longest) {
            return None;
        }
        let mut wording = Wording { terms: Vec::new(), counts: Vec::new(), phrase };
        for term in &self.terms {
            let is_loose = !term.loose.is_empty();
            let asked = (if is_loose { &*term.loose } else { &*term.exact }, is_loose);
            let at = wording.terms.iter().position(|known| *known == asked);
            if let Some(count) = at.and_then(|at| wording.counts.get_mut(at)) {
                *count += 1.0;
            } else {
                wording.terms.push(asked);
                wording.counts.push(1.0);
            }
        }
        Some(wording)
    }

    /// Takes a text, of which no character has a meaning of its own, and how many messages are
    /// shown before and after the best one. `None` where there is nothing to look for.
    pub fn new(text: &str, window: usize) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let term = |exact: &str| Term {
            exact: exact.to_owned(),
            loose: without_marks(exact.trim_matches(|c: char| !c.is_alphanumeric())),
        };
        let terms: Vec<Term> = text.split_whitespace().map(term).collect();
        (!terms.is_empty()).then_some(Self { text, terms, window })
    }

    fn score(&self, lowered: &str) -> f64 {
        let whole = if lowered.contains(&self.text) { 2.0 } else { 0.0 };
        let bare = if lowered.is_ascii() { None } else { Some(without_marks(lowered)) };
        let bare = bare.as_deref().unwrap_or(lowered);
        let is_held = |term: &Term| {
            lowered.contains(&term.exact) || (!term.loose.is_empty() && bare.contains(&term.loose))
        };
        self.terms.iter().fold(whole, |sum, term| if is_held(term) { sum + 1.0 } else { sum })
    }

    /// Scores a session and shows its best message; `file` is asked for an id that it does not say.
    pub(super) fn find(&self, file: &str, document: &Document) -> Option<Found> {
        let turns = turns(document);
        let mut best: Option<(usize, f64)> = None;
        let mut total = 0.0;
        for turn in &turns {
            let score = self.score(&turn.text.to_lowercase());
            total += score;
            if score > best.map_or(0.0, |(_, score)| score) {
                best = Some((turn.index, score));
            }
        }
        let (anchor, _) = best?;
        if is_automated(document, &turns) {
            total *= DEMOTION;
        }
        let first = anchor.saturating_sub(self.window);
        let last = anchor.saturating_add(self.window).min(turns.len() - 1);
        let context = turns.get(first..=last).unwrap_or_default().iter().map(shown).collect();
        let when = when(document);
        let text = turns.get(anchor).map_or("", |turn| turn.text.as_str());
        let pairs = [
            ("session_id", id_of(file, document)),
            ("title", Json::text(&title(document))),
            ("when", when.clone()),
            ("snippet", Json::text(&self.snippet(text))),
            ("score", Json::Number(format!("{total:?}").into())),
            ("anchor_index", Json::int(anchor)),
            ("messages", Json::List(context)),
            ("bookends", bookends(&turns)),
        ];
        Some(Found {
            score: total,
            when: when.as_str().unwrap_or_default().to_owned(),
            lineage: lineage(document),
            hit: Json::Map(pairs.map(|(key, value)| (key.into(), value)).into()),
        })
    }

    fn snippet(&self, text: &str) -> String {
        let text: Vec<char> = collapse(text).chars().collect();
        let lowered: Vec<char> = text.iter().flat_map(|c| c.to_lowercase()).collect();
        let needle: Vec<char> = self.text.chars().collect();
        let Some(at) = lowered.windows(needle.len().max(1)).position(|window| *window == *needle) else {
            return text.iter().take(SNIPPET).collect();
        };
        let start = at.saturating_sub(SNIPPET / 2).min(text.len());
        let end = (start + SNIPPET).min(text.len());
        let before = if start > 0 { "…" } else { "" };
        let after = if end < text.len() { "…" } else { "" };
        let middle: String = text.get(start..end).unwrap_or_default().iter().collect();
        format!("{before}{middle}{after}")
    }
}

impl Store {
    /// Returns messages around one, by its place among all, as JSON; around the last one without it.
    pub fn window(document: &Document, around: Option<i64>, window: i64) -> Json {
        let turns = turns(document);
        let Some(last) = turns.len().checked_sub(1) else { return Json::List(Vec::new()) };
        let at = around.map_or(last, |at| usize::try_from(at).unwrap_or(0).min(last));
        let reach = |by: i64| i64::try_from(at).unwrap_or(i64::MAX).saturating_add(by);
        let first = usize::try_from(reach(window.saturating_neg())).unwrap_or(0);
        let end = usize::try_from(reach(window).saturating_add(1)).unwrap_or(0).min(turns.len());
        Json::List(turns.get(first..end).unwrap_or_default().iter().map(shown).collect())
    }
}

impl Store {
    /// Returns the other sessions of the conversation that a session goes on with, whole. A file
    /// that is no session may be one of them: [`Error::Damaged`].
    pub fn relatives(&self, document: &Document, now: f64) -> Result<Vec<Document>> {
        let Some(wanted) = lineage(document) else { return Ok(Vec::new()) };
        let id = document.session_id();
        let mut all = self.documents(now)?;
        all.retain(|other| lineage(other).as_ref() == Some(&wanted) && other.session_id() != id);
        Ok(all)
    }

    /// Returns all sessions, whole: [`Error::Damaged`] where a file is none.
    pub fn documents(&self, now: f64) -> Result<Vec<Document>> {
        let listing = self.list(now)?;
        if let Some(file) = listing.unreadable.first() {
            return Err(Error::damaged(&file.path, "the file", file.reason.as_str()));
        }
        let files: Vec<&str> = listing.entries.iter().map(|entry| &*entry.file).collect();
        Ok(self.read_all(&files, |_, document| Some(document.clone())))
    }
}

/// Returns what is shown of the best sessions, one of each lineage.
pub(super) fn best(mut found: Vec<Found>, limit: usize) -> Vec<Json> {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.when.cmp(&a.when)));
    let mut seen = HashSet::new();
    found.retain(|found| found.lineage.clone().is_none_or(|lineage| seen.insert(lineage)));
    found.into_iter().take(limit.max(1)).map(|found| found.hit).collect()
}

pub(super) fn turns(document: &Document) -> Vec<Turn<'_>> {
    let archived = document.archive.iter().map(|message| (message, true));
    let active = document.messages.iter().map(|message| (message, false));
    archived
        .chain(active)
        .enumerate()
        .map(|(index, (message, is_archived))| {
            let message = message.json();
            let text = match message.get("content") {
                Some(Json::Text(text)) => text.to_string(),
                Some(Json::Null) | None => String::new(),
                Some(other) => other.to_text(),
            };
            Turn { index, message, text, is_archived }
        })
        .collect()
}

fn shown(turn: &Turn<'_>) -> Json {
    let get = |key: &str| turn.message.get(key).cloned();
    let blank = || Json::text("");
    Json::Map(
        [
            ("index", Json::int(turn.index)),
            ("role", get("role").unwrap_or_else(blank)),
            ("content", get("content").unwrap_or_else(blank)),
            ("timestamp", get("timestamp").unwrap_or_default()),
            ("archived", Json::Bool(turn.is_archived)),
        ]
        .map(|(key, value)| (key.into(), value))
        .into(),
    )
}

fn bookends(turns: &[Turn<'_>]) -> Json {
    let is_said = |turn: &&Turn<'_>| {
        matches!(turn.message.get("role").and_then(Json::as_str), Some("user" | "assistant"))
    };
    let said: Vec<&Turn<'_>> = turns.iter().filter(is_said).collect();
    if said.is_empty() {
        return Json::empty();
    }
    let list = |turns: &[&Turn<'_>]| Json::List(turns.iter().map(|turn| shown(turn)).collect());
    let opening = said.get(..BOOKEND.min(said.len())).unwrap_or_default();
    let closing =
        if said.len() <= BOOKEND { &[] } else { said.get(said.len() - BOOKEND..).unwrap_or_default() };
    Json::Map(vec![("opening".into(), list(opening)), ("closing".into(), list(closing))])
}

pub(super) fn is_automated(document: &Document, turns: &[Turn<'_>]) -> bool {
    let source = document.get_or_metadata("source").and_then(Json::as_str).unwrap_or_default().to_lowercase();
    let tagged = document.get("metadata").and_then(|found| found.get("automated"));
    if AUTOMATED_SOURCES.contains(&source.as_str()) || tagged == Some(&Json::Bool(true)) {
        return true;
    }
    // A quick talk is no machine's when it says so.
    if tagged == Some(&Json::Bool(false)) {
        return false;
    }
    let mut stamps = Vec::with_capacity(turns.len());
    for turn in turns {
        match turn.message.get("timestamp") {
            None | Some(Json::Null) => {}
            Some(value) => match value.as_float() {
                Some(stamp) => stamps.push(stamp),
                None => return false,
            },
        }
    }
    let first = stamps.iter().copied().fold(f64::INFINITY, f64::min);
    let last = stamps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let hours = (last - first) / 3600.0;
    #[expect(clippy::cast_precision_loss, reason = "no session has so many messages")]
    let count = stamps.len() as f64;
    stamps.len() >= AUTOMATED.1 && hours > 0.0 && count / hours > AUTOMATED.0
}

/// When a session was last written, as it says itself.
pub(super) fn when(document: &Document) -> Json {
    let set = |key: &&str| document.get(key).filter(|value| value.is_truthy());
    ["updated_at", "created_at"].iter().find_map(set).cloned().unwrap_or_default()
}

/// The conversation that a session goes on with.
pub(super) fn lineage(document: &Document) -> Option<String> {
    let key = |key: &&str| document.get_or_metadata(key).filter(|value| value.is_truthy());
    LINEAGE.iter().find_map(key).map(|value| value.as_str().map_or_else(|| value.to_text(), str::to_owned))
}

fn title(document: &Document) -> String {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_text(), str::to_owned);
    let given = document.get("metadata").and_then(|found| found.get("title"));
    let name = document.get("agent_name");
    if let Some(value) = [given, name].into_iter().flatten().find(|value| value.is_truthy()) {
        return text(value);
    }
    let is_question = |message: &Json| message.get("role").and_then(Json::as_str) == Some("user");
    let first = document.messages.iter().find_map(|message| {
        let message = message.json();
        message.get("content").filter(|content| is_question(&message) && content.is_truthy()).map(&text)
    });
    first
        .map(|content| collapse(&content).chars().take(TITLE).collect())
        .or_else(|| document.session_id().map(str::to_owned))
        .unwrap_or_default()
}

pub(super) fn without_marks(text: &str) -> String {
    text.nfd().filter(|&c| !is_combining_mark(c)).collect()
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

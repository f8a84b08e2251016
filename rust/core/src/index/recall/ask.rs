//! A query as the index understands it: words are OR-ed and ranked, phrases are phrases.
//!
//! A union of single words is walked by block-max WAND, which passes over what cannot come among the best:
//! common words cost next to nothing. Beside a phrase there is no such walk, so words in more than a tenth
//! of the blocks are left out there, as in a search of one session; and an identifier of which all parts
//! stand in very many blocks is looked for as single words. A phrase in quotes stays one, whatever it costs.

use tantivy::query::{BooleanQuery, Occur, PhrasePrefixQuery, PhraseQuery, Query as Asked, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, Term};

use super::document::Fields;
use crate::recall::query::{Query, Term as Wanted};

/// A term in more than one of so many blocks is common.
const COMMON_SHARE: u64 = 10;
/// So few matches are scored at no cost that one could feel.
const ALWAYS_AFFORDABLE: u64 = 256;
/// A phrase is looked for in every block that holds all of its words; so many are affordable.
const LONG_LOOK: u64 = 1 << 14;

/// A term of a query in one field of the index.
struct Clause {
    asked: Box<dyn Asked>,
    /// In about how many blocks it stands.
    count: u64,
    is_word: bool,
}

impl Clause {
    /// Whether it looks for just this word.
    fn is_of(&self, term: &Term) -> bool {
        let mut is_same = false;
        self.asked.query_terms(&mut |own, _| is_same |= self.is_word && own == term);
        is_same
    }
}

/// Returns what to ask, or nothing where no block can match. Where a filter leaves few blocks anyway
/// (`is_narrow`) nothing is left out.
pub(super) fn translate(
    query: &Query,
    fields: &Fields,
    searcher: &Searcher,
    is_narrow: bool,
) -> tantivy::Result<Option<Box<dyn Asked>>> {
    let mut clauses = Vec::new();
    for wanted in query.terms() {
        let is_cut = add(&mut clauses, wanted, fields.body, searcher, is_narrow)?;
        // In the other field only the words of one identifier follow each other.
        if !wanted.in_text && !is_cut {
            add(&mut clauses, wanted, fields.whole, searcher, is_narrow)?;
        }
    }
    if !is_narrow && !clauses.iter().all(|clause| clause.is_word) {
        let affordable = (searcher.num_docs() / COMMON_SHARE).max(ALWAYS_AFFORDABLE);
        // Whether a phrase is found at all is not known beforehand.
        if clauses.iter().any(|clause| clause.is_word && clause.count <= affordable) {
            clauses.retain(|clause| clause.count <= affordable);
        }
    }
    let mut asked: Vec<Box<dyn Asked>> = clauses.into_iter().map(|clause| clause.asked).collect();
    Ok(match asked.len() {
        0 => None,
        1 => asked.pop(),
        _ => Some(Box::new(BooleanQuery::union(asked))),
    })
}

/// Asks a query of the blocks of some sessions alone.
pub(super) fn within(asked: Box<dyn Asked>, sessions: &[u64], fields: &Fields) -> Box<dyn Asked> {
    let of_session = |number: &u64| {
        let term = Term::from_field_u64(fields.session, *number);
        Box::new(TermQuery::new(term, IndexRecordOption::Basic)) as Box<dyn Asked>
    };
    let sessions = BooleanQuery::union(sessions.iter().map(of_session).collect());
    let unscored = tantivy::query::ConstScoreQuery::new(Box::new(sessions), 0.0);
    Box::new(BooleanQuery::new(vec![(Occur::Must, Box::new(unscored)), (Occur::Must, asked)]))
}

/// Adds a term in one field; `true` where it was cut into single words.
fn add(
    clauses: &mut Vec<Clause>,
    wanted: &Wanted,
    field: Field,
    searcher: &Searcher,
    is_narrow: bool,
) -> tantivy::Result<bool> {
    let terms: Vec<Term> = wanted.tokens.iter().map(|token| Term::from_field_text(field, token)).collect();
    let total = searcher.num_docs().max(1);
    let whole = if wanted.prefix { terms.len().saturating_sub(1) } else { terms.len() };
    let counts = terms
        .iter()
        .take(whole)
        .map(|term| searcher.doc_freq(term))
        .collect::<tantivy::Result<Vec<u64>>>()?;
    if counts.contains(&0) {
        return Ok(false);
    }
    // Words that meet by chance meet this often.
    let both = |all: u64, count: &u64| {
        let meet = u128::from(all) * u128::from((*count).min(total)) / u128::from(total);
        u64::try_from(meet).unwrap_or(all).max(1)
    };
    let word = |term: &Term, count: u64| {
        let asked = Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs));
        Clause { asked, count, is_word: true }
    };
    let phrase = |asked: Box<dyn Asked>, count: u64| Clause { asked, count, is_word: false };
    match (terms.as_slice(), wanted.prefix) {
        ([], _) => {}
        ([term], false) => clauses.push(word(term, counts[0])),
        (parts, false) if !is_narrow && is_long_look(wanted, &counts) => {
            for (at, (term, count)) in parts.iter().zip(counts).enumerate() {
                if !parts[..at].contains(term) && !clauses.iter().any(|clause| clause.is_of(term)) {
                    clauses.push(word(term, count));
                }
            }
            return Ok(true);
        }
        (_, false) => {
            let count = counts.iter().fold(total, both);
            clauses.push(phrase(Box::new(PhraseQuery::new(terms)), count));
        }
        // What begins like this is not known; someone who types wants to see it.
        (_, true) => clauses.push(phrase(Box::new(PhrasePrefixQuery::new(terms)), 1)),
    }
    Ok(false)
}

/// Whether an identifier would be looked for in very many blocks. Characters of scripts without spaces say
/// nothing one by one.
fn is_long_look(wanted: &Wanted, counts: &[u64]) -> bool {
    let is_identifier = !wanted.in_text && wanted.tokens.iter().all(|token| token.is_ascii());
    is_identifier && counts.iter().min().is_some_and(|count| *count > LONG_LOOK)
}

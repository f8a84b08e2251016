//! A query as the index understands it: words are OR-ed and ranked, phrases are phrases.
//!
//! A union of single words is walked by block-max WAND, which passes over what cannot come among the best:
//! common words cost next to nothing. Beside a phrase there is no such walk, so words in more than a tenth
//! of the blocks are left out there while rarer ones remain, as in a search of one session.

use tantivy::query::{BooleanQuery, Occur, PhrasePrefixQuery, PhraseQuery, Query as Asked, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, Term};

use super::document::Fields;
use crate::recall::query::{Query, Term as Wanted};

/// A term in more than one of so many blocks is common.
const COMMON_SHARE: u64 = 10;
/// So few matches are scored at no cost that one could feel.
const ALWAYS_AFFORDABLE: u64 = 256;

/// A term of a query in one field of the index.
struct Clause {
    asked: Box<dyn Asked>,
    /// In about how many blocks it stands.
    count: u64,
    is_word: bool,
}

/// Returns what to ask, or nothing where no block can match.
pub(super) fn translate(
    query: &Query,
    fields: &Fields,
    searcher: &Searcher,
) -> tantivy::Result<Option<Box<dyn Asked>>> {
    let mut clauses = Vec::new();
    for wanted in query.terms() {
        add(&mut clauses, wanted, fields.body, searcher)?;
        // In the other field only the words of one identifier follow each other.
        if !wanted.in_text {
            add(&mut clauses, wanted, fields.whole, searcher)?;
        }
    }
    if !clauses.iter().all(|clause| clause.is_word) {
        let affordable = (searcher.num_docs() / COMMON_SHARE).max(ALWAYS_AFFORDABLE);
        if clauses.iter().any(|clause| clause.count <= affordable) {
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

fn add(
    clauses: &mut Vec<Clause>,
    wanted: &Wanted,
    field: Field,
    searcher: &Searcher,
) -> tantivy::Result<()> {
    let terms: Vec<Term> = wanted.tokens.iter().map(|token| Term::from_field_text(field, token)).collect();
    let total = searcher.num_docs().max(1);
    let whole = if wanted.prefix { terms.len().saturating_sub(1) } else { terms.len() };
    // Words that meet by chance meet this often.
    let mut count = total;
    for term in terms.iter().take(whole) {
        let found = searcher.doc_freq(term)?;
        if found == 0 {
            return Ok(());
        }
        let both = u128::from(count) * u128::from(found.min(total)) / u128::from(total);
        count = u64::try_from(both).unwrap_or(count).max(1);
    }
    let (asked, is_word): (Box<dyn Asked>, bool) = match (terms.as_slice(), wanted.prefix) {
        ([], _) => return Ok(()),
        ([term], false) => {
            (Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs)), true)
        }
        (_, false) => (Box::new(PhraseQuery::new(terms)), false),
        (_, true) => {
            // What begins like this is not known; someone who types wants to see it.
            count = 1;
            (Box::new(PhrasePrefixQuery::new(terms)), false)
        }
    };
    clauses.push(Clause { asked, count, is_word });
    Ok(())
}

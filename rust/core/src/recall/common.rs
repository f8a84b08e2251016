//! Which terms of a query are worth their cost.
//!
//! Full text scores every match, so a word that half of the blocks hold costs more than all others
//! together and tells nothing. Such words are left out while rarer ones remain.

use super::query::{Query, Term, expression};

/// A term in more than one of so many blocks is common.
const COMMON_SHARE: u64 = 10;
/// So few matches are scored at no cost that one could feel, whatever share of the blocks they are.
const ALWAYS_AFFORDABLE: u64 = 256;

/// How to ask a query of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is nothing to search for, so there are no hits.
    Nothing,
    /// Match this expression and order by rank.
    Ranked(String),
    /// Match this expression and order by time, the newest first: all its terms are common, and a
    /// rank would cost much and say little.
    OnlyCommon(String),
}

impl Query {
    /// Decides how to ask. `frequency` returns in how many of the `total` blocks a token stands; it
    /// is asked once for each token of the query.
    pub fn plan(&self, total: u64, frequency: impl Fn(&str) -> u64) -> Plan {
        let affordable = (total / COMMON_SHARE).max(ALWAYS_AFFORDABLE);
        let counted: Vec<(&Term, u64)> =
            self.terms.iter().map(|term| (term, estimate(term, total, &frequency))).collect();
        let rare = |count: u64| count <= affordable;
        let found_rare = counted.iter().any(|(_, count)| *count > 0 && rare(*count));
        let found_common = counted.iter().any(|(_, count)| !rare(*count));
        let keep_rare = found_rare || !found_common;
        let kept = counted.iter().filter(|(_, count)| rare(*count) == keep_rare).map(|(term, _)| *term);
        match expression(kept) {
            None => Plan::Nothing,
            Some(text) if keep_rare => Plan::Ranked(text),
            Some(text) => Plan::OnlyCommon(text),
        }
    }
}

/// Returns about how many blocks hold a term. A phrase is taken for words that meet by chance.
fn estimate(term: &Term, total: u64, frequency: &impl Fn(&str) -> u64) -> u64 {
    if term.prefix {
        // What begins like this is not known; someone who types wants to see it.
        return 1;
    }
    let mut counts = term.tokens.iter().map(|token| frequency(token).min(total));
    let first = counts.next().unwrap_or(0);
    counts.fold(first, |all, count| {
        let chance = u128::from(all) * u128::from(count) / u128::from(total.max(1));
        let both = u64::try_from(chance).unwrap_or(all);
        if all > 0 && count > 0 { both.max(1) } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::super::query::parse;
    use super::*;

    fn frequency(token: &str) -> u64 {
        match token {
            "server" | "error" => 40_000,
            "zebra" => 3,
            _ => 0,
        }
    }

    #[test]
    fn common_words_are_left_out_while_rarer_ones_remain() {
        let plan = parse("server zebra").plan(100_000, frequency);

        assert_eq!(plan, Plan::Ranked("\"zebra\"".to_owned()));
    }

    #[test]
    fn common_words_alone_are_asked_for_by_time() {
        let plan = parse("server nowhere error").plan(100_000, frequency);

        assert_eq!(plan, Plan::OnlyCommon("\"server\" OR \"error\"".to_owned()));
    }

    #[test]
    fn nothing_is_common_in_a_small_index() {
        let plan = parse("server zebra").plan(200, frequency);

        assert_eq!(plan, Plan::Ranked("\"server\" OR \"zebra\"".to_owned()));
    }

    #[test]
    fn a_blank_query_asks_for_nothing() {
        assert_eq!(parse(" \t").plan(100, frequency), Plan::Nothing);
        assert_eq!(parse("nowhere").plan(0, frequency), Plan::Ranked("\"nowher\"".to_owned()));
    }
}

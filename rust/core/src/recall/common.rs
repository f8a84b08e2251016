//! Which terms of a query are worth their cost.
//!
//! Full text scores every match, so a word that half of the blocks hold costs more than all others
//! together and tells nothing. Such words are left out while rarer ones remain.

use super::query::{Query, Term, expression};

/// A term in more than one of so many blocks is common.
const COMMON_SHARE: u64 = 10;
/// So few matches are scored at no cost that one could feel, whatever share of the blocks they are.
const ALWAYS_AFFORDABLE: u64 = 1024;
/// A term in more blocks than this is common however many there are, or cost would grow with the index.
const NEVER_AFFORDABLE: u64 = 8192;
/// Commoner terms join the rarest one while all of them together match at most so many times as much
/// as one term may.
const TOGETHER: u64 = 2;
/// So many matches of all terms are always scored.
const ALWAYS_TOGETHER: u64 = 2048;

/// How to ask a query of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is nothing to search for, so there are no hits.
    Nothing,
    /// Match an expression and order by rank.
    Ranked {
        /// The expression; its phrases are in the order of `holders`.
        expression: String,
        /// In how many blocks each phrase stands, where that is known.
        holders: Vec<Option<u64>>,
    },
    /// Match this expression and order by time, the newest first: all its terms are common, and a
    /// rank would cost much and say little.
    OnlyCommon(String),
}

impl Query {
    /// Decides how to ask. `frequency` returns in how many of the `total` blocks a token stands; it
    /// is asked once for each token of the query.
    pub fn plan(&self, total: u64, frequency: impl Fn(&str) -> u64) -> Plan {
        let affordable = (total / COMMON_SHARE).clamp(ALWAYS_AFFORDABLE, NEVER_AFFORDABLE);
        let counted: Vec<(&Term, u64)> =
            self.terms.iter().map(|term| (term, estimate(term, total, &frequency))).collect();
        let rare = |count: u64| count <= affordable;
        let found_rare = counted.iter().any(|(_, count)| *count > 0 && rare(*count));
        let found_common = counted.iter().any(|(_, count)| !rare(*count));
        if !found_rare && found_common {
            let common = counted.iter().filter(|(_, count)| !rare(*count)).map(|(term, _)| *term);
            return expression(common).map_or(Plan::Nothing, Plan::OnlyCommon);
        }
        let budget = (affordable * TOGETHER).max(ALWAYS_TOGETHER);
        let kept = within(&counted, rare, budget);
        let holders = kept.iter().map(|(term, count)| (is_word(term)).then_some(*count)).collect();
        expression(kept.iter().map(|(term, _)| *term))
            .map_or(Plan::Nothing, |expression| Plan::Ranked { expression, holders })
    }
}

/// The rare terms, from the rarest on, while they match no more than the budget; in the order of the query.
fn within<'a>(counted: &[(&'a Term, u64)], rare: impl Fn(u64) -> bool, budget: u64) -> Vec<(&'a Term, u64)> {
    let mut order: Vec<usize> = (0..counted.len()).filter(|at| rare(counted[*at].1)).collect();
    order.sort_by_key(|at| counted[*at].1);
    let mut sum = 0_u64;
    order.retain(|at| {
        let is_first = sum == 0;
        sum = sum.saturating_add(counted[*at].1);
        is_first || sum <= budget
    });
    order.sort_unstable();
    order.into_iter().map(|at| counted[at]).collect()
}

/// Whether a term is one word, whose count is known and not guessed.
fn is_word(term: &Term) -> bool {
    !term.prefix && !term.in_text && term.tokens.len() == 1
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
            "market" => 8_000,
            "garden" => 8_100,
            "river" => 8_150,
            _ => 0,
        }
    }

    fn ranked(expression: &str, holders: &[Option<u64>]) -> Plan {
        Plan::Ranked { expression: expression.to_owned(), holders: holders.to_vec() }
    }

    #[test]
    fn commoner_words_join_while_all_together_stay_affordable() {
        let plan = parse("river market zebra garden").plan(100_000, frequency);

        assert_eq!(
            plan,
            ranked("\"market\" OR \"zebra\" OR \"garden\"", &[Some(8_000), Some(3), Some(8_100)])
        );
    }

    #[test]
    fn common_words_are_left_out_while_rarer_ones_remain() {
        let plan = parse("server zebra").plan(100_000, frequency);

        assert_eq!(plan, ranked("\"zebra\"", &[Some(3)]));
    }

    #[test]
    fn common_words_alone_are_asked_for_by_time() {
        let plan = parse("server nowhere error").plan(100_000, frequency);

        assert_eq!(plan, Plan::OnlyCommon("\"server\" OR \"error\"".to_owned()));
    }

    #[test]
    fn nothing_is_common_in_a_small_index() {
        let plan = parse("server zebra").plan(200, frequency);

        assert_eq!(plan, ranked("\"server\" OR \"zebra\"", &[Some(200), Some(3)]));
    }

    #[test]
    fn a_blank_query_asks_for_nothing() {
        assert_eq!(parse(" \t").plan(100, frequency), Plan::Nothing);
        assert_eq!(parse("nowhere").plan(0, frequency), ranked("\"nowher\"", &[Some(0)]));
    }
}

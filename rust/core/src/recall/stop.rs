//! English words that say little about what someone looks for.

/// Sorted, for the search below.
const STOP: &[&str] = &[
    "a", "about", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "both", "but", "by", "can", "could", "did", "do", "does", "doing", "each",
    "for", "from", "had", "has", "have", "having", "he", "her", "here", "him", "his", "how", "i", "if", "in",
    "into", "is", "it", "its", "just", "me", "more", "most", "my", "no", "nor", "not", "of", "on", "only",
    "or", "other", "our", "out", "over", "own", "same", "she", "should", "so", "some", "such", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "under",
    "until", "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "why",
    "will", "with", "would", "you", "your",
];

/// What an apostrophe cuts from the end of a word: don't, it's, we'll.
const ENDINGS: &[&str] = &["d", "ll", "m", "re", "s", "t", "ve"];

/// What stands before such an ending, besides the words above.
const STEMS: &[&str] = &[
    "ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "let", "mightn",
    "mustn", "needn", "shan", "shouldn", "wasn", "weren", "won", "wouldn", "y", "that", "there", "who",
];

/// Tells whether a folded word, given in its parts, says little.
pub(super) fn is_stop<'a>(parts: impl Iterator<Item = &'a str>) -> bool {
    let mut parts = parts;
    match (parts.next(), parts.next(), parts.next()) {
        (Some(word), None, _) => STOP.binary_search(&word).is_ok(),
        (Some(word), Some(ending), None) => {
            ENDINGS.contains(&ending) && (STOP.binary_search(&word).is_ok() || STEMS.contains(&word))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_contractions_count() {
        assert!(STOP.is_sorted());
        assert!(is_stop(["the"].into_iter()));
        assert!(is_stop(["don", "t"].into_iter()));
        assert!(!is_stop(["john", "s"].into_iter()));
        assert!(!is_stop(["to", "do"].into_iter()));
    }
}

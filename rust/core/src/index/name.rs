//! What the name of a file says: whether it is a session's, which one, and of which version.

/// The directory below a session directory in which copies of other nodes' sessions are kept.
pub const MIRROR: &str = "mirror";

const BUNDLE: &str = ".kohakutr";
const VERSION: &str = ".kohakutr.v";
const LEGACY: &str = ".kt";

/// The version that a session's file has by its name: 0 for `.kt`, 1 for a bare one, n + 2 for
/// `.vN`. `None` for the name of any other file.
///
/// The highest of the files of one session stands for it.
pub fn rank(name: &str) -> Option<u64> {
    if name.ends_with(BUNDLE) {
        return Some(1);
    }
    if name.ends_with(LEGACY) {
        return Some(0);
    }
    let digits = &name[name.rfind(VERSION)? + VERSION.len()..];
    let is_version = !digits.is_empty() && digits.len() < 19 && digits.bytes().all(|b| b.is_ascii_digit());
    is_version.then(|| digits.parse().ok()).flatten().map(|version: u64| version + 2)
}

/// The name of the session that a file belongs to; the whole name where it is not a session's.
pub fn stem(name: &str) -> &str {
    if let Some(stem) = name.strip_suffix(BUNDLE).or_else(|| name.strip_suffix(LEGACY)) {
        return stem;
    }
    match (rank(name), name.rfind(VERSION)) {
        (Some(_), Some(at)) => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_of_a_session_are_no_sessions() {
        let names = [
            "x.kohakutr-wal",
            "x.kohakutr.lock",
            "x.kohakutr.v2-shm",
            "x.kohakutr.v",
            "x.kohakutr.vN",
            "x.kt-wal",
        ];

        let ranks: Vec<_> = names.iter().filter_map(|name| rank(name)).collect();

        assert!(ranks.is_empty());
    }

    #[test]
    fn the_highest_version_has_the_highest_rank() {
        let names = ["x.kt", "x.kohakutr", "x.kohakutr.v0", "x.kohakutr.v2", "x.kohakutr.v10"];

        let ranks: Vec<_> = names.iter().filter_map(|name| rank(name)).collect();

        assert!(ranks.is_sorted() && ranks.len() == 5);
        assert!(names.iter().all(|name| stem(name) == "x"));
    }
}

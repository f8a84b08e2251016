//! The files of one session by its exact name: nothing is guessed, and no name becomes a path.

use std::path::{Path, PathBuf};

use super::name::{MIRROR, rank, stem};
use crate::error::{Error, Result};

/// Returns the files that a name means in a session directory, the one that stands for the session
/// first: of a session's name all its versions, of a file's name that file.
///
/// The directory itself comes before `mirror` in it; `mirror/<name>` means only the latter. The name is
/// compared with what the directories list, and never opened. [`Error::Invalid`] for a name that could
/// be no file's, [`Error::NotFound`] where there is no such session.
pub fn family(directory: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let (bare, only_mirror) = match name.strip_prefix("mirror/") {
        Some(bare) => (bare, true),
        None => (name, false),
    };
    if bare.is_empty() || bare == "." || bare == ".." || bare.contains(['/', '\0']) {
        return Err(Error::invalid(format!("name: {name:?} is not the name of a session")));
    }
    let homes = [directory.to_owned(), directory.join(MIRROR)];
    for home in homes.iter().skip(usize::from(only_mirror)) {
        let files = files_named(home, bare);
        if !files.is_empty() {
            return Ok(files);
        }
    }
    Err(Error::NotFound { path: directory.join(bare) })
}

fn files_named(home: &Path, name: &str) -> Vec<PathBuf> {
    // A directory that cannot be listed has no session that could be named.
    let Ok(entries) = std::fs::read_dir(home) else { return Vec::new() };
    let names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|found| rank(found).is_some())
        .collect();
    if rank(name).is_some() && names.iter().any(|found| found == name) {
        return vec![home.join(name)];
    }
    let mut versions: Vec<(u64, String)> = names
        .into_iter()
        .filter(|found| stem(found) == name)
        .filter_map(|found| Some((rank(&found)?, found)))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, found)| home.join(found)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mirror")).unwrap();
        for name in
            ["a.kohakutr", "a.kohakutr.v2", "a.kohakutr.v10", "ab.kohakutr", "a.kohakutr.lock", "mirror/b.kt"]
        {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        directory
    }

    #[test]
    fn a_name_means_the_versions_of_one_session() {
        let directory = directory();

        let files = family(directory.path(), "a").unwrap();

        let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.kohakutr.v10", "a.kohakutr.v2", "a.kohakutr"]);
    }

    #[test]
    fn a_file_name_means_that_file_and_the_mirror_comes_last() {
        let directory = directory();

        let file = family(directory.path(), "a.kohakutr").unwrap();
        let mirrored = family(directory.path(), "b").unwrap();

        assert_eq!(file, [directory.path().join("a.kohakutr")]);
        assert_eq!(mirrored, [directory.path().join("mirror/b.kt")]);
        assert_eq!(family(directory.path(), "mirror/b").unwrap(), mirrored);
    }

    #[test]
    fn no_name_leads_out_of_the_directory_or_is_guessed() {
        let directory = directory();

        for name in ["", ".", "..", "../a", "mirror/../a", "/etc/passwd", "a\0", "mirror/"] {
            assert!(matches!(family(directory.path(), name), Err(Error::Invalid { .. })), "{name:?}");
        }
        for name in ["A", "a*", "b.kt.v2", "mirror", "a.kohakutr.lock", ".kt-index.kvault"] {
            assert!(matches!(family(directory.path(), name), Err(Error::NotFound { .. })), "{name:?}");
        }
    }
}

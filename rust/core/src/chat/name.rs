//! The file of a session: that of the peer where it can be, another where two ids would share one.

use std::ffi::OsString;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// What follows the stem of a session's file.
pub(super) const ENDING: &str = ".json";
/// A stem that leaves room for the names of lock, quarantine and temporary file.
const LONGEST_STEM: usize = 225;
/// Names that Windows gives to devices, whatever their ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// A session's id with the stem that the peer makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    id: String,
    stem: String,
}

impl Name {
    /// Takes an id and its stem: each character of the id that is neither a letter, a digit, `-`
    /// nor `_` replaced by `_`. What a letter is the caller decides, for its tables must be the peer's.
    pub fn new(id: &str, stem: String) -> Result<Self> {
        if id.is_empty() {
            return Err(Error::invalid("session_id must not be empty"));
        }
        if stem.is_empty() || stem.contains(['/', '\0']) || stem.starts_with('.') {
            return Err(Error::invalid(format!("session_id has no safe file name: {id:?}")));
        }
        Ok(Self { id: id.to_owned(), stem })
    }

    /// The id as it was given.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id as the peer writes it in names of files.
    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    /// The file in which the peer looks for the session, unless its name would be too long.
    pub(super) fn shared_file(&self) -> Option<String> {
        (self.stem.len() <= LONGEST_STEM).then(|| format!("{}{ENDING}", self.stem))
    }

    /// The file that is this id's alone: `~` is in no name that the peer makes.
    pub(super) fn own_file(&self) -> String {
        let mut start = self.stem.as_str();
        while start.len() > LONGEST_STEM - 17 {
            start =
                start.char_indices().next_back().map_or("", |(end, _)| start.get(..end).unwrap_or_default());
        }
        format!("{start}~{:016x}{ENDING}", xxh3_64(self.id.as_bytes()))
    }

    /// Whether the id is that of the file itself, as somebody has it who lists the directory.
    pub(super) fn is_stem(&self) -> bool {
        self.id == self.stem
    }

    /// Whether a new session may take the shared file: not where another system would see a
    /// device, or the file of another session, in it.
    pub(super) fn may_share(&self, directory: &Path) -> std::io::Result<bool> {
        let Some(file) = self.shared_file() else { return Ok(false) };
        if is_device(&self.stem) {
            return Ok(false);
        }
        let folded = fold(&file);
        for entry in std::fs::read_dir(directory)? {
            let other: OsString = entry?.file_name();
            let Some(other) = other.to_str().filter(|name| name.ends_with(ENDING)) else { continue };
            let is_twin = if other.is_ascii() && file.is_ascii() {
                other.eq_ignore_ascii_case(&file)
            } else {
                fold(other) == folded
            };
            if is_twin && other != file {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The form in which names are equal where neither case nor composition counts.
fn fold(name: &str) -> String {
    let lower: String = name.nfd().flat_map(char::to_lowercase).collect();
    lower.nfc().collect()
}

fn is_device(stem: &str) -> bool {
    let lower = stem.to_lowercase();
    let is_port = |start: &str| {
        let number = lower.strip_prefix(start).unwrap_or_default();
        number.chars().count() == 1 && number.chars().all(|c| "0123456789¹²³".contains(c))
    };
    DEVICES.contains(&lower.as_str()) || is_port("com") || is_port("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str, stem: &str) -> Name {
        Name::new(id, stem.to_owned()).unwrap()
    }

    #[test]
    fn ids_of_one_stem_have_files_of_their_own() {
        let files = ["a:b", "a/b", "a_b"].map(|id| name(id, "a_b").own_file());

        assert_ne!(files[0], files[1]);
        assert_ne!(files[1], files[2]);
        assert!(files.iter().all(|file| file.starts_with("a_b~") && file.len() == 4 + 16 + 5));
    }

    #[test]
    fn a_long_stem_is_cut_between_characters() {
        let long = name("x", &"é".repeat(200));

        assert_eq!(long.shared_file(), None);
        assert!(long.own_file().len() <= LONGEST_STEM + 5);
    }

    #[test]
    fn devices_of_windows_are_no_names() {
        assert!(["CON", "nul", "com1", "LPT¹"].iter().all(|stem| is_device(stem)));
        assert!(!["console", "com", "com10", "x"].iter().any(|stem| is_device(stem)));
    }
}

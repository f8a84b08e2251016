//! What is kept of a session when its file cannot be read or written: set aside, or spilled elsewhere.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::cell::lock;
use super::document::{Document, Message};
use super::name::{ENDING, Name};
use super::proof::{self, Stamp};
use super::stamp::iso;
use super::store::{Change, Store};
use crate::codec::json::{self, Json};
use crate::files::corrupt;
use crate::files::exclusion::Exclusion;
use crate::files::replace::replace_alone;
use crate::{Error, Result};

/// A longer stem is cut in the names of spill files; the id stands in the file.
const LONGEST_STEM: usize = 160;
/// The key by which a spill file says whose it is. The peer writes none.
const HOME: &str = "session_dir";

static NEXT_SPILL: AtomicU32 = AtomicU32::new(0);

/// A directory of messages that could not be stored in their sessions. Stores of several
/// directories share it, and each takes only its own.
#[derive(Debug)]
pub struct Spills {
    directory: PathBuf,
    /// The names that were there when the directory looked so.
    seen: Mutex<Option<(Stamp, Vec<String>)>>,
}

impl Spills {
    /// Names a directory, which need not exist.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), seen: Mutex::default() }
    }

    /// Keeps messages that a session could not be given; on disk when it returns. Returns the file.
    pub fn keep(&self, store: &Store, name: &Name, messages: Vec<Json>, now: f64) -> Result<PathBuf> {
        let failed = |error: io::Error| Error::io(&self.directory, "create", &error);
        std::fs::create_dir_all(&self.directory).map_err(failed)?;
        let number = NEXT_SPILL.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}.{}.{}.{number:08x}.json", stem(name), millis(now), std::process::id());
        let spill = Json::Map(vec![
            ("session_id".into(), Json::text(name.id())),
            ("spilled_at".into(), Json::text(&iso(now))),
            ("messages".into(), Json::List(messages)),
            (HOME.into(), Json::text(&home(store))),
        ]);
        let path = self.directory.join(&file);
        let temporary = OsString::from(format!(".{file}.tmp"));
        replace_alone(&path, &temporary, spill.to_text().as_bytes(), true)?;
        Ok(path)
    }

    /// Gives a session the messages that were kept for it, and removes their files. Returns how many
    /// files that were. Costs one look at the directory where nothing was kept since the last.
    ///
    /// A file that says for which directory it was kept is taken by a store of that one alone; what
    /// is no spill file of the session stays.
    pub fn recover(&self, store: &Store, name: &Name, change: Change) -> Result<usize> {
        let home = home(store);
        let mut found = Vec::new();
        for path in self.of(name, change.now)? {
            found.extend(read(&path, name, &home)?.map(|messages| (path, messages)));
        }
        if found.is_empty() {
            return Ok(0);
        }
        let messages: Vec<Json> = found.iter().flat_map(|(_, messages)| messages).cloned().collect();
        store.change(name, change, |document| Ok(fold(document, messages)))?;
        for (path, _) in &found {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(path, "delete", &error));
                }
                // Another process was quicker.
                Ok(()) | Err(_) => {}
            }
        }
        Ok(found.len())
    }

    /// Returns the files that may be of a session, oldest first.
    fn of(&self, name: &Name, now: f64) -> Result<Vec<PathBuf>> {
        let prefix = format!("{}.", stem(name));
        let mut files: Vec<String> = self.names(now)?;
        files.retain(|file| file.starts_with(&prefix) && file.ends_with(ENDING));
        files.sort_unstable();
        Ok(files.into_iter().map(|file| self.directory.join(file)).collect())
    }

    fn names(&self, now: f64) -> Result<Vec<String>> {
        let failed = |error: io::Error| Error::io(&self.directory, "list", &error);
        let Some(stamp) = Stamp::look(&self.directory).map_err(failed)? else { return Ok(Vec::new()) };
        let mut seen = lock(&self.seen);
        if let Some((_, names)) = seen.as_ref().filter(|(then, _)| *then == stamp) {
            return Ok(names.clone());
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        *seen = (!stamp.is_young(now)).then(|| (stamp, names.clone()));
        Ok(names)
    }
}

impl Store {
    /// Moves a damaged file of this directory out of the way, so that the session can begin anew,
    /// and returns where its bytes are now; `None` when the file is sound, or gone.
    pub fn set_aside(&self, file: &Path, now: f64, timeout: Duration) -> Result<Option<PathBuf>> {
        let Some(file) = file.file_name() else { return Ok(None) };
        let path = self.directory.join(file);
        let failed = |error: io::Error| Error::io(&path, "set aside", &error);
        let _excluded = Exclusion::take(&path, timeout)?;
        let Some((bytes, _)) = proof::read(&path).map_err(failed)? else { return Ok(None) };
        if Document::parse(&bytes).is_ok() {
            return Ok(None);
        }
        let aside = corrupt::free_name(&path, now).map_err(failed)?;
        self.announced(&path, || std::fs::rename(&path, &aside)).map_err(failed)?;
        self.memory.forget(file.to_str());
        self.sync()?;
        Ok(Some(aside))
    }

    /// Puts a document in the place of a file, for whoever holds the session's lock.
    pub fn put(&self, file: &Path, document: &Document) -> Result<()> {
        self.announced(file, || self.write(file, document)).map(drop)
    }
}

fn millis(now: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let millis = (now * 1e3) as i64;
    millis
}

fn stem(name: &Name) -> &str {
    let mut stem = name.stem();
    while stem.len() > LONGEST_STEM {
        let end = stem.char_indices().next_back().map_or(0, |(end, _)| end);
        stem = stem.get(..end).unwrap_or_default();
    }
    stem
}

/// The name of a store's directory, the same by whatever way one comes to it.
fn home(store: &Store) -> String {
    let whole = std::fs::canonicalize(&store.directory).unwrap_or_else(|_| store.directory.clone());
    whole.to_string_lossy().into_owned()
}

/// Reads the messages of a spill file; `None` where it is none, or not of this session.
fn read(path: &Path, name: &Name, home: &str) -> Result<Option<Vec<Json>>> {
    let read = proof::read(path).map_err(|error| Error::io(path, "read", &error))?;
    let Some(spill) = read.and_then(|(bytes, _)| json::parse(&bytes).ok()) else { return Ok(None) };
    let text = |key: &str| spill.get(key).and_then(Json::as_str);
    let is_ours = text("session_id") == Some(name.id()) && text(HOME).is_none_or(|other| other == home);
    let Some(Json::List(items)) = spill.get("messages").filter(|_| is_ours) else { return Ok(None) };
    let at = told_by_name(path);
    let messages = items.iter().filter(|item| matches!(item, Json::Map(_))).cloned();
    Ok(Some(messages.map(|message| timed(message, &at)).collect()))
}

/// When a spill was made, in seconds as messages have it: names of files have it in all of them.
fn told_by_name(path: &Path) -> Json {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let millis: u64 = name.split('.').nth(1).and_then(|part| part.parse().ok()).unwrap_or(0);
    Json::Number(format!("{}.{:03}", millis / 1000, millis % 1000).into())
}

/// Gives a message without a time that of its spill, by which it is known when it is found again.
fn timed(mut message: Json, at: &Json) -> Json {
    if message.get("timestamp").is_none() {
        message.set("timestamp", at.clone());
    }
    message
}

/// Adds the messages that are not there already: a process killed before it removed their file has
/// added them. Returns whether there were any.
fn fold(document: &mut Document, messages: Vec<Json>) -> bool {
    let key = |message: &Json| ["role", "content", "timestamp"].map(|key| message.get(key).cloned());
    let mut seen: Vec<_> =
        document.archive.iter().chain(&document.messages).map(|message| key(&message.json())).collect();
    let before = document.messages.len();
    for message in messages {
        let own = key(&message);
        if !seen.contains(&own) {
            seen.push(own);
            document.messages.push(Message::new(&message));
        }
    }
    document.messages.len() > before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: &str, timestamp: Option<&str>) -> Json {
        let mut message = Json::empty();
        message.set("role", Json::text("user"));
        message.set("content", Json::text(content));
        if let Some(timestamp) = timestamp {
            message.set("timestamp", Json::Number(timestamp.into()));
        }
        message
    }

    #[test]
    fn a_message_without_a_time_gets_that_of_its_spill_and_another_keeps_its_own() {
        let at = told_by_name(Path::new("/spills/s.1767323308250.17.0000000a.json"));

        assert_eq!(
            timed(message("x", None), &at).get("timestamp"),
            Some(&Json::Number("1767323308.250".into()))
        );
        assert_eq!(timed(message("x", Some("1.5")), &at), message("x", Some("1.5")));
    }

    #[test]
    fn a_message_that_is_there_or_archived_is_not_added_again() {
        let mut document = Document::new("s", "t");
        document.archive.push(Message::new(&message("old", Some("1"))));
        document.messages.push(Message::new(&message("new", Some("2"))));
        let spilled = [("old", "1"), ("new", "2"), ("new", "3"), ("new", "3")];

        let is_changed =
            fold(&mut document, spilled.map(|(content, at)| message(content, Some(at))).to_vec());

        assert!(is_changed);
        assert_eq!(document.messages.len(), 2);
        assert_eq!(*document.messages[1].json(), message("new", Some("3")));
    }

    #[test]
    fn a_long_stem_is_cut_between_characters() {
        let long = Name::new("x", "é".repeat(200)).unwrap();

        assert_eq!(stem(&long), "é".repeat(80));
    }
}

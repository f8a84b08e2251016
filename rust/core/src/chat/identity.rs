//! Which user of a platform is who: one JSON file that any number of processes share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::proof;
use crate::codec::json::{self, Json};
use crate::files::exclusion::Exclusion;
use crate::files::replace::replace_alone;
use crate::{Error, Result};

/// The key of the file under which the links stand.
const LINKS: &str = "links";

/// The file of links; nothing of it is kept between calls, so that every answer is the file's.
#[derive(Debug)]
pub struct Links {
    path: PathBuf,
    timeout: Duration,
}

impl Links {
    /// Names a file, which need not exist; `timeout` is how long a change waits for another.
    pub fn at(path: &Path, timeout: Duration) -> Self {
        Self { path: path.to_owned(), timeout }
    }

    /// Returns all links in the order in which they were made. [`Error::Damaged`] where the file
    /// holds anything else; it is left as it is.
    pub fn all(&self) -> Result<Vec<(String, String)>> {
        let document = self.read()?;
        let Some(Json::Map(pairs)) = document.get(LINKS) else { return Ok(Vec::new()) };
        let text = |(key, value): &(Box<str>, Json)| Some((key.to_string(), value.as_str()?.to_owned()));
        Ok(pairs.iter().filter_map(text).collect())
    }

    /// Returns where a key leads.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let document = self.read()?;
        Ok(document.get(LINKS).and_then(|links| links.get(key)).and_then(Json::as_str).map(str::to_owned))
    }

    /// Lets a key lead to `target`. [`Error::Invalid`] when it leads elsewhere and is not to be
    /// replaced.
    pub fn link(&self, key: &str, target: &str, replace: bool) -> Result<()> {
        self.change(|links| match links.get(key).and_then(Json::as_str) {
            Some(other) if other == target => Ok(false),
            Some(other) if !replace => {
                Err(Error::invalid(format!("{key:?} is linked to {other:?}, and not to be replaced")))
            }
            _ => {
                links.set(key, Json::text(target));
                Ok(true)
            }
        })
    }

    /// Lets a key lead nowhere.
    pub fn unlink(&self, key: &str) -> Result<()> {
        self.change(|links| Ok(links.remove(key).is_some()))
    }

    fn change(&self, change: impl FnOnce(&mut Json) -> Result<bool>) -> Result<()> {
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, "create", &error))?;
        }
        let _excluded = Exclusion::take(&self.path, self.timeout)?;
        let mut document = self.read()?;
        let mut links = document.get(LINKS).cloned().unwrap_or_else(Json::empty);
        if !change(&mut links)? {
            return Ok(());
        }
        document.set(LINKS, links);
        let mut bytes = Vec::new();
        document.write_indented(0, &mut bytes);
        let mut temporary = OsString::from(".");
        temporary.push(self.path.file_name().unwrap_or_default());
        temporary.push(".tmp");
        replace_alone(&self.path, &temporary, &bytes, true).map(drop)
    }

    fn read(&self) -> Result<Json> {
        let read = proof::read(&self.path).map_err(|error| Error::io(&self.path, "read", &error))?;
        let Some((bytes, _)) = read else { return Ok(Json::empty()) };
        let document = json::parse(&bytes)
            .map_err(|fault| Error::damaged(&self.path, format!("offset {}", fault.offset), fault.what))?;
        let is_sound = matches!(document.get(LINKS), None | Some(Json::Map(_)));
        if matches!(document, Json::Map(_)) && is_sound {
            Ok(document)
        } else {
            Err(Error::damaged(&self.path, "offset 0", "it holds no links"))
        }
    }
}

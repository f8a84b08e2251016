//! A whole copy of a bundle that may be in use: the database and its artifacts.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::handle::{Inner, exists};
use crate::db::fault::translate;
use crate::db::open;
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;
use crate::files::aside::{Aside, Work};

const ACTION: &str = "back up to";

impl Inner {
    /// Copies the bundle to `target`, which must not exist. The copy appears whole or not at all.
    pub(super) fn backup(&self, target: &Path) -> Result<()> {
        if exists(target) {
            return Err(Error::invalid(format!("path: `{}` exists already", target.display())));
        }
        if self.source.is_none() {
            self.check_process(ACTION)?;
            let mut state = self.lock();
            self.commit_batch(&mut state, ACTION)?;
            self.write_locked(&mut state, ACTION, Self::refresh_conversations)?;
        }
        let directory =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let fault = |source: std::io::Error| Error::io(target, ACTION, &source);
        let partial = Aside::make(directory, Work::Backup, ACTION)?;
        let copy = partial.path().join("copy");
        if self.source.is_some() {
            self.read(ACTION, |connection| copy_database(connection, &copy))?;
        } else {
            // One read transaction sees one state, however much is appended meanwhile.
            copy_database(&open::reader(&self.path)?, &copy)?;
        }
        let from = artifacts_dir(&self.path);
        let artifacts = partial.path().join("artifacts");
        if from.is_dir() && !from.is_symlink() {
            copy_tree(&from, &artifacts, ACTION)?;
        }
        std::fs::File::open(&copy).and_then(|file| file.sync_all()).map_err(fault)?;
        if artifacts.is_dir() {
            std::fs::rename(&artifacts, artifacts_dir(target)).map_err(fault)?;
        }
        // `hard_link` refuses a name that was taken meanwhile, which `rename` would replace.
        std::fs::hard_link(&copy, target).map_err(fault)?;
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(fault)
    }
}

/// Copies the database that a connection reads to a new file.
pub(super) fn copy_database(source: &Connection, target: &Path) -> Result<()> {
    let fault = |source: rusqlite::Error| translate(target, ACTION, &source);
    source.execute_batch("BEGIN").map_err(fault)?;
    let copied = (|| {
        let mut copy = Connection::open(target)?;
        Backup::new(source, &mut copy)?.run_to_completion(i32::MAX, std::time::Duration::ZERO, None)?;
        copy.close().map_err(|(_, source)| source)
    })();
    let ended = source.execute_batch("END");
    copied.and(ended).map_err(fault)
}

/// Copies the files and directories under `from`, on disk when it returns; links are left out.
pub(super) fn copy_tree(from: &Path, to: &Path, action: &'static str) -> Result<()> {
    let mut left: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        let fault = |source: std::io::Error| Error::io(&from, action, &source);
        std::fs::create_dir_all(&to).map_err(fault)?;
        for entry in std::fs::read_dir(&from).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                left.push((entry.path(), target));
            } else if kind.is_file() {
                std::fs::copy(entry.path(), &target).map_err(fault)?;
                std::fs::File::open(&target).and_then(|file| file.sync_all()).map_err(fault)?;
            }
        }
    }
    Ok(())
}

//! The files of a fork: made aside, moved to their names when they are whole.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::ACTION;
use crate::bundle::backup::copy_tree;
use crate::bundle::handle::exists;
use crate::bundle::sync::wal_of;
use crate::error::{Error, Result};
use crate::files::artifact::artifacts_dir;
use crate::files::aside::{Aside, Work, keep_private};
use crate::files::lock::lock_path;

/// The files of a child that stand under their names.
pub struct Placed {
    bundle: PathBuf,
    artifacts: Option<PathBuf>,
}

/// Refuses a name that is taken, by a session or by what one left behind.
pub fn check_free(parent: &Path, target: &Path) -> Result<()> {
    let artifacts = artifacts_dir(target);
    if artifacts == artifacts_dir(parent) && !exists(target) {
        return Err(Error::invalid(format!(
            "target_path: `{}` would share the artifacts of the session that it is forked from",
            target.display()
        )));
    }
    let mut journal = target.as_os_str().to_owned();
    journal.push("-journal");
    // SQLite would take a log that lies there for the new file's own.
    let taken =
        [target.to_owned(), wal_of(target), PathBuf::from(journal)].into_iter().find(|path| exists(path));
    let taken = taken.or_else(|| is_taken(&artifacts).then_some(artifacts));
    taken.map_or(Ok(()), |path| Err(Error::Exists { path }))
}

/// Whether something other than an empty directory is there.
fn is_taken(directory: &Path) -> bool {
    exists(directory) && std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_some())
}

impl Placed {
    /// Has `fill` make the database aside, copies the artifacts of `parent`, and moves both to their names.
    pub fn make(parent: &Path, target: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let directory =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let fault = |source: std::io::Error| Error::io(target, ACTION, &source);
        std::fs::create_dir_all(directory).map_err(fault)?;
        let partial = Aside::make(directory, Work::Fork, ACTION)?;
        let copy = partial.path().join("copy");
        fill(&copy)?;
        keep_private(parent, &copy).map_err(fault)?;
        std::fs::File::open(&copy).and_then(|file| file.sync_all()).map_err(fault)?;
        let from = artifacts_dir(parent);
        let aside = partial.path().join("artifacts");
        let mut placed = Self { bundle: target.to_owned(), artifacts: None };
        if from.is_dir() && !from.is_symlink() {
            copy_tree(&from, &aside, ACTION)?;
            let artifacts = artifacts_dir(target);
            std::fs::rename(&aside, &artifacts).map_err(|source| refused(&artifacts, &source))?;
            placed.artifacts = Some(artifacts);
        }
        // `hard_link` refuses a name that was taken meanwhile, which `rename` would replace.
        if let Err(source) = std::fs::hard_link(&copy, target) {
            placed.remove_artifacts()?;
            return Err(refused(target, &source));
        }
        let synced = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
        if let Err(source) = synced {
            placed.remove()?;
            return Err(fault(source));
        }
        Ok(placed)
    }

    /// Removes everything again.
    pub fn remove(&self) -> Result<()> {
        let mut shared = self.bundle.as_os_str().to_owned();
        shared.push("-shm");
        for path in
            [self.bundle.clone(), wal_of(&self.bundle), PathBuf::from(shared), lock_path(&self.bundle)]
        {
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::io(&path, ACTION, &source));
                }
                _ => {}
            }
        }
        self.remove_artifacts()
    }

    fn remove_artifacts(&self) -> Result<()> {
        match &self.artifacts {
            Some(path) => std::fs::remove_dir_all(path).map_err(|source| Error::io(path, ACTION, &source)),
            None => Ok(()),
        }
    }
}

fn refused(path: &Path, source: &std::io::Error) -> Error {
    match source.kind() {
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => Error::Exists { path: path.to_owned() },
        _ => Error::io(path, ACTION, source),
    }
}

//! What can go wrong: one variant for each thing that a caller can act on.

use std::path::{Path, PathBuf};

/// The result of everything in the core that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer held the database for longer than the caller would wait.
    #[error("`{}` is busy: another writer held it for longer than the timeout", path.display())]
    Busy {
        /// The file that stayed locked.
        path: PathBuf,
    },
    /// The writer lock of the session belongs to somebody else.
    #[error("`{}` is open for writing elsewhere{}", path.display(), holder(*holder_pid))]
    Locked {
        /// The bundle whose lock is held.
        path: PathBuf,
        /// The process that wrote its id into the lock file, where it can be read.
        holder_pid: Option<u32>,
    },
    /// Bytes on disk are not what was written.
    #[error("`{}` is damaged at {at}: {what}", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// Table and key, or offset: `events[alice:e000003]`, `page 7`.
        at: String,
        /// What was found.
        what: String,
    },
    /// The file was written by a newer format than this one understands.
    #[error("`{}` has format version {found}, newer than {supported}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that can be read.
        supported: i64,
    },
    /// The file was written by an older format, and has to be migrated before it is used as was asked.
    #[error("`{}` has format version {found}, older than {present}", path.display())]
    Outdated {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that was asked for.
        present: i64,
    },
    /// A write was asked of something that may only be read.
    #[error("cannot {action}: `{}` is open read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// The verb that was refused.
        action: &'static str,
    },
    /// The bundle was deleted or moved while it was open.
    #[error("the session `{}` is gone: its file was moved or deleted", path.display())]
    Gone {
        /// Where the bundle was.
        path: PathBuf,
    },
    /// The handle was closed, or belongs to the process that this one was forked from.
    #[error("cannot {action}: {reason}: `{}`", path.display())]
    Closed {
        /// The bundle.
        path: PathBuf,
        /// The verb that was refused.
        action: &'static str,
        /// `the session is closed`, or what else made the handle unusable.
        reason: &'static str,
    },
    /// There is no such file.
    #[error("there is no session at `{}`", path.display())]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A new session was to get a name that is taken.
    #[error("there is something at `{}` already", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// A fork would cut through calls that are still running.
    #[error("cannot fork `{}`: still running before the point: {what}", path.display())]
    ForkNotStable {
        /// The session that was to be forked.
        path: PathBuf,
        /// The calls.
        what: String,
    },
    /// A session of the first format cannot be carried over, since nobody can tell what belongs where.
    #[error("cannot migrate `{}`: {what}", path.display())]
    Mixed {
        /// The session.
        path: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// The operating system or SQLite refused a read or a write; nothing was acknowledged.
    #[error("cannot {action} `{}`: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done: `append to`, `open`.
        action: &'static str,
        /// The system's own words.
        reason: String,
        /// `errno`, where there is one (28 for a full disk).
        errno: Option<i32>,
    },
    /// An argument has the right type and a wrong value.
    #[error("{what}")]
    Invalid {
        /// What is wrong, with the argument's name.
        what: String,
    },
    /// A view of branches asks for what the log does not have, or contradicts itself.
    #[error("{what}")]
    BranchView {
        /// Which branch of which turn, and why it cannot be had.
        what: String,
    },
    /// A value cannot be stored so that it comes back equal.
    #[error("{at}: {what}")]
    Unstorable {
        /// Where in the value: `$.args.x[3]`.
        at: String,
        /// Why.
        what: String,
        /// Whether the type is at fault (`TypeError`) or the value (`ValueError`).
        by_type: bool,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl Error {
    /// Wraps an operating-system error with the file and the action it stopped.
    pub fn io(path: &Path, action: &'static str, source: &std::io::Error) -> Self {
        // An error that somebody else has wrapped has lost its number, and kept its kind.
        let of_kind = || match source.kind() {
            std::io::ErrorKind::PermissionDenied => Some(libc::EACCES),
            std::io::ErrorKind::ReadOnlyFilesystem => Some(libc::EROFS),
            _ => None,
        };
        let errno = source.raw_os_error().or_else(of_kind);
        Self::Io { path: path.to_owned(), action, reason: source.to_string(), errno }
    }

    /// Builds an [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    /// Builds an [`Error::Damaged`].
    pub fn damaged(path: &Path, at: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), at: at.into(), what: what.into() }
    }
}

//! SQLite's errors in the project's own words.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::Error;

const ENOSPC: i32 = 28;

/// Translates what SQLite said while `action` was done to the file at `path`.
pub fn translate(path: &Path, action: &'static str, source: &rusqlite::Error) -> Error {
    let code = source.sqlite_error_code();
    let path = path.to_owned();
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Damaged { path, at: "its database".to_owned(), what: source.to_string() }
        }
        Some(ErrorCode::ReadOnly) => Error::ReadOnly { path, action },
        Some(ErrorCode::DiskFull) => {
            Error::Io { path, action, reason: "no space left on the device".to_owned(), errno: Some(ENOSPC) }
        }
        Some(ErrorCode::TooBig) => Error::Invalid {
            what: format!(
                "cannot {action} `{}`: the value is larger than SQLite's limit of 1 GB",
                path.display()
            ),
        },
        _ => Error::Io { path, action, reason: source.to_string(), errno: None },
    }
}

/// The same for a table that is derived from others: what contradicts itself there is damage.
pub fn translate_derived(path: &Path, action: &'static str, source: &rusqlite::Error) -> Error {
    if source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
        return Error::damaged(path, "its text index", source.to_string());
    }
    translate(path, action, source)
}

/// Whether the error says that the bytes of the database are not sound.
pub fn is_corruption(source: &rusqlite::Error) -> bool {
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

//! What SQLite's full text knows of a match, handed out as it is.
//!
//! The stock ranking function cannot be told how much a length counts, and reads a row of sizes for
//! every match. `amber_counts` returns only how often each phrase of the query stands in the row, one
//! byte a phrase.

use std::os::raw::c_int;
use std::ptr;

use rusqlite::{Connection, ffi};

/// Makes `amber_counts` known to a connection, once.
pub fn register(connection: &Connection) -> rusqlite::Result<()> {
    let Some(api) = api_of(connection)? else {
        return outcome(ffi::SQLITE_ERROR);
    };
    // SAFETY: SQLite returned the pointer for this connection, which outlives the call; the name is
    // copied, and the function keeps no state.
    let code = unsafe {
        match (*api).xCreateFunction {
            Some(create) => create(api, c"amber_counts".as_ptr(), ptr::null_mut(), Some(counts), None),
            None => ffi::SQLITE_ERROR,
        }
    };
    outcome(code)
}

fn outcome(code: c_int) -> rusqlite::Result<()> {
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }
}

/// Asks the full-text extension for its functions, in the one way that it offers.
fn api_of(connection: &Connection) -> rusqlite::Result<Option<*mut ffi::fts5_api>> {
    let mut api: *mut ffi::fts5_api = ptr::null_mut();
    let mut statement: *mut ffi::sqlite3_stmt = ptr::null_mut();
    // SAFETY: the handle lives as long as `connection`, which this thread holds; the statement is
    // finished before the variable goes that its parameter points to.
    let code = unsafe {
        let mut code = ffi::sqlite3_prepare_v2(
            connection.handle(),
            c"SELECT fts5(?1)".as_ptr(),
            -1,
            &raw mut statement,
            ptr::null_mut(),
        );
        if code == ffi::SQLITE_OK {
            let slot = (&raw mut api).cast();
            code = ffi::sqlite3_bind_pointer(statement, 1, slot, c"fts5_api_ptr".as_ptr(), None);
        }
        if code == ffi::SQLITE_OK {
            ffi::sqlite3_step(statement);
        }
        let finished = ffi::sqlite3_finalize(statement);
        if code == ffi::SQLITE_OK { finished } else { code }
    };
    outcome(code)?;
    Ok((!api.is_null()).then_some(api))
}

/// The most phrases that are counted; a query has fewer.
const PHRASES: usize = 128;

unsafe extern "C" fn counts(
    api: *const ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    _arguments: c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    let mut found = [0_u8; PHRASES];
    // SAFETY: FTS5 calls this with its own functions and a context that is valid for them; the bytes
    // are copied before they go.
    unsafe {
        match count_into(api, fts, &mut found) {
            Ok(length) => {
                let length = c_int::try_from(length).unwrap_or(0);
                ffi::sqlite3_result_blob(context, found.as_ptr().cast(), length, ffi::SQLITE_TRANSIENT());
            }
            Err(code) => ffi::sqlite3_result_error_code(context, code),
        }
    }
}

/// # Safety
///
/// Both pointers are those that FTS5 called with.
unsafe fn count_into(
    api: *const ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    found: &mut [u8; PHRASES],
) -> Result<usize, c_int> {
    // SAFETY: the caller vouches for both.
    unsafe {
        let (Some(phrases), Some(total), Some(each)) = ((*api).xPhraseCount, (*api).xInstCount, (*api).xInst)
        else {
            return Err(ffi::SQLITE_ERROR);
        };
        let length = usize::try_from(phrases(fts)).unwrap_or(0).min(PHRASES);
        let mut instances = 0;
        let code = total(fts, &raw mut instances);
        if code != ffi::SQLITE_OK {
            return Err(code);
        }
        for instance in 0..instances {
            let (mut phrase, mut column, mut offset) = (0, 0, 0);
            let code = each(fts, instance, &raw mut phrase, &raw mut column, &raw mut offset);
            if code != ffi::SQLITE_OK {
                return Err(code);
            }
            if let Some(count) = usize::try_from(phrase).ok().and_then(|at| found.get_mut(at)) {
                *count = count.saturating_add(1);
            }
        }
        Ok(length)
    }
}

//! Questions that the ledger answers, asked outside of a write.

use rusqlite::Connection;

use super::handle::Inner;
use super::ledger::Ledger;
use crate::db::ffi;
use crate::error::Result;

impl Inner {
    /// Runs `work` with numbers that are level with the file.
    pub(super) fn with_numbers<R>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut Ledger, &Connection) -> rusqlite::Result<R>,
    ) -> Result<R> {
        if self.source.is_some() {
            return self.read(action, |connection| {
                Ledger::load(connection)
                    .and_then(|mut ledger| work(&mut ledger, connection))
                    .map_err(self.fault(action))
            });
        }
        self.check_process(action)?;
        self.settle(action)?;
        let mut state = self.lock();
        self.drain(&mut state, action)?;
        let in_batch = state.batch.is_some();
        let connection = state.connection.take().ok_or_else(|| self.closed(action))?;
        let outcome = (|| {
            if in_batch {
                let version = ffi::data_version(&connection);
                return level(&mut state.ledger, &connection, version)
                    .and_then(|ledger| work(ledger, &connection));
            }
            // One read transaction: the version and the numbers are of one state of the file.
            connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_master LIMIT 1")?;
            let version = ffi::data_version(&connection);
            let numbers =
                level(&mut state.ledger, &connection, version).and_then(|ledger| work(ledger, &connection));
            connection.execute_batch("END")?;
            numbers
        })();
        if !in_batch && !connection.is_autocommit() {
            // The read that failed may have left its transaction open.
            connection.execute_batch("ROLLBACK").map_err(self.fault(action))?;
        }
        state.connection = Some(connection);
        outcome.map_err(self.fault(action))
    }
}

fn level<'a>(
    ledger: &'a mut Option<Ledger>,
    connection: &Connection,
    version: Option<u32>,
) -> rusqlite::Result<&'a mut Ledger> {
    let ledger = match ledger {
        Some(ledger) => ledger,
        missing => {
            let mut loaded = Ledger::load(connection)?;
            loaded.version = version;
            missing.insert(loaded)
        }
    };
    if ledger.version != version {
        ledger.mark_stale();
        ledger.version = version;
    }
    Ok(ledger)
}

//! The state of an agent: every slot of its own, small or large, but for its snapshots.

use rusqlite::Connection;

use crate::bundle::handle::Inner;
use crate::bundle::kv::get_in;
use crate::bundle::snapshot::{SLOTS, lagging, unwritten};
use crate::bundle::value::Payload;
use crate::db::schema::{Table, has_table};
use crate::error::Result;

const ACTION: &str = "resume";
/// The slots that hold whole conversations, or only say where one stands.
const OF_SNAPSHOTS: [&str; 3] = ["snapshot_event_id", "snapshot_branch", "branch_snapshots"];

/// Reads the slots of `agent`; those of agents whose names begin with its name are not among them.
pub fn slots(inner: &Inner, connection: &Connection, agent: &str) -> Result<Vec<(String, Payload)>> {
    let fault = inner.fault(ACTION);
    if !has_table(connection, Table::State.name()).map_err(&fault)? {
        return Ok(Vec::new());
    }
    let prefix = format!("{agent}:");
    let mut names = Vec::new();
    let mut select = connection.prepare_cached(Table::State.sql().keys).map_err(&fault)?;
    let mut rows = select.query([prefix.as_bytes()]).map_err(&fault)?;
    while let Some(row) = rows.next().map_err(&fault)? {
        let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).map_err(&fault)?;
        let Some(slot) = key.strip_prefix(prefix.as_bytes()) else { break };
        // An agent of a longer name has its own slots behind another colon.
        if let Ok(slot) = std::str::from_utf8(slot)
            && !slot.contains(':')
            && !OF_SNAPSHOTS.contains(&slot)
        {
            names.push(slot.to_owned());
        }
    }
    drop(rows);
    let lags = lagging(connection).map_err(&fault)?.iter().any(|(name, _)| name == agent);
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let key = format!("{prefix}{name}");
        let newer = if lags && SLOTS.contains(&&*name) {
            unwritten(inner, connection, Table::State, key.as_bytes())?
        } else {
            None
        };
        let payload = match newer {
            Some(newer) => Some(newer),
            None => get_in(inner, connection, Table::State, key.as_bytes())?,
        };
        found.extend(payload.map(|payload| (name, payload)));
    }
    Ok(found)
}

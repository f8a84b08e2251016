//! Where a session is cut, and whether it may be cut there.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use crate::bundle::value::open;
use crate::codec::{Stored, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};

/// Where a session is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut<'a> {
    /// The last event that is kept.
    pub point: i64,
    /// Calls that are still running.
    pub pending: &'a [String],
}

/// A walk over the log that finds what lies before a cut.
pub struct Scan<'a> {
    path: &'a Path,
    cut: Cut<'a>,
    kept: usize,
    /// Calls before the cut that are still running, by what their results are called.
    opened: BTreeSet<(&'static str, String)>,
    closed: HashSet<String>,
}

impl<'a> Scan<'a> {
    pub fn new(path: &'a Path, cut: &Cut<'a>) -> Self {
        Self { path, cut: *cut, kept: 0, opened: BTreeSet::new(), closed: HashSet::new() }
    }

    /// The id and body of an event that lies before the cut. One without an id has no place there.
    pub fn look<'s>(&mut self, key: &[u8], stored: &'s [u8]) -> Result<Option<(i64, Cow<'s, [u8]>)>> {
        let Stored::Object(body) = open(self.path, Table::Events, key, stored)? else { return Ok(None) };
        let id = msgpack::field(&body, "event_id").and_then(msgpack::as_i64);
        let Some(id) = id.filter(|id| *id <= self.cut.point) else { return Ok(None) };
        self.kept += 1;
        if !self.cut.pending.is_empty() {
            self.note_call(&body);
        }
        Ok(Some((id, body)))
    }

    fn note_call(&mut self, body: &[u8]) {
        let kind = msgpack::field(body, "type").and_then(msgpack::as_str);
        let opens = match kind {
            Some("tool_call") => Some("tool call"),
            Some("subagent_call") => Some("sub-agent"),
            Some("tool_result" | "subagent_result") => None,
            _ => return,
        };
        let Some(call) = name_of(body, "call_id").or_else(|| name_of(body, "job_id")) else { return };
        match opens {
            Some(what) if self.cut.pending.contains(&call) => {
                self.opened.insert((what, call));
            }
            Some(_) => {}
            None => {
                self.closed.insert(call);
            }
        }
    }

    /// Refuses a cut with nothing before it, or through a call that is still running.
    pub fn finish(self) -> Result<()> {
        if self.kept == 0 {
            let point = self.cut.point;
            return Err(Error::invalid(format!("at_event_id: no event has the id {point} or a lower one")));
        }
        let running: Vec<String> = self
            .opened
            .iter()
            .filter(|(_, call)| !self.closed.contains(call))
            .map(|(what, call)| format!("{what} `{call}`"))
            .collect();
        if running.is_empty() {
            return Ok(());
        }
        Err(Error::ForkNotStable { path: self.path.to_owned(), what: running.join(", ") })
    }
}

/// What a call is known by; an empty name is none.
fn name_of(body: &[u8], field: &str) -> Option<String> {
    let raw = msgpack::field(body, field)?;
    let name = match msgpack::as_str(raw) {
        Some(text) => text.to_owned(),
        None => msgpack::as_i64(raw).filter(|number| *number != 0)?.to_string(),
    };
    (!name.is_empty()).then_some(name)
}

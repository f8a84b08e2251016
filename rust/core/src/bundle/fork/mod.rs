//! Forks: a session of its own that begins as another one stood at an event.

mod cut;
mod files;
mod rows;
mod view;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

pub use self::cut::Cut;
use self::cut::Scan;
use self::files::Placed;
pub(super) use self::rows::{Copying, each};
use super::handle::{Inner, Options};
use super::kv::{Change, change_in, get_in};
use super::value::Payload;
use crate::clock::Clock;
use crate::codec::{Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};

const ACTION: &str = "fork";
/// Where a session notes the forks that were made of it.
const CHILDREN: &[u8] = b"forked_children";

/// What the event at the point becomes in the child.
#[derive(Debug, Clone)]
pub struct Edit {
    /// Its key.
    pub key: Vec<u8>,
    /// What it is replaced with, one `MessagePack` map; `None` leaves it out.
    pub body: Option<Vec<u8>>,
}

/// A fork to be made.
#[derive(Debug)]
pub struct Fork<'a> {
    /// Where the session is cut.
    pub cut: Cut<'a>,
    /// The new file.
    pub target: &'a Path,
    /// What becomes of the event at the point, where it is not kept as it is.
    pub edit: Option<Edit>,
    /// Fields of the child's meta that differ from the parent's.
    pub meta: Vec<(Vec<u8>, Payload)>,
    /// What the parent notes of its child.
    pub entry: Vec<u8>,
}

impl Inner {
    /// Checks that a fork can be made, and returns the event at its point.
    pub(super) fn fork_point(&self, target: &Path, cut: &Cut<'_>) -> Result<Option<(Vec<u8>, Payload)>> {
        self.check_fork(target, cut)?;
        self.read_level(|connection| {
            let mut scan = Scan::new(&self.path, cut);
            let mut found = None;
            rows::each(&self.path, connection, Table::Events, |key, stored| {
                if let Some((id, body)) = scan.look(key, stored)?
                    && id == cut.point
                    && found.is_none()
                {
                    found = Some((key.to_vec(), Payload::Object(body.into_owned())));
                }
                Ok(())
            })?;
            scan.finish()?;
            Ok(found)
        })
    }

    /// Makes a fork and opens it; after an error nothing of it remains.
    pub(super) fn fork(&self, fork: &Fork<'_>, clock: Box<dyn Clock>) -> Result<Arc<Inner>> {
        self.check_fork(fork.target, &fork.cut)?;
        let placed = self.read_level(|connection| {
            Placed::make(&self.path, fork.target, |copy| rows::fill(&self.path, connection, copy, fork))
        })?;
        let options = Options { exclusive: false, ..self.options };
        let opened = super::create::writable(fork.target, options, clock);
        let noted = opened.and_then(|child| match self.note_child(&fork.entry) {
            Ok(()) => Ok(child),
            // The first error is the one to tell; a child that cannot be closed is removed all the same.
            Err(error) => child.close().and(Err(error)),
        });
        if noted.is_err() {
            placed.remove()?;
        }
        noted
    }

    /// What can be told before anything is read.
    fn check_fork(&self, target: &Path, cut: &Cut<'_>) -> Result<()> {
        self.check_process(ACTION)?;
        if self.source.is_some() {
            return Err(Error::ReadOnly { path: self.path.clone(), action: ACTION });
        }
        if cut.point < 1 {
            return Err(Error::invalid(format!("at_event_id: ids begin at 1, so there is no {}", cut.point)));
        }
        files::check_free(&self.path, target)
    }

    /// Runs a read on one state of the file, in which everything that was acknowledged is level.
    fn read_level<R>(&self, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let mut state = self.lock();
        self.commit_batch(&mut state, ACTION)?;
        self.write_locked(&mut state, ACTION, Self::refresh_conversations)?;
        drop(state);
        self.read_long(ACTION, |connection| {
            connection.execute_batch("BEGIN").map_err(self.fault(ACTION))?;
            work(connection)
        })
    }

    /// Adds a child to those that this session knows of.
    fn note_child(&self, entry: &[u8]) -> Result<()> {
        self.write(ACTION, |txn| {
            let known = get_in(self, txn.connection, Table::Meta, CHILDREN)?;
            let entry = decode(&self.path, entry)?;
            let mut children = match known {
                Some(Payload::Object(body)) => match decode(&self.path, &body)? {
                    Value::List(children) => children,
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
            children.push(entry);
            let value = Some(Payload::of(&Value::List(children)));
            change_in(txn, &Change { table: Table::Meta, key: CHILDREN.to_vec(), value }).map(drop)
        })
    }
}

fn decode(path: &Path, body: &[u8]) -> Result<Value> {
    msgpack::decode(body).map_err(|fault| Error::damaged(path, "meta[forked_children]", fault.to_string()))
}

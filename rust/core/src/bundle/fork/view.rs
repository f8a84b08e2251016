//! Views of branches, carried over to a child as far as their turns are still there.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::Connection;

use super::rows::each;
use crate::bundle::value::open_value;
use crate::codec::{Value, msgpack};
use crate::db::schema::Table;
use crate::error::Result;
use crate::lineage::{View, parse_view, resolve_branch_view_strict};

const SLOT: &[u8] = b":branch_view";
/// What a view needs of an event.
const FIELDS: [&str; 5] = ["type", "event_id", "turn_index", "branch_id", "parent_branch_path"];

/// The views of a session, with the logs that they are about.
pub struct Views(BTreeMap<String, (View, Vec<(u64, Value)>)>);

impl Views {
    /// Reads the views of the parent. One that is no view is passed over, as it is when it is resolved.
    pub fn of(path: &Path, connection: &Connection) -> Result<Self> {
        let mut views = BTreeMap::new();
        each(path, connection, Table::State, |key, stored| {
            let Some(agent) = key.strip_suffix(SLOT).and_then(|agent| std::str::from_utf8(agent).ok()) else {
                return Ok(());
            };
            if let Ok(view) = parse_view(&open_value(path, Table::State, key, stored)?) {
                views.insert(agent.to_owned(), (view, Vec::new()));
            }
            Ok(())
        })?;
        Ok(Self(views))
    }

    /// Notes an event of the child.
    pub fn note(&mut self, agent: &str, number: u64, body: &[u8]) {
        let Some((_, events)) = self.0.get_mut(agent) else { return };
        let fields = FIELDS.iter().filter_map(|name| {
            let value = msgpack::decode(msgpack::field(body, name)?).ok()?;
            Some(((*name).into(), value))
        });
        events.push((number, Value::Map(fields.collect())));
    }

    /// The state rows of the views that are left.
    pub fn projected(self) -> impl Iterator<Item = (Vec<u8>, Value)> {
        self.0.into_iter().filter_map(|(agent, (view, mut events))| {
            events.sort_by_key(|(number, _)| *number);
            let events: Vec<Value> = events.into_iter().map(|(_, event)| event).collect();
            let view = project(&view, &events).filter(|view| !view.is_empty())?;
            let pairs = view.into_iter().map(|(turn, branch)| (turn.to_string().into(), Value::Int(branch)));
            Some(([agent.as_bytes(), SLOT].concat(), Value::Map(pairs.collect())))
        })
    }
}

/// What is left of a view; a rest that contradicts itself is none.
fn project(view: &View, events: &[Value]) -> Option<View> {
    let users: HashSet<(i64, i64)> = events.iter().filter_map(user_place).collect();
    let left: View = view.iter().map(|(t, b)| (*t, *b)).filter(|place| users.contains(place)).collect();
    if left.is_empty() {
        return None;
    }
    resolve_branch_view_strict(events, &left).ok()
}

fn user_place(event: &Value) -> Option<(i64, i64)> {
    let kind = event.get("type").and_then(Value::as_str);
    let is_user = matches!(kind, Some("user_message" | "user_input"));
    let place =
        event.get("turn_index").and_then(Value::as_i64).zip(event.get("branch_id").and_then(Value::as_i64));
    place.filter(|_| is_user)
}

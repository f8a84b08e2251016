//! Agents that are attached to another one, their host: numbered, noted in its log, shown first.

use super::append::{Appended, append_in};
use super::handle::Inner;
use super::kv::{Change, change_in, get_in};
use super::value::Payload;
use crate::codec::{Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};
use crate::model::Draft;

const ACTION: &str = "attach an agent to";

impl Inner {
    /// Gives an attached agent its number, and does all that goes with it in one transaction. `draft` is
    /// the event that says so in the log of the host, without the number.
    pub(super) fn attach(&self, host: &str, role: &str, mut draft: Draft) -> Result<(i64, Appended)> {
        if host.is_empty() || role.is_empty() {
            return Err(Error::invalid("host, role: the name of an agent and its role must not be empty"));
        }
        let counter = format!("attach_seq:{host}:{role}").into_bytes();
        let now = self.clock.now();
        self.write(ACTION, |txn| {
            let last = match get_in(self, txn.connection, Table::State, &counter)? {
                Some(Payload::Object(body)) => msgpack::as_i64(&body),
                _ => None,
            };
            let number = last.map_or(0, |last| last.saturating_add(1).max(0));
            msgpack::put_str(&mut draft.pairs, "attach_seq");
            msgpack::put_i64(&mut draft.pairs, number);
            draft.count += 1;
            let namespace = Payload::of(&Value::Str(format!("{host}:attached:{role}:{number}")));
            let rows = [
                (Table::State, counter, Payload::integer(number)),
                (Table::Meta, b"viewer_default_agent".to_vec(), namespace),
            ];
            for (table, key, value) in rows {
                change_in(txn, &Change { table, key, value: Some(value) })?;
            }
            let mut appended = append_in(txn, host, &[draft], now)?;
            Ok((number, appended.remove(0)))
        })
    }
}

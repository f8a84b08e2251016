//! Channels, sub-agents, rollups and token counts.

use rusqlite::{Connection, OptionalExtension};

use super::append::Insert;
use super::handle::{Inner, Txn};
use super::kv::{get_in, items_in};
use super::ledger::last_number;
use super::read::Selection;
use super::value::{Payload, key_text};
use crate::codec::{Value, msgpack};
use crate::db::schema::{Group, Table};
use crate::error::{Error, Result};
use crate::lineage::usage::UsageSource;
use crate::model::{Namespace, attached_parts};

/// The run of a sub-agent.
#[derive(Debug, Clone)]
pub struct SubagentRun {
    /// The agent that spawned it.
    pub parent: String,
    /// The sub-agent's name.
    pub name: String,
    /// Its number among the runs of that name.
    pub run: i64,
    /// The run's record.
    pub record: Payload,
}

/// The runs of sub-agents, on a connection that is at hand.
fn runs_in(
    inner: &Inner,
    connection: &Connection,
    parent: Option<&str>,
    name: Option<&str>,
) -> Result<Vec<SubagentRun>> {
    let prefix = match (parent, name) {
        (Some(parent), Some(name)) => format!("{parent}:{name}:"),
        (Some(parent), None) => format!("{parent}:"),
        (None, _) => String::new(),
    };
    let items = items_in(inner, connection, Table::Subagents, prefix.as_bytes(), usize::MAX)?;
    let mut runs: Vec<SubagentRun> = items
        .into_iter()
        .filter_map(|(key, record)| {
            let key = key_text(&key);
            let (identity, run) = key.strip_suffix(":meta")?.rsplit_once(':')?;
            let (owner, title) = match (parent, name) {
                // A name may hold colons, so the two are known only where both are asked for.
                (Some(parent), Some(name)) => {
                    (identity.len() + 1 == prefix.len()).then_some((parent, name))?
                }
                _ => identity.rsplit_once(':')?,
            };
            let run = run.parse().ok()?;
            Some(SubagentRun { parent: owner.to_owned(), name: title.to_owned(), run, record })
        })
        .filter(|run| parent.is_none_or(|parent| parent == run.parent))
        .filter(|run| name.is_none_or(|name| name == run.name))
        .collect();
    runs.sort_by(|one, other| {
        (&one.parent, &one.name, one.run).cmp(&(&other.parent, &other.name, other.run))
    });
    Ok(runs)
}

/// The number after the last stored run.
fn following(inner: &Inner, connection: &Connection, parent: &str, name: &str) -> Result<i64> {
    let runs = runs_in(inner, connection, Some(parent), Some(name))?;
    Ok(runs.iter().map(|run| run.run + 1).max().unwrap_or(0))
}

/// Reserves a run number inside a transaction that somebody else commits.
pub(super) fn next_run_in(txn: &mut Txn<'_>, parent: &str, name: &str) -> Result<i64> {
    let fault = txn.fault("number a run in");
    txn.ensure(Group::Private).map_err(&fault)?;
    let mark = format!("subagent_run:{parent}:{name}");
    let reserved: Option<i64> = txn
        .connection
        .prepare_cached("SELECT value FROM amber_meta WHERE name = ?1")
        .and_then(|mut select| select.query_row([&mark], |row| row.get(0)).optional())
        .map_err(&fault)?;
    let run = reserved.unwrap_or(0).max(following(txn.inner, txn.connection, parent, name)?);
    txn.connection
        .prepare_cached("INSERT OR REPLACE INTO amber_meta (name, value) VALUES (?1, ?2)")
        .and_then(|mut upsert| upsert.execute((&mark, run + 1)))
        .map_err(&fault)?;
    Ok(run)
}

/// The run that carries a job's id, on a connection that is at hand.
pub(super) fn find_run_in(
    inner: &Inner,
    connection: &Connection,
    job: &str,
    parent: Option<&str>,
) -> Result<Option<SubagentRun>> {
    if job.is_empty() {
        return Ok(None);
    }
    let runs = runs_in(inner, connection, parent, None)?;
    Ok(runs.into_iter().find(|run| match &run.record {
        Payload::Object(body) => msgpack::field(body, "job_id").and_then(msgpack::as_str) == Some(job),
        Payload::Bytes(_) => false,
    }))
}

impl Inner {
    /// Appends a message to a channel; the payload's `ts` is added where it has none.
    pub(super) fn append_message(
        &self,
        channel: &str,
        pairs: &[u8],
        count: usize,
        has_ts: bool,
    ) -> Result<Vec<u8>> {
        const ACTION: &str = "append a message to";
        if channel.is_empty() {
            return Err(Error::invalid("channel: the name of a channel must not be empty"));
        }
        let now = self.clock.now();
        let body = with_ts(pairs, count, has_ts, now);
        self.write(ACTION, |txn| {
            let fault = txn.fault(ACTION);
            txn.ensure_table(Table::Channels).map_err(&fault)?;
            let space = Namespace::messages(channel);
            let last = last_number(txn.connection, &space, Table::Channels, 0).map_err(&fault)?;
            let mut next = last.map_or(0, |last| last + 1);
            let mut insert = Insert::into(txn.connection, Table::Channels).map_err(&fault)?;
            insert.next(&space, &mut next, &body).map_err(&fault)
        })
    }

    /// Reserves the next run number of a sub-agent; a number given out is not given out again, by this
    /// handle or another.
    pub(super) fn next_subagent_run(&self, parent: &str, name: &str) -> Result<i64> {
        const ACTION: &str = "number a run in";
        if self.source.is_some() {
            return self.read(ACTION, |connection| following(self, connection, parent, name));
        }
        self.write(ACTION, |txn| next_run_in(txn, parent, name))
    }

    /// The runs of sub-agents, by parent, name and run.
    pub(super) fn subagent_runs(&self, parent: Option<&str>, name: Option<&str>) -> Result<Vec<SubagentRun>> {
        self.read("read", |connection| runs_in(self, connection, parent, name))
    }

    /// The run that carries a job's id.
    pub(super) fn find_subagent_run(&self, job: &str, parent: Option<&str>) -> Result<Option<SubagentRun>> {
        self.read("read", |connection| find_run_in(self, connection, job, parent))
    }

    /// The rollups of an agent, by turn.
    pub(super) fn rollups(&self, agent: &str) -> Result<Vec<Payload>> {
        let prefix = format!("{agent}:turn:");
        let items = self.items(Table::TurnRollup, prefix.as_bytes(), usize::MAX)?;
        let mut rows: Vec<(i64, Payload)> = items
            .into_iter()
            .filter_map(|(key, value)| {
                let turn = key_text(&key).strip_prefix(&prefix)?.parse().ok()?;
                Some((turn, value))
            })
            .collect();
        rows.sort_by_key(|(turn, _)| *turn);
        Ok(rows.into_iter().map(|(_, value)| value).collect())
    }

    /// Every event of an agent, decoded.
    pub(super) fn event_values(&self, agent: &str, since: Option<i64>) -> Result<Vec<Value>> {
        let wanted = Selection { since, ..Selection::default() };
        let (mut values, mut from) = (Vec::new(), None);
        loop {
            let page = self.page(agent, &wanted, from, usize::MAX)?;
            for row in &page.rows {
                values.push(decode(&row.value, self, &row.key)?);
            }
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(values),
            }
        }
    }

    /// Attached agents: `(host, role, number, namespace)`.
    pub(super) fn attached(&self) -> Result<Vec<String>> {
        Ok(self.namespaces()?.into_iter().filter(|name| attached_parts(name).is_some()).collect())
    }

    fn stored_value(&self, table: Table, key: &[u8]) -> Result<Option<Value>> {
        let found = self.read("read", |connection: &Connection| get_in(self, connection, table, key))?;
        found.map(|payload| decode(&payload, self, key)).transpose()
    }
}

fn decode(payload: &Payload, inner: &Inner, key: &[u8]) -> Result<Value> {
    match payload {
        Payload::Object(body) => msgpack::decode(body)
            .map_err(|fault| Error::damaged(&inner.path, key_text(key), fault.to_string())),
        Payload::Bytes(bytes) => Ok(Value::Str(key_text(bytes))),
    }
}

/// A map of pairs, stamped with a time where it has none.
pub(super) fn with_ts(pairs: &[u8], count: usize, has_ts: bool, now: f64) -> Vec<u8> {
    let mut body = Vec::with_capacity(pairs.len() + 24);
    msgpack::put_map_header(&mut body, count + usize::from(!has_ts));
    body.extend_from_slice(pairs);
    if !has_ts {
        msgpack::put_str(&mut body, "ts");
        msgpack::put_f64(&mut body, now);
    }
    body
}

impl UsageSource for Inner {
    fn counters(&self, namespace: &str) -> Result<Option<Value>> {
        self.stored_value(Table::State, format!("{namespace}:token_usage").as_bytes())
    }

    fn events(&self, namespace: &str) -> Result<Vec<Value>> {
        self.event_values(namespace, None)
    }

    fn subagent_runs(&self, parent: &str) -> Result<Vec<(String, i64)>> {
        let runs = Self::subagent_runs(self, Some(parent), None)?;
        Ok(runs.into_iter().map(|run| (run.name, run.run)).collect())
    }

    fn rollups(&self, agent: &str) -> Result<Vec<Value>> {
        Self::rollups(self, agent)?.iter().map(|row| decode(row, self, agent.as_bytes())).collect()
    }

    fn attached(&self) -> Result<Vec<String>> {
        Self::attached(self)
    }

    fn agents(&self) -> Result<Vec<String>> {
        let stored = self.stored_value(Table::Meta, b"agents")?;
        let mut agents: Vec<String> = stored
            .iter()
            .filter_map(Value::as_list)
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        for name in self.namespaces()? {
            if name != "terrarium" && !name.contains(":attached:") && !agents.contains(&name) {
                agents.push(name);
            }
        }
        Ok(agents)
    }
}

//! The handle that callers hold.

use std::path::Path;
use std::sync::Arc;

use super::agents::{SubagentRun, with_ts};
use super::append::Appended;
use super::compaction::Compaction;
use super::create;
use super::fork::{Cut, Fork};
use super::handle::{Inner, Options};
use super::kv::Change;
use super::read::{Page, Row, Selection};
use super::record::{Recorded, Unit};
use super::resume::{Asked, Restored};
use super::snapshot::{BranchPath, Conversation, Save, Saved, SnapshotInfo};
use super::text::{BlockHit, Filter, Hit, Meaning, MemoryFilter, MemoryStats, Model};
use super::value::Payload;
use super::verify::Report;
use super::working::Place;
use crate::clock::Clock;
use crate::codec::Value;
use crate::db::schema::Table;
use crate::error::Result;
use crate::lineage;
use crate::lineage::usage;
use crate::model::Draft;
use crate::recall::vectors::Engine;

/// An open session file. Every method may be called from any thread; after [`Bundle::close`] each
/// of them fails but `close` itself.
#[derive(Clone)]
pub struct Bundle {
    inner: Arc<Inner>,
}

/// Opening and upkeep.
impl Bundle {
    /// Opens a bundle for writing, making the file and its directory where they are missing.
    pub fn open(path: &Path, options: Options, clock: Box<dyn Clock>) -> Result<Self> {
        create::writable(path, options, clock).map(|inner| Self { inner })
    }

    /// Opens a bundle that must exist, without ever writing to it or beside it.
    pub fn open_readonly(path: &Path, clock: Box<dyn Clock>) -> Result<Self> {
        create::readonly(path, clock).map(|inner| Self { inner })
    }

    /// The absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether the bundle was opened for reading only.
    pub fn is_readonly(&self) -> bool {
        self.inner.source.is_some()
    }

    /// Syncs everything acknowledged to disk, with keyword rows and counters level.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Flushes, brings the peer's snapshot rows level and writes the log back into the file.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }

    /// Closes the bundle; it is closed whatever the result. A second call does nothing.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// Copies the bundle with its artifacts to `target`, which must not exist.
    pub fn backup(&self, target: &Path) -> Result<()> {
        self.inner.backup(target)
    }

    /// Checks that a fork can be made, and returns key and value of the event at its point.
    pub fn fork_point(&self, target: &Path, cut: &Cut<'_>) -> Result<Option<(Vec<u8>, Payload)>> {
        self.inner.fork_point(target, cut)
    }

    /// Makes a fork of the session and opens it for writing; costs one pass over the rows.
    ///
    /// The child is on disk when this returns, and the parent knows of it. After an error nothing of
    /// the child remains.
    pub fn fork(&self, fork: &Fork<'_>, clock: Box<dyn Clock>) -> Result<Self> {
        Ok(Self { inner: self.inner.fork(fork, clock)? })
    }

    /// Looks at every row and reports what is damaged.
    pub fn verify(&self) -> Result<Report> {
        self.inner.verify()
    }
}

/// The log.
impl Bundle {
    /// Appends events to the log of `agent`, all in one transaction.
    pub fn append(&self, agent: &str, drafts: &[Draft]) -> Result<Vec<Appended>> {
        self.inner.append(agent, drafts)
    }

    /// One page of the log of `agent`, from number `from` on (or back).
    pub fn page(&self, agent: &str, wanted: &Selection, from: Option<u64>, limit: usize) -> Result<Page> {
        self.inner.page(agent, wanted, from, limit)
    }

    /// All events by time, and those of one time in the order in which they were appended.
    pub fn all_rows(&self) -> Result<Vec<Row>> {
        self.inner.all_rows()
    }

    /// The event of `agent` with that id.
    pub fn event_by_id(&self, agent: &str, id: i64) -> Result<Option<Payload>> {
        self.inner.event_by_id(agent, id)
    }

    /// The highest event id of the session; 0 when it has none.
    pub fn max_event_id(&self) -> Result<i64> {
        self.inner.max_event_id()
    }

    /// The highest branch of a turn; 0 when it has none.
    pub fn max_branch(&self, agent: &str, turn: i64) -> Result<i64> {
        self.inner.max_branch(agent, turn)
    }

    /// The owners of all logs.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        self.inner.namespaces()
    }

    /// The events of `agent` as a resume repaints them.
    pub fn resumable_events(
        &self,
        agent: &str,
        live_jobs: &[String],
        since: Option<i64>,
    ) -> Result<Vec<Value>> {
        Ok(lineage::resumable_events(self.inner.event_values(agent, since)?, live_jobs))
    }

    /// What was asked and answered in each turn of `agent`.
    pub fn turns(&self, agent: &str) -> Result<Vec<Value>> {
        Ok(lineage::turns(self.inner.event_values(agent, None)?))
    }

    /// The conversation of an agent as a resume has it; nothing is written.
    pub fn resume(&self, asked: &Asked<'_>) -> Result<Restored> {
        self.inner.resume(asked)
    }

    /// The branch of each turn that is shown; costs the whole log.
    pub fn branch_path(&self, agent: &str, view: Option<&lineage::View>) -> Result<lineage::View> {
        self.inner.branch_path(agent, view)
    }

    /// The slots of an agent's state, but for those that hold its snapshots.
    pub fn agent_state(&self, agent: &str) -> Result<Vec<(String, Payload)>> {
        self.inner.agent_state(agent)
    }

    /// The rows that fit a query best.
    pub fn search(&self, query: &str, k: usize, filter: Filter<'_>) -> Result<Vec<Hit>> {
        self.inner.search(query, k, filter)
    }

    /// Brings the index of blocks level; returns how many of an agent, or of all, are new since the last call.
    pub fn index_memory(&self, agent: Option<&str>) -> Result<u64> {
        self.inner.index_memory(agent)
    }

    /// Makes the index of blocks anew.
    pub fn rebuild_memory(&self) -> Result<()> {
        self.inner.rebuild_memory()
    }

    /// Whether the index of blocks, as it is on disk, lacks nothing.
    pub fn is_memory_level(&self) -> Result<bool> {
        self.inner.is_memory_level()
    }

    /// The blocks that fit a query best.
    pub fn find_blocks(&self, query: &str, k: usize, filter: &MemoryFilter) -> Result<Vec<BlockHit>> {
        self.inner.find_blocks(query, k, filter)
    }

    /// The blocks that are nearest to a query, or fit it best by words and meaning together.
    pub fn find_near(
        &self,
        query: &str,
        k: usize,
        filter: &MemoryFilter,
        meaning: Meaning<'_>,
    ) -> Result<Vec<BlockHit>> {
        self.inner.find_near(query, k, filter, meaning)
    }

    /// Blocks that have no vector of a model, with their texts, at most so many.
    pub fn pending_blocks(&self, model: &Model, limit: usize) -> Result<Vec<(i64, String)>> {
        self.inner.pending_blocks(model, limit)
    }

    /// How many blocks have no vector of a model.
    pub fn count_pending(&self, model: &Model) -> Result<u64> {
        self.inner.count_pending(model)
    }

    /// The models that there are vectors of, with their sizes; those that the peer made have no name.
    pub fn vector_models(&self) -> Result<Vec<(String, usize)>> {
        self.inner.vector_models()
    }

    /// Keeps the vectors of blocks in one transaction; returns how many are still blocks.
    pub fn put_vectors(&self, model: &Model, ids: &[i64], rows: &[f32]) -> Result<usize> {
        self.inner.put_vectors(model, ids, rows)
    }

    /// Makes and keeps the graph that a search by an engine would go by, and links what is new to it.
    pub fn link_vectors(&self, model: &Model, engine: Engine) -> Result<()> {
        self.inner.link_vectors(model, engine)
    }

    /// Whether there are vectors of a model, its own or the peer's of that size.
    pub fn has_vectors(&self, model: &Model) -> Result<bool> {
        self.inner.has_vectors(model)
    }

    /// How many live blocks are found by meaning.
    pub fn count_vectors(&self, model: &Model) -> Result<u64> {
        self.inner.count_vectors(model)
    }

    /// One block by its name, whole.
    pub fn block(&self, name: &str) -> Result<Option<BlockHit>> {
        self.inner.block(name)
    }

    /// Keeps events for the index alone, from a place in the caller's list on.
    pub fn give(&self, agent: &str, from: u64, events: &[Payload]) -> Result<()> {
        self.inner.give(agent, from, events)
    }

    /// How much is indexed.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        self.inner.memory_stats()
    }
}

/// Tables of keys and values.
impl Bundle {
    /// The value of a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Payload>> {
        self.inner.get(table, key)
    }

    /// Makes every change in one transaction; how many keys were written or found for removal.
    pub fn apply(&self, changes: &[Change]) -> Result<usize> {
        self.inner.apply(changes)
    }

    /// Makes every change in one transaction that nobody waits to see on disk.
    pub fn note(&self, changes: &[Change]) -> Result<()> {
        self.inner.note(changes)
    }

    /// Keys that start with `prefix`.
    pub fn keys(&self, table: Table, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>> {
        self.inner.keys(table, prefix, limit)
    }

    /// Keys that start with `prefix`, with their values.
    pub fn items(&self, table: Table, prefix: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Payload)>> {
        self.inner.items(table, prefix, limit)
    }

    /// How many keys a table has.
    pub fn count(&self, table: Table) -> Result<u64> {
        self.inner.count(table)
    }

    /// A map made of `pairs`, with the time as its `ts` where it has none.
    pub fn stamped(&self, pairs: &[u8], count: usize, has_ts: bool) -> Payload {
        Payload::Object(with_ts(pairs, count, has_ts, self.inner.clock.now()))
    }
}

/// Channels, sub-agents, rollups, tokens.
impl Bundle {
    /// Appends a message to a channel and returns its key.
    pub fn append_message(&self, channel: &str, pairs: &[u8], count: usize, has_ts: bool) -> Result<Vec<u8>> {
        self.inner.append_message(channel, pairs, count, has_ts)
    }

    /// One page of the messages of a channel.
    pub fn message_page(&self, channel: &str, from: u64, limit: usize) -> Result<Page> {
        self.inner.message_page(channel, from, limit)
    }

    /// Numbers an agent that is attached to `host`, and notes it in that one's log with `draft`.
    pub fn attach(&self, host: &str, role: &str, draft: Draft) -> Result<(i64, Appended)> {
        self.inner.attach(host, role, draft)
    }

    /// Reserves the next run number of a sub-agent.
    pub fn next_subagent_run(&self, parent: &str, name: &str) -> Result<i64> {
        self.inner.next_subagent_run(parent, name)
    }

    /// The runs of sub-agents, by parent, name and run.
    pub fn subagent_runs(&self, parent: Option<&str>, name: Option<&str>) -> Result<Vec<SubagentRun>> {
        self.inner.subagent_runs(parent, name)
    }

    /// The run that carries a job's id.
    pub fn find_subagent_run(&self, job: &str, parent: Option<&str>) -> Result<Option<SubagentRun>> {
        self.inner.find_subagent_run(job, parent)
    }

    /// The rollups of an agent, by turn.
    pub fn rollups(&self, agent: &str) -> Result<Vec<Payload>> {
        self.inner.rollups(agent)
    }

    /// The counters of one agent with the parts that are asked for.
    pub fn token_usage(&self, agent: &str, subagents: bool, attached: bool, by_turn: bool) -> Result<Value> {
        usage::token_usage(self.inner.as_ref(), agent, subagents, attached, by_turn)
    }

    /// Every loop of the session with its counters.
    pub fn token_usage_all_loops(&self) -> Result<Vec<(String, Value)>> {
        let loops = usage::token_usage_all_loops(self.inner.as_ref())?;
        Ok(loops.into_iter().map(|(path, usage)| (path, usage.to_value())).collect())
    }
}

/// Recording.
impl Bundle {
    /// Stores events and all that belongs to them, in one transaction.
    pub fn record(&self, unit: &Unit<'_>) -> Result<Recorded> {
        self.inner.record(unit)
    }

    /// Stores what the end of a turn writes, in one transaction, and syncs it to disk.
    pub fn end_turn(&self, unit: &Unit<'_>) -> Result<Recorded> {
        let recorded = self.inner.record(unit)?;
        self.inner.flush()?;
        Ok(recorded)
    }

    /// Stores a summary that stands in for older turns, with its snapshot; nothing when it is blank.
    pub fn compact(&self, compaction: &Compaction<'_>) -> Result<Option<Appended>> {
        self.inner.compact(compaction)
    }

    /// The messages that a model is sent next, at most `max` of them; costs these, not the log.
    pub fn working_history(&self, agent: &str, max: Option<usize>) -> Result<Vec<Value>> {
        self.inner.working_history(agent, max)
    }

    /// Where an agent stands: turn, branch and lineage of its last event that has them.
    pub fn place_of(&self, agent: &str) -> Result<Option<Place>> {
        self.inner.place_of(agent)
    }
}

/// Snapshots.
impl Bundle {
    /// Stores the messages of an agent as they stand.
    pub fn save_snapshot(&self, save: &Save<'_>) -> Result<Saved> {
        self.inner.save_snapshot(save)
    }

    /// The newest messages, or those of a turn.
    pub fn load_snapshot(&self, agent: &str, turn: Option<i64>) -> Result<Option<Conversation>> {
        self.inner.load_snapshot(agent, turn)
    }

    /// The turns that have a snapshot.
    pub fn snapshots(&self, agent: &str) -> Result<Vec<SnapshotInfo>> {
        self.inner.snapshots(agent)
    }

    /// The deepest record whose lineage `target` continues.
    pub fn load_branch_snapshot(&self, agent: &str, target: &BranchPath) -> Result<Option<Value>> {
        self.inner.load_branch_snapshot(agent, target)
    }
}

//! Token usage: the counters of one agent, of its sub-agents and of every loop of a session.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::dedupe::dedupe_adjacent;
use super::field::{identity, int, kind, record, string, truthy};
use crate::Result;
use crate::codec::Value;

const JOB_ID: &[&str] = &["job_id"];

/// Where the views of this module read from; each call is one query on a session.
pub trait UsageSource {
    /// Returns the stored counters of a namespace, the state row `<namespace>:token_usage`.
    fn counters(&self, namespace: &str) -> Result<Option<Value>>;
    /// Returns the events of a namespace in order.
    fn events(&self, namespace: &str) -> Result<Vec<Value>>;
    /// Returns name and run of each sub-agent of `parent`, in any order.
    fn subagent_runs(&self, parent: &str) -> Result<Vec<(String, i64)>>;
    /// Returns the turn rollups of an agent, by turn.
    fn rollups(&self, agent: &str) -> Result<Vec<Value>>;
    /// Returns the namespaces of attached agents in the order of their discovery.
    fn attached(&self) -> Result<Vec<String>>;
    /// Returns the agents of the session: those of its meta data, then those that only events show.
    fn agents(&self) -> Result<Vec<String>>;
}

/// Tokens spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// As recorded, or the sum of prompt and completion.
    pub total: i64,
    /// Tokens sent to the model, the cached ones among them.
    pub prompt: i64,
    /// Tokens the model wrote.
    pub completion: i64,
    /// Tokens of the prompt that the provider had in its cache.
    pub cached: i64,
}

impl Usage {
    /// Returns the public shape: a map of four numbers.
    pub fn to_value(self) -> Value {
        let [total, prompt, completion, cached] = self.numbers();
        record([
            ("total_tokens", total),
            ("prompt_tokens", prompt),
            ("completion_tokens", completion),
            ("cached_tokens", cached),
        ])
    }

    fn numbers(self) -> [Value; 4] {
        [self.total, self.prompt, self.completion, self.cached].map(Value::Int)
    }

    fn is_zero(self) -> bool {
        self.total <= 0 && self.prompt <= 0 && self.completion <= 0 && self.cached <= 0
    }

    /// Takes what is missing here from the last counters that a job reported before its result.
    fn or(self, earlier: Self) -> Self {
        let pick = |own: i64, other: i64| if own <= 0 && other > 0 { other } else { own };
        Self {
            total: pick(self.total, earlier.total),
            prompt: pick(self.prompt, earlier.prompt),
            completion: pick(self.completion, earlier.completion),
            cached: pick(self.cached, earlier.cached),
        }
        .summed()
    }

    fn summed(self) -> Self {
        let total = if self.total > 0 { self.total } else { self.prompt.saturating_add(self.completion) };
        Self { total, ..self }
    }
}

/// Reads counters in any of the spellings found in sessions: state rows, events, rollups.
pub fn usage_shape(raw: &Value) -> Usage {
    stated_usage(raw).summed()
}

/// As [`usage_shape`], but the total stays 0 where none is recorded.
fn stated_usage(raw: &Value) -> Usage {
    let state = raw.get("total_input_tokens").is_some() || raw.get("total_output_tokens").is_some();
    let number = |own: &str, row: &str, other: &str| {
        whole(if state { raw.get(row) } else { raw.get(own).or_else(|| raw.get(other)) })
    };
    Usage {
        total: whole(raw.get("total_tokens")),
        prompt: number("prompt_tokens", "total_input_tokens", "tokens_in"),
        completion: number("completion_tokens", "total_output_tokens", "tokens_out"),
        cached: number("cached_tokens", "total_cached_tokens", "tokens_cached"),
    }
}

/// Reads a count; what is not a number is none.
fn whole(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        Some(Value::UInt(_)) => i64::MAX,
        Some(Value::Bool(flag)) => i64::from(*flag),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a cast to integer saturates, which is what is meant"
        )]
        Some(Value::Float(number)) => *number as i64,
        Some(Value::Str(text)) => text.trim().parse().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the counters of one agent: `{agent, total_tokens, …}`, with the parts that are asked for.
///
/// `subagents` and `attached` are maps from path to counters, `by_turn` a list of
/// `{turn_index, prompt, completion, cached}`.
pub fn token_usage(
    source: &impl UsageSource,
    agent: &str,
    include_subagents: bool,
    include_attached: bool,
    by_turn: bool,
) -> Result<Value> {
    let own = own_usage(source, agent)?.to_value();
    let mut pairs = vec![("agent".into(), string(agent))];
    pairs.extend(own.as_map().unwrap_or_default().iter().cloned());
    if include_subagents {
        pairs.push(("subagents".into(), map_of(subagent_usage(source, agent)?)));
    }
    if include_attached {
        pairs.push(("attached".into(), map_of(attached_usage(source)?)));
    }
    if by_turn {
        pairs.push(("by_turn".into(), Value::List(usage_by_turn(source, agent)?)));
    }
    Ok(Value::Map(pairs))
}

/// Returns every loop of a session with its counters: each agent followed by its sub-agents by path, then
/// the attached agents.
pub fn token_usage_all_loops(source: &impl UsageSource) -> Result<Vec<(String, Usage)>> {
    let mut loops = Vec::new();
    let mut seen = HashSet::new();
    for agent in source.agents()?.into_iter().filter(|agent| !agent.is_empty()) {
        if !seen.insert(agent.clone()) {
            continue;
        }
        let mut runs = subagent_usage(source, &agent)?;
        runs.sort_by(|(one, _), (other, _)| one.cmp(other));
        loops.push((agent.clone(), own_usage(source, &agent)?));
        loops.append(&mut runs);
    }
    loops.extend(attached_usage(source)?);
    Ok(loops)
}

/// Returns the counters of the loop that writes to `namespace`; zeros when it never reported any.
pub fn own_usage(source: &impl UsageSource, namespace: &str) -> Result<Usage> {
    Ok(source.counters(namespace)?.as_ref().map(usage_shape).unwrap_or_default())
}

/// Returns the counters of each attached agent, under its namespace.
pub fn attached_usage(source: &impl UsageSource) -> Result<Vec<(String, Usage)>> {
    let namespaces = source.attached()?;
    namespaces.into_iter().map(|name| own_usage(source, &name).map(|usage| (name, usage))).collect()
}

/// Returns the counters of each sub-agent run of `parent`, under `<parent>:subagent:<name>:<run>`.
///
/// Runs and results are matched by name in their order. A run without a result counts zero; a result
/// without a run stands under its number among the results of that name.
pub fn subagent_usage(source: &impl UsageSource, parent: &str) -> Result<Vec<(String, Usage)>> {
    let mut runs = source.subagent_runs(parent)?;
    runs.sort();
    runs.dedup();
    let results = results_by_name(&dedupe_adjacent(source.events(parent)?));
    let index: HashMap<&str, &[Usage]> = results.iter().map(|(name, rows)| (&**name, &**rows)).collect();
    let path = |name: &str, run: &dyn std::fmt::Display| format!("{parent}:subagent:{name}:{run}");

    let mut used: HashMap<&str, usize> = HashMap::new();
    let mut listed: Vec<(String, Usage)> = Vec::with_capacity(runs.len());
    for (name, run) in &runs {
        let next = used.entry(name).or_default();
        let usage = index.get(&**name).and_then(|rows| rows.get(*next)).copied();
        *next += usize::from(usage.is_some());
        listed.push((path(name, run), usage.unwrap_or_default()));
    }
    let taken: HashSet<String> = listed.iter().map(|(path, _)| path.clone()).collect();
    for (name, rows) in &results {
        let first = used.get(&**name).copied().unwrap_or_default();
        let more = rows.iter().enumerate().skip(first).map(|(at, usage)| (path(name, &at), *usage));
        listed.extend(more.filter(|(path, _)| !taken.contains(path)));
    }
    Ok(listed)
}

/// Collects what sub-agents reported, by name in order of first appearance: results first, then jobs that
/// only reported on their way, then rows without a job.
fn results_by_name(events: &[Value]) -> Vec<(String, Vec<Usage>)> {
    let mut open: Latest = Latest::default();
    let mut results: Vec<(String, Usage)> = Vec::new();
    let mut anonymous: Vec<(String, Usage)> = Vec::new();
    for event in events {
        let result = match kind(event) {
            "subagent_result" => true,
            "subagent_token_usage" => false,
            _ => continue,
        };
        let failed = truthy(event, "error").is_some() || event.get("success") == Some(&Value::Bool(false));
        let usage = usage_shape(event);
        if result && !failed && usage.is_zero() {
            continue;
        }
        let Some(name) = subagent_name(event) else { continue };
        let job = identity(event, JOB_ID);
        if job.is_empty() {
            anonymous.push((name, usage));
        } else if result {
            let earlier = open.take(&job).map(|(_, usage)| usage);
            results.push((name, earlier.map_or(usage, |earlier| stated_usage(event).or(earlier))));
        } else {
            open.put(&job, name, stated_usage(event));
        }
    }
    let mut grouped: Vec<(String, Vec<Usage>)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for (name, usage) in results.into_iter().chain(open.rows()).chain(anonymous) {
        let at = *index.entry(name.clone()).or_insert(grouped.len());
        if at == grouped.len() {
            grouped.push((name, Vec::new()));
        }
        grouped[at].1.push(usage);
    }
    grouped
}

fn subagent_name(event: &Value) -> Option<String> {
    let name = ["name", "subagent", "subagent_name"].iter().find_map(|key| truthy(event, key));
    if let Some(Value::Str(name)) = name {
        return Some(name.clone());
    }
    let job = identity(event, JOB_ID);
    let (name, _) = job.strip_prefix("agent_")?.rsplit_once('_')?;
    Some(name.to_owned())
}

/// The largest counters that each job reported, as stated, in the order in which jobs appeared.
#[derive(Default)]
struct Latest {
    rows: Vec<Option<(String, Usage)>>,
    index: HashMap<String, usize>,
}

impl Latest {
    fn put(&mut self, job: &str, name: String, usage: Usage) {
        let at = *self.index.entry(job.to_owned()).or_insert(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(Some((name, usage)));
        } else if self.rows[at].as_ref().is_none_or(|(_, known)| usage.summed().total >= known.summed().total)
        {
            self.rows[at] = Some((name, usage));
        }
    }

    fn take(&mut self, job: &str) -> Option<(String, Usage)> {
        let at = self.index.remove(job)?;
        self.rows[at].take()
    }

    fn rows(self) -> impl Iterator<Item = (String, Usage)> {
        self.rows.into_iter().flatten().map(|(name, usage)| (name, usage.summed()))
    }
}

/// Returns the counters of each turn: from the rollups, or from the events where there are none.
pub fn usage_by_turn(source: &impl UsageSource, agent: &str) -> Result<Vec<Value>> {
    let rollups = source.rollups(agent)?;
    if rollups.is_empty() {
        return Ok(turns_of(&source.events(agent)?));
    }
    Ok(rollups.iter().map(|row| turn_row(whole(row.get("turn_index")), stated_usage(row))).collect())
}

/// Sums the events of each turn. What a sub-agent reports is cumulative, so each of its jobs counts once,
/// in the turn of its largest report; events without a turn are of turn 0.
fn turns_of(events: &[Value]) -> Vec<Value> {
    let mut turns: BTreeMap<i64, Usage> = BTreeMap::new();
    let mut add = |event: &Value| {
        let turn = int(event, "turn_index").filter(|turn| *turn != 0);
        let turn = turn.or_else(|| int(event, "spawned_in_turn")).unwrap_or_default();
        let (sum, usage) = (turns.entry(turn).or_default(), usage_shape(event));
        sum.prompt = sum.prompt.saturating_add(usage.prompt);
        sum.completion = sum.completion.saturating_add(usage.completion);
        sum.cached = sum.cached.saturating_add(usage.cached);
    };
    let mut jobs: HashMap<String, &Value> = HashMap::new();
    for event in events {
        let job = match kind(event) {
            "token_usage" => "".into(),
            "subagent_result" | "subagent_token_usage" => identity(event, JOB_ID),
            _ => continue,
        };
        if job.is_empty() {
            add(event);
        } else {
            let largest = jobs.entry(job.into_owned()).or_insert(event);
            if usage_shape(event).total >= usage_shape(largest).total {
                *largest = event;
            }
        }
    }
    jobs.into_values().for_each(add);
    turns.into_iter().map(|(turn, usage)| turn_row(turn, usage)).collect()
}

fn turn_row(turn: i64, usage: Usage) -> Value {
    let [_, prompt, completion, cached] = usage.numbers();
    record([
        ("turn_index", Value::Int(turn)),
        ("prompt", prompt),
        ("completion", completion),
        ("cached", cached),
    ])
}

fn map_of(rows: Vec<(String, Usage)>) -> Value {
    Value::Map(rows.into_iter().map(|(path, usage)| (path.into(), usage.to_value())).collect())
}

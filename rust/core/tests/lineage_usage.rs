//! Token counters where sessions disagree with themselves: missing rows, repeated reports, older spellings.

use amberlog_core::Result;
use amberlog_core::codec::Value;
use amberlog_core::lineage::usage::{Usage, UsageSource, subagent_usage, usage_by_turn, usage_shape};

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

fn text(text: &str) -> Value {
    Value::Str(text.to_owned())
}

/// A session of one agent.
#[derive(Default)]
struct Session {
    events: Vec<Value>,
    runs: Vec<(String, i64)>,
    rollups: Vec<Value>,
}

impl UsageSource for Session {
    fn counters(&self, _: &str) -> Result<Option<Value>> {
        Ok(None)
    }

    fn events(&self, _: &str) -> Result<Vec<Value>> {
        Ok(self.events.clone())
    }

    fn subagent_runs(&self, _: &str) -> Result<Vec<(String, i64)>> {
        Ok(self.runs.clone())
    }

    fn rollups(&self, _: &str) -> Result<Vec<Value>> {
        Ok(self.rollups.clone())
    }

    fn attached(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn agents(&self) -> Result<Vec<String>> {
        Ok(vec!["a".to_owned()])
    }
}

fn report(kind: &str, job: &str, prompt: i64, completion: i64, turn: i64) -> Value {
    map([
        ("type", text(kind)),
        ("name", text("explore")),
        ("job_id", text(job)),
        ("prompt_tokens", Value::Int(prompt)),
        ("completion_tokens", Value::Int(completion)),
        ("turn_index", Value::Int(turn)),
    ])
}

fn sums(prompt: i64, completion: i64) -> Usage {
    Usage { total: prompt + completion, prompt, completion, cached: 0 }
}

#[test]
fn counters_are_read_in_every_spelling() {
    let state = map([("total_input_tokens", Value::Int(5)), ("total_output_tokens", Value::Int(2))]);
    let rollup =
        map([("tokens_in", Value::Float(5.9)), ("tokens_out", text("2")), ("tokens_cached", Value::Nil)]);
    let stated = map([("total_tokens", Value::Int(9)), ("prompt_tokens", Value::Int(5))]);

    assert_eq!(usage_shape(&state), sums(5, 2));
    assert_eq!(usage_shape(&rollup), sums(5, 2));
    assert_eq!(usage_shape(&stated), Usage { total: 9, prompt: 5, completion: 0, cached: 0 });
    assert_eq!(usage_shape(&map([])), Usage::default());
}

#[test]
fn an_interrupted_job_counts_what_it_reported_before_where_its_result_counts_nothing() {
    let mut failed = report("subagent_result", "agent_explore_1", 0, 5, 1);
    if let Value::Map(pairs) = &mut failed {
        pairs.push(("error".into(), text("interrupted")));
    }
    let session = Session {
        events: vec![report("subagent_token_usage", "agent_explore_1", 7, 3, 1), failed],
        runs: vec![("explore".to_owned(), 0)],
        ..Session::default()
    };

    assert_eq!(subagent_usage(&session, "a").unwrap(), [("a:subagent:explore:0".to_owned(), sums(7, 5))]);
}

#[test]
fn results_without_a_run_stand_behind_those_that_have_one() {
    let session = Session {
        events: vec![report("subagent_result", "j1", 1, 1, 1), report("subagent_result", "j2", 2, 2, 1)],
        runs: vec![("explore".to_owned(), 0), ("other".to_owned(), 4)],
        ..Session::default()
    };

    let expected = [
        ("a:subagent:explore:0".to_owned(), sums(1, 1)),
        ("a:subagent:other:4".to_owned(), Usage::default()),
        ("a:subagent:explore:1".to_owned(), sums(2, 2)),
    ];
    assert_eq!(subagent_usage(&session, "a").unwrap(), expected);
}

#[test]
fn without_rollups_a_job_counts_once_in_the_turn_of_its_largest_report() {
    let session = Session {
        events: vec![
            report("token_usage", "", 10, 1, 1),
            report("token_usage", "", 20, 2, 1),
            report("subagent_token_usage", "j", 5, 5, 1),
            report("subagent_result", "j", 6, 6, 2),
        ],
        ..Session::default()
    };
    let row = |turn, prompt, completion| {
        let counts = [("prompt", prompt), ("completion", completion), ("cached", 0)];
        let counts = counts.map(|(key, count)| (key.into(), Value::Int(count)));
        Value::Map([("turn_index".into(), Value::Int(turn))].into_iter().chain(counts).collect())
    };

    assert_eq!(usage_by_turn(&session, "a").unwrap(), [row(1, 30, 3), row(2, 6, 6)]);
}

#[test]
fn rollups_stand_for_the_events_where_there_are_any() {
    let session = Session {
        events: vec![report("token_usage", "", 10, 1, 1)],
        rollups: vec![map([("turn_index", Value::Int(3)), ("tokens_in", Value::Int(4))])],
        ..Session::default()
    };

    let rows = usage_by_turn(&session, "a").unwrap();

    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].get("turn_index"), Some(&Value::Int(3)));
    assert_eq!(rows[0].get("prompt"), Some(&Value::Int(4)));
}

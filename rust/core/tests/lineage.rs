//! What the rules of `lineage` make of real session files, against what their own writer makes of them.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot read its fixture has failed"
)]

mod expected;

use amberlog_core::codec::Value;
use amberlog_core::lineage::usage::{UsageSource, token_usage, token_usage_all_loops};
use amberlog_core::lineage::{dedupe_adjacent, resumable_events};
use expected::{Fixture, equal_by_value, fixtures};

fn check(what: &str, fixture: &Fixture, agent: &str, found: &Value) {
    let wanted = fixture.of_agent(agent, what).expect("a fixture has every key");
    assert!(
        equal_by_value(found, wanted),
        "{what} of {agent} in {}:\n  found {found:?}\n wanted {wanted:?}",
        fixture.name
    );
}

#[test]
fn resumable_events_of_real_sessions_are_those_of_their_writer() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let events = resumable_events(fixture.events(agent), &[]);

            check("resumable_events", &fixture, agent, &Value::List(events));
        }
    }
}

#[test]
fn resumable_events_of_a_normal_form_are_the_same_again() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let once = resumable_events(fixture.events(agent), &[]);

            assert_eq!(resumable_events(once.clone(), &[]), once);
        }
    }
}

#[test]
fn real_sessions_hold_no_repeated_neighbours_beyond_those_dropped() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let once = dedupe_adjacent(fixture.events(agent));

            assert_eq!(dedupe_adjacent(once.clone()), once);
        }
    }
}

#[test]
fn token_views_of_real_sessions_are_those_of_their_writer() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let usage = token_usage(&fixture, agent, true, true, true).expect("a fixture reads");

            check("token_usage", &fixture, agent, &usage);
        }
    }
}

#[test]
fn all_loops_of_real_sessions_are_those_of_their_writer() {
    for fixture in fixtures() {
        let loops = token_usage_all_loops(&fixture).expect("a fixture reads");

        let rows =
            loops.into_iter().map(|(path, usage)| Value::List(vec![Value::Str(path), usage.to_value()]));
        let found = Value::List(rows.collect());
        let wanted = fixture.get("token_usage_all_loops");
        assert!(equal_by_value(&found, wanted), "{}: {found:?}\n wanted {wanted:?}", fixture.name);
    }
}

impl UsageSource for Fixture {
    fn counters(&self, namespace: &str) -> amberlog_core::Result<Option<Value>> {
        Ok(self
            .get("tables")
            .get("state")
            .and_then(|state| state.get(&format!("{namespace}:token_usage")))
            .cloned())
    }

    fn events(&self, namespace: &str) -> amberlog_core::Result<Vec<Value>> {
        Ok(Fixture::events(self, namespace))
    }

    fn subagent_runs(&self, parent: &str) -> amberlog_core::Result<Vec<(String, i64)>> {
        let runs = self.get("subagent_runs").as_list().unwrap_or_default();
        let of_parent = runs.iter().filter(|run| run.get("parent").and_then(Value::as_str) == Some(parent));
        let pair = |run: &Value| Some((run.get("name")?.as_str()?.to_owned(), run.get("run")?.as_i64()?));
        Ok(of_parent.filter_map(pair).collect())
    }

    fn rollups(&self, agent: &str) -> amberlog_core::Result<Vec<Value>> {
        Ok(self.of_agent(agent, "rollups").and_then(Value::as_list).unwrap_or_default().to_vec())
    }

    fn attached(&self) -> amberlog_core::Result<Vec<String>> {
        let rows = self.get("attached").as_list().unwrap_or_default();
        Ok(rows.iter().filter_map(|row| row.get("namespace")?.as_str().map(str::to_owned)).collect())
    }

    fn agents(&self) -> amberlog_core::Result<Vec<String>> {
        let stored = self.get("meta").get("agents").and_then(Value::as_list).unwrap_or_default();
        let found = self.get("agents_discovered").as_list().unwrap_or_default();
        Ok(stored.iter().chain(found).filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

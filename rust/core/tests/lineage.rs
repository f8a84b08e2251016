//! What the rules of `lineage` make of real session files, against what their own writer makes of them.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot read its fixture has failed"
)]

mod expected;

use amberlog_core::codec::Value;
use amberlog_core::lineage::usage::{UsageSource, token_usage, token_usage_all_loops};
use amberlog_core::lineage::{
    Log, TurnBranches, UserGroups, View, dedupe_adjacent, parse_view, replay_conversation,
    replay_with_settled_tools, resolve_branch_view_strict, resumable_events, select_live_event_ids,
};
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
fn branches_of_real_sessions_are_those_of_their_writer() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let events = fixture.events(agent);
            let log = Log::read(&events, &View::new());

            let metadata = log
                .branch_metadata()
                .into_iter()
                .map(|(turn, found)| (turn.to_string().into(), of_branches(&found)));
            let groups = log
                .user_groups()
                .into_iter()
                .map(|(turn, found)| (turn.to_string().into(), of_groups(&found)));
            check("selected_branches", &fixture, agent, &of_view(log.selected_branches()));
            check("live_event_ids", &fixture, agent, &numbers(&log.live_event_ids()));
            check("branch_metadata", &fixture, agent, &Value::Map(metadata.collect()));
            check("user_groups", &fixture, agent, &Value::Map(groups.collect()));
        }
    }
}

#[test]
fn replays_of_real_sessions_are_those_of_their_writer() {
    for fixture in fixtures() {
        for agent in fixture.agents() {
            let (events, view) = (fixture.events(agent), View::new());

            let resumable = replay_with_settled_tools(&events, &view, true, Some(&[]));
            let plain = replay_conversation(&events, &view, false);
            let with_metadata = replay_conversation(&events, &view, true);
            check("replay_plain", &fixture, agent, &Value::List(plain));
            check("replay_with_metadata", &fixture, agent, &Value::List(with_metadata));
            check("replay_resumable", &fixture, agent, &Value::List(resumable));
        }
    }
}

#[test]
fn each_view_of_a_branched_session_shows_what_its_writer_shows() {
    let fixture = fixtures().into_iter().find(|fixture| fixture.name == "branches").unwrap();
    let all = fixture.events("alice");
    let before_compaction = &all[..all.len() - 2];
    let views = fixture.get("branch_views").as_map().unwrap();
    assert_eq!(views.len(), 11);
    for (name, wanted) in views {
        let (events, text) = match name.strip_prefix("after_compaction ") {
            Some(text) => (&*all, text),
            None => (before_compaction, &**name),
        };
        let view = match expected::value(serde_json::from_str(text).unwrap()) {
            Value::Nil => View::new(),
            view => parse_view(&view).unwrap(),
        };

        let with_metadata = wanted.get("strict").is_none();
        let replay = Value::List(replay_conversation(events, &view, with_metadata));
        assert!(equal_by_value(&replay, wanted.get("replay").unwrap()), "{name}: {replay:?}");
        if let Some(live) = wanted.get("live_event_ids") {
            assert!(equal_by_value(&numbers(&select_live_event_ids(events, &view)), live), "{name}");
        }
        match (resolve_branch_view_strict(events, &view), wanted.get("strict")) {
            (Ok(resolved), Some(strict)) => {
                assert!(equal_by_value(&of_view(&resolved), strict), "{name}: {resolved:?}");
            }
            (Err(refused), Some(Value::Str(why))) => {
                assert_eq!(format!("InvalidBranchViewError: {refused}"), *why);
            }
            (_, None) => {}
            (found, strict) => panic!("{name}: {found:?} instead of {strict:?}"),
        }
    }
}

fn numbers(items: &[i64]) -> Value {
    Value::List(items.iter().copied().map(Value::Int).collect())
}

fn of_view(view: &View) -> Value {
    Value::Map(view.iter().map(|(turn, branch)| (turn.to_string().into(), Value::Int(*branch))).collect())
}

fn record<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

fn of_branches(found: &TurnBranches) -> Value {
    let events = found.events_by_branch.iter().map(|(branch, ids)| (branch.to_string().into(), numbers(ids)));
    record([
        ("branches", numbers(&found.branches)),
        ("latest_branch", Value::Int(found.latest_branch)),
        ("events_by_branch", Value::Map(events.collect())),
    ])
}

/// The writer of the fixtures groups by the printed form of content that is not text.
fn as_python_prints(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::List(items) => format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Value::Map(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, item)| format!("'{key}': {}", quoted(item))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => format!("{value:?}"),
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("'{text}'"),
        _ => as_python_prints(value),
    }
}

fn of_groups(found: &UserGroups) -> Value {
    let groups = found.groups.iter().map(|group| {
        record([
            ("content", Value::Str(as_python_prints(&group.content))),
            ("branches", numbers(&group.branches)),
        ])
    });
    record([
        ("groups", Value::List(groups.collect())),
        ("selected_group_idx", Value::Int(i64::try_from(found.selected_group_idx).unwrap())),
    ])
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

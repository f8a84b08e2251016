//! The rules of `lineage` against models that say by definition what they compute in one pass.
#![expect(clippy::unwrap_used, reason = "a model that fails is a test that fails")]

use std::collections::{BTreeMap, BTreeSet};

use amberlog_core::codec::Value;
use amberlog_core::lineage::{
    ParentPaths, View, pair_tool_calls, replay_conversation, replay_with_settled_tools,
    resolve_branch_view_strict, resumable_events, select_live_event_ids,
};
use proptest::prelude::*;

type Pair = (i64, i64);

/// An event as branches see it.
#[derive(Debug, Clone)]
struct Fact {
    place: Option<Pair>,
    path: Vec<Pair>,
    kind: &'static str,
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

fn text(text: &str) -> Value {
    Value::Str(text.to_owned())
}

fn set(event: &mut Value, key: &str, value: Value) {
    if let Value::Map(pairs) = event {
        pairs.push((key.into(), value));
    }
}

fn pairs_value(pairs: &[Pair]) -> Value {
    Value::List(
        pairs
            .iter()
            .map(|(turn, branch)| Value::List(vec![Value::Int(*turn), Value::Int(*branch)]))
            .collect(),
    )
}

/// Events with ids 1, 2, …
fn events(facts: &[Fact]) -> Vec<Value> {
    let event = |(at, fact): (usize, &Fact)| {
        let id = i64::try_from(at).unwrap() + 1;
        let mut event =
            map([("type", text(fact.kind)), ("event_id", Value::Int(id)), ("content", text("x"))]);
        if let Some((turn, branch)) = fact.place {
            set(&mut event, "turn_index", Value::Int(turn));
            set(&mut event, "branch_id", Value::Int(branch));
        }
        if !fact.path.is_empty() {
            set(&mut event, "parent_branch_path", pairs_value(&fact.path));
        }
        event
    };
    facts.iter().enumerate().map(event).collect()
}

/// The path that a fact states, or the highest branch of each earlier turn before it.
fn path(facts: &[Fact], at: usize) -> Vec<Pair> {
    let (turn, _) = facts[at].place.unwrap();
    if !facts[at].path.is_empty() {
        return facts[at].path.clone();
    }
    let mut highest = BTreeMap::new();
    for (earlier, branch) in facts[..at].iter().filter_map(|fact| fact.place).filter(|place| place.0 < turn) {
        let known = highest.entry(earlier).or_insert(branch);
        *known = branch.max(*known);
    }
    highest.into_iter().collect()
}

fn agrees(path: &[Pair], selected: &View) -> bool {
    path.iter().all(|(turn, branch)| selected.get(turn).is_none_or(|chosen| chosen == branch))
}

/// Turn by turn: of the branches whose first event agrees with the choice so far, the one asked for, else the
/// highest.
fn selected(facts: &[Fact], view: &View) -> View {
    let mut first: BTreeMap<Pair, usize> = BTreeMap::new();
    for (at, place) in facts.iter().enumerate().filter_map(|(at, fact)| Some((at, fact.place?))) {
        first.entry(place).or_insert(at);
    }
    let mut chosen = View::new();
    for turn in first.keys().map(|(turn, _)| *turn).collect::<BTreeSet<_>>() {
        let branches = first.iter().filter(|(place, _)| place.0 == turn);
        let fits: BTreeSet<i64> = branches
            .filter(|(_, at)| agrees(&path(facts, **at), &chosen))
            .map(|(place, _)| place.1)
            .collect();
        let wanted = view.get(&turn).filter(|branch| fits.contains(branch)).or(fits.last());
        chosen.extend(wanted.map(|branch| (turn, *branch)));
    }
    chosen
}

fn live(facts: &[Fact], view: &View) -> Vec<i64> {
    let selected = selected(facts, view);
    let shown = |at: &usize| match facts[*at].place {
        None => true,
        Some((turn, branch)) => {
            let earlier = selected.range(..turn).map(|(turn, branch)| (*turn, *branch)).collect();
            selected.get(&turn) == Some(&branch) && agrees(&path(facts, *at), &earlier)
        }
    };
    (0..facts.len()).filter(shown).map(|at| i64::try_from(at).unwrap() + 1).collect()
}

/// The branches asked for and all that their paths name, when these do not contradict each other; then turn by
/// turn the highest branch that agrees.
fn strict(facts: &[Fact], view: &View) -> Option<View> {
    let first = |place: Pair| facts.iter().position(|fact| fact.place == Some(place));
    let mut needed = View::new();
    let mut open: Vec<Pair> = view.iter().map(|(turn, branch)| (*turn, *branch)).collect();
    while let Some((turn, branch)) = open.pop() {
        match needed.insert(turn, branch) {
            Some(known) if known != branch => return None,
            Some(_) => {}
            None => open.extend(path(facts, first((turn, branch))?)),
        }
    }
    for turn in facts.iter().filter_map(|fact| fact.place).map(|place| place.0).collect::<BTreeSet<_>>() {
        let here = facts.iter().enumerate().filter_map(|(at, fact)| Some((at, fact.place?)));
        let fits = here.filter(|(at, place)| place.0 == turn && agrees(&path(facts, *at), &needed));
        let branches: BTreeSet<i64> = fits.map(|(_, place)| place.1).collect();
        match needed.get(&turn) {
            Some(branch) if !branches.contains(branch) => return None,
            Some(_) => {}
            None => needed.extend(branches.last().map(|branch| (turn, *branch))),
        }
    }
    Some(needed)
}

fn a_fact(kinds: &'static [&'static str]) -> impl Strategy<Value = Fact> {
    let place = prop::option::weighted(0.9, (1i64..6, 1i64..4));
    let path = prop::option::weighted(0.4, prop::collection::btree_map(1i64..6, 1i64..4, 0..5));
    (place, path, prop::sample::select(kinds)).prop_map(|(place, path, kind)| {
        let before = |turn: &i64| place.is_some_and(|place| *turn < place.0);
        let path = path.unwrap_or_default().into_iter().filter(|(turn, _)| before(turn)).collect();
        Fact { place, path, kind }
    })
}

fn a_view() -> impl Strategy<Value = View> {
    prop::collection::btree_map(1i64..6, 1i64..4, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_event_is_live_by_the_definition_of_liveness(
        facts in prop::collection::vec(a_fact(&["user_message", "text_chunk", "processing_start"]), 0..40),
        view in a_view(),
    ) {
        prop_assert_eq!(select_live_event_ids(&events(&facts), &view), live(&facts, &view));
    }

    #[test]
    fn a_parent_path_is_what_the_log_had_shown(
        facts in prop::collection::vec(a_fact(&["user_message"]), 0..40),
    ) {
        let events = events(&facts);
        let paths = ParentPaths::of(&events);
        for at in (0..facts.len()).filter(|at| facts[*at].place.is_some()) {
            prop_assert_eq!(paths.get(i64::try_from(at).unwrap() + 1), Some(path(&facts, at)));
        }
    }

    #[test]
    fn a_strict_view_is_met_in_full_or_refused(
        facts in prop::collection::vec(a_fact(&["user_message", "user_input"]), 0..30),
        view in a_view(),
    ) {
        prop_assert_eq!(resolve_branch_view_strict(&events(&facts), &view).ok(), strict(&facts, &view));
    }
}

/// What may happen in a turn.
#[derive(Debug, Clone)]
enum Act {
    Say,
    /// A call, and in how many turns from then its result comes.
    Call(Option<u8>),
    Compact,
}

/// A log as an agent writes it: each turn goes on from the last one, or begins an earlier one anew.
fn a_session() -> impl Strategy<Value = Vec<Value>> {
    let act = prop_oneof![
        3 => Just(Act::Say),
        4 => prop::option::weighted(0.8, 0u8..3).prop_map(Act::Call),
        1 => Just(Act::Compact),
    ];
    let turn = (prop::option::weighted(0.3, 1i64..8), prop::collection::vec(act, 0..6), any::<bool>());
    prop::collection::vec(turn, 1..12).prop_map(|turns| write(&turns))
}

#[derive(Default)]
struct Writer {
    events: Vec<Value>,
    current: Vec<Pair>,
    due: Vec<(u8, String)>,
}

impl Writer {
    fn add<const N: usize>(&mut self, kind: &str, fields: [(&str, Value); N]) -> i64 {
        let id = i64::try_from(self.events.len()).unwrap() + 1;
        let (turn, branch) = *self.current.last().unwrap();
        let mut event = map([("type", text(kind)), ("event_id", Value::Int(id))]);
        for (key, value) in fields {
            set(&mut event, key, value);
        }
        set(&mut event, "turn_index", Value::Int(turn));
        set(&mut event, "branch_id", Value::Int(branch));
        set(&mut event, "parent_branch_path", pairs_value(&self.current[..self.current.len() - 1]));
        self.events.push(event);
        id
    }

    fn result(&mut self, job: &str) {
        self.add("tool_result", [("name", text("bash")), ("call_id", text(job)), ("output", text("done"))]);
    }

    /// A summary of all turns before the current one.
    fn compact(&mut self) {
        let path = self.current[..self.current.len() - 1].to_vec();
        let place =
            |event: &Value| Some((event.get("turn_index")?.as_i64()?, event.get("branch_id")?.as_i64()?));
        let ids = self.events.iter().filter(|event| place(event).is_some_and(|place| path.contains(&place)));
        let ids: Vec<i64> = ids.filter_map(|event| event.get("event_id")?.as_i64()).collect();
        if let (Some(from), Some(to)) = (ids.first(), ids.last()) {
            let bounds =
                [("replaced_from_event_id", Value::Int(*from)), ("replaced_to_event_id", Value::Int(*to))];
            let id = self.add("compact_complete", bounds);
            let event = &mut self.events[usize::try_from(id).unwrap() - 1];
            set(event, "summary", text(&format!("summary {id}")));
            set(event, "compact_path", pairs_value(&path));
            set(event, "compact_source_path", pairs_value(&path));
        }
    }
}

fn write(turns: &[(Option<i64>, Vec<Act>, bool)]) -> Vec<Value> {
    let mut writer = Writer::default();
    let mut branches: BTreeMap<i64, i64> = BTreeMap::new();
    for (again, acts, announced) in turns {
        let next = i64::try_from(writer.current.len()).unwrap() + 1;
        let turn = again.unwrap_or(next).min(next);
        writer.current.retain(|place| place.0 < turn);
        let branch = branches.entry(turn).or_default();
        *branch += 1;
        writer.current.push((turn, *branch));
        writer.add("user_message", [("content", text("ask"))]);
        for act in acts {
            match act {
                Act::Say => {
                    writer.add("text_chunk", [("content", text("word"))]);
                }
                Act::Call(result) => {
                    let job = format!("bash_{:04x}", writer.events.len());
                    if *announced {
                        let call = map([("id", text(&job)), ("type", text("function"))]);
                        writer.add("assistant_tool_calls", [("tool_calls", Value::List(vec![call]))]);
                    }
                    writer.add("tool_call", [("name", text("bash")), ("call_id", text(&job))]);
                    match result {
                        Some(0) => writer.result(&job),
                        Some(turns) => writer.due.push((*turns, job)),
                        None => {}
                    }
                }
                Act::Compact => writer.compact(),
            }
        }
        for (turns, job) in std::mem::take(&mut writer.due) {
            match turns {
                0 => writer.result(&job),
                more => writer.due.push((more - 1, job)),
            }
        }
    }
    writer.events
}

fn said<'v>(messages: &'v [Value], role: &str) -> Vec<&'v Value> {
    messages.iter().filter(|message| message.get("role").and_then(Value::as_str) == Some(role)).collect()
}

fn called(messages: &[Value]) -> Vec<&str> {
    let calls =
        said(messages, "assistant").into_iter().filter_map(|message| message.get("tool_calls")?.as_list());
    calls.flatten().filter_map(|call| call.get("id")?.as_str()).collect()
}

fn answered(messages: &[Value]) -> Vec<&str> {
    said(messages, "tool").into_iter().filter_map(|result| result.get("tool_call_id")?.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_call_of_a_resumed_conversation_has_exactly_one_result(events in a_session(), view in a_view()) {
        let messages = replay_with_settled_tools(&events, &view, false, Some(&[]));

        let (called, mut answered) = (called(&messages), answered(&messages));
        let distinct: BTreeSet<&str> = called.iter().copied().collect();
        prop_assert_eq!(distinct.len(), called.len());
        // A result that came while a sibling of its call's branch was shown is a result of no call here.
        answered.retain(|id| distinct.contains(id));
        answered.sort_unstable();
        prop_assert_eq!(answered, distinct.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn paired_messages_hold_after_each_message_the_results_of_its_calls(
        events in a_session(), view in a_view(), settled in any::<bool>(), cut in 0usize..20,
    ) {
        let mut messages = if settled { replay_with_settled_tools(&events, &view, false, Some(&[])) } else { replay_conversation(&events, &view, false) };
        messages.drain(..cut.min(messages.len()));

        let (paired, _) = pair_tool_calls(messages.clone(), &[]);

        for (at, message) in paired.iter().enumerate() {
            let results = paired[at + 1..].iter().take_while(|next| !said(std::slice::from_ref(next), "tool").is_empty());
            let mut ids: Vec<&str> = results.filter_map(|result| result.get("tool_call_id")?.as_str()).collect();
            let mut calls = called(std::slice::from_ref(message));
            ids.sort_unstable();
            calls.sort_unstable();
            prop_assert!(message.get("tool_calls").is_none() || ids == calls);
        }
        prop_assert_eq!(answered(&paired).len(), called(&paired).len());
        let spoken = |messages: &[Value]| said(messages, "user").len() + said(messages, "assistant").len();
        prop_assert_eq!(spoken(&paired), spoken(&messages));
        prop_assert_eq!(pair_tool_calls(paired.clone(), &[]), (paired, Vec::new()));
    }

    #[test]
    fn a_conversation_holds_each_shown_request_or_a_summary_of_it(events in a_session(), view in a_view()) {
        let live = select_live_event_ids(&events, &view);
        let messages = replay_conversation(&events, &view, true);

        let asked = events.iter().filter(|event| event.get("type").and_then(Value::as_str) == Some("user_message"));
        let shown = asked.filter(|event| live.contains(&event.get("event_id").unwrap().as_i64().unwrap())).count();
        let told = said(&messages, "user").len();
        let summaries = said(&messages, "assistant").into_iter();
        let summaries = summaries.filter(|message| message.get("metadata").and_then(|data| data.get("compact_summary")).is_some());
        prop_assert!(told <= shown);
        prop_assert_eq!(told < shown, summaries.count() > 0);
    }

    #[test]
    fn making_events_resumable_again_changes_nothing(events in a_session()) {
        let once = resumable_events(events, &[]);

        prop_assert_eq!(resumable_events(once.clone(), &[]), once);
    }
}

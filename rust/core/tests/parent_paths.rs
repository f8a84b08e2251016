//! Leaving out the parent paths that a log implies changes nothing that a log means.
#![expect(clippy::unwrap_used, reason = "a model that fails is a test that fails")]

use std::collections::BTreeMap;

use amberlog_core::codec::Value;
use amberlog_core::lineage::{
    Highest, ParentPaths, View, collect_branch_metadata, collect_user_groups, replay_conversation,
    replay_with_settled_tools, resolve_branch_view_strict, select_live_event_ids,
};
use proptest::prelude::*;

type Pair = (i64, i64);

/// What a user does next.
#[derive(Debug, Clone)]
enum Step {
    /// Goes on with another turn.
    Turn,
    /// Edits or regenerates a turn of the conversation, counted from its end.
    Again(usize),
    /// Goes back to a place that was recorded, counted from the first.
    Return(usize),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Turn),
        2 => (0..4_usize).prop_map(Step::Again),
        1 => any::<usize>().prop_map(Step::Return),
    ]
}

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

fn text(text: &str) -> Value {
    Value::Str(text.to_owned())
}

fn path_value(path: &[Pair]) -> Value {
    let pair = |(turn, branch): &Pair| Value::List(vec![Value::Int(*turn), Value::Int(*branch)]);
    Value::List(path.iter().map(pair).collect())
}

/// The same session twice: with every path, and without those that are implied.
#[derive(Default)]
struct Session {
    full: Vec<Value>,
    spare: Vec<Value>,
    highest: Highest,
    stated: usize,
}

impl Session {
    fn append(
        &mut self,
        (turn, branch): Pair,
        path: &[Pair],
        mut event: Vec<(&'static str, Value)>,
        must: bool,
    ) -> bool {
        event.push(("event_id", Value::Int(i64::try_from(self.full.len()).unwrap() + 1)));
        event.push(("turn_index", Value::Int(turn)));
        event.push(("branch_id", Value::Int(branch)));
        let mut full = event.clone();
        full.push(("parent_branch_path", path_value(path)));
        let states = must || !self.highest.implies(turn, path);
        self.spare.push(map(if states { full.clone() } else { event }));
        self.full.push(map(full));
        self.highest.note(turn, branch);
        self.stated += usize::from(states);
        states
    }

    /// A turn: the request, a round that calls a tool, its result, an answer.
    fn turn(&mut self, at: Pair, path: &[Pair]) {
        for kind in ["user_input", "user_message"] {
            let asked = format!("ask {at:?}");
            self.append(at, path, vec![("type", text(kind)), ("content", text(&asked))], false);
        }
        let start = i64::try_from(self.full.len()).unwrap() + 1;
        let stated = self.append(at, path, vec![("type", text("assistant_round_start"))], false);
        let said = format!("say {at:?}");
        self.append(at, path, vec![("type", text("text_chunk")), ("content", text(&said))], false);
        let job = format!("job_{start}");
        let call = vec![("type", text("tool_call")), ("name", text("bash")), ("call_id", text(&job))];
        self.append(at, path, call, false);
        let calls = Value::List(vec![map(vec![("id", text(&job)), ("type", text("function"))])]);
        let message = map(vec![("role", text("assistant")), ("content", text(&said)), ("tool_calls", calls)]);
        let end = vec![
            ("type", text("assistant_message")),
            ("message", message),
            ("round_start_event_id", Value::Int(start)),
        ];
        self.append(at, path, end, stated);
        let result = vec![("type", text("tool_result")), ("call_id", text(&job)), ("output", text("out"))];
        self.append(at, path, result, false);
        self.append(at, path, vec![("type", text("text_chunk")), ("content", text("so it is"))], false);
    }
}

fn session(steps: &[Step]) -> Session {
    let mut session = Session::default();
    let mut branches: BTreeMap<i64, i64> = BTreeMap::new();
    let mut places: Vec<Vec<Pair>> = Vec::new();
    let mut lineage: Vec<Pair> = Vec::new();
    for step in steps {
        match step {
            Step::Again(back) if !lineage.is_empty() => {
                lineage.truncate(lineage.len() - 1 - back.min(&(lineage.len() - 1)));
            }
            Step::Return(place) if !places.is_empty() => {
                lineage.clone_from(&places[place % places.len()]);
                continue;
            }
            _ => {}
        }
        let turn = lineage.last().map_or(1, |(turn, _)| turn + 1);
        let branch = branches.entry(turn).or_insert(0);
        *branch += 1;
        session.turn((turn, *branch), &lineage);
        lineage.push((turn, *branch));
        places.push(lineage.clone());
    }
    session
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_log_means_the_same_under_every_view(
        steps in prop::collection::vec(a_step(), 1..14),
        view in prop::collection::btree_map(1..9_i64, 1..4_i64, 0..4),
    ) {
        let Session { full, spare, .. } = session(&steps);
        let view: View = view;

        prop_assert_eq!(select_live_event_ids(&spare, &view), select_live_event_ids(&full, &view));
        prop_assert_eq!(replay_conversation(&spare, &view, true), replay_conversation(&full, &view, true));
        prop_assert_eq!(
            replay_with_settled_tools(&spare, &view, true, Some(&[])),
            replay_with_settled_tools(&full, &view, true, Some(&[]))
        );
        let (one, other) = (resolve_branch_view_strict(&spare, &view), resolve_branch_view_strict(&full, &view));
        prop_assert_eq!(one.ok(), other.ok());
        let debug = |events: &[Value]| format!("{:?} {:?}", collect_branch_metadata(events, &view), collect_user_groups(events, &view));
        prop_assert_eq!(debug(&spare), debug(&full));
    }

    #[test]
    fn every_event_keeps_its_path(steps in prop::collection::vec(a_step(), 1..14)) {
        let Session { full, spare, .. } = session(&steps);

        let (full_paths, spare_paths) = (ParentPaths::of(&full), ParentPaths::of(&spare));

        for id in 1..=i64::try_from(full.len()).unwrap() {
            prop_assert_eq!(spare_paths.get(id).unwrap_or_default(), full_paths.get(id).unwrap_or_default());
        }
    }

    #[test]
    fn who_never_goes_back_to_an_older_branch_states_no_path(steps in prop::collection::vec(a_step(), 1..30)) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Return(_))).collect();

        prop_assert_eq!(session(&steps).stated, 0);
    }
}

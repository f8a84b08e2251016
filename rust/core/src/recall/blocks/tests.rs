//! Blocks of logs that a few lines write down.

use proptest::prelude::*;

use super::*;

fn event(kind: &str, fields: &[(&str, &str)]) -> Value {
    let mut pairs = vec![("type".into(), kind.into()), ("ts".into(), 5.0.into())];
    pairs.extend(fields.iter().map(|(key, text)| ((*key).into(), (*text).into())));
    Value::Map(pairs)
}

fn cut(events: &[Value]) -> Vec<Block> {
    let mut cutter = Cutter::default();
    let mut out = Vec::new();
    for event in events {
        cutter.cut(event, Standing::PLAIN, &mut out);
    }
    out
}

/// Kind, round, block, part and text of each block.
fn told(events: &[Value]) -> Vec<(Kind, i64, i64, usize, String)> {
    let blocks = cut(events).into_iter();
    blocks.map(|found| (found.kind, found.round, found.block, found.part, found.text)).collect()
}

#[test]
fn a_round_counts_what_was_asked_said_and_done() {
    let mut call = event("tool_call", &[("name", "bash")]);
    if let Value::Map(pairs) = &mut call {
        let args = vec![
            ("command".into(), "rotate --all".into()),
            ("_tool_call_id".into(), "c1".into()),
            ("n".into(), 3_i64.into()),
        ];
        pairs.push(("args".into(), Value::Map(args)));
    }
    let log = [
        event("user_input", &[("content", "Rotate it")]),
        event("user_message", &[("content", "Rotate it")]),
        event("text_chunk", &[("content", " At once. ")]),
        call,
        event("tool_result", &[("name", "bash"), ("output", "rotated 3 tokens")]),
        event("processing_end", &[]),
        event("trigger_fired", &[("channel", "ops"), ("content", "queue grows")]),
    ];

    let found = told(&log);

    let expected = [
        (Kind::User, 1, 0, 0, "Rotate it"),
        (Kind::Other, 1, 1, 0, "Rotate it"),
        (Kind::Text, 1, 1, 0, "At once."),
        (Kind::Tool, 1, 2, 0, "[tool:bash] command=rotate --all n=3"),
        (Kind::Tool, 1, 3, 0, "[result:bash] rotated 3 tokens"),
        (Kind::Trigger, 2, 0, 0, "[trigger:ops] queue grows"),
    ];
    assert_eq!(
        found,
        expected.map(|(kind, round, block, part, text)| (kind, round, block, part, text.to_owned()))
    );
}

#[test]
fn a_long_text_is_cut_at_its_blank_lines_and_a_short_one_is_not() {
    let essay = format!("{}\n\n \n\n{} \n\nend", "a".repeat(200), "b".repeat(200));
    let log = [
        event("user_input", &[("content", "go")]),
        event("text", &[("content", "Short\n\ntext")]),
        event("text", &[("content", &essay)]),
    ];

    let parts: Vec<(usize, usize)> = cut(&log).iter().map(|block| (block.part, block.text.len())).collect();

    assert_eq!(parts, [(0, 2), (0, 11), (0, 200), (1, 200), (2, 3)]);
}

#[test]
fn what_is_beyond_the_cut_of_a_call_is_found_but_not_told() {
    let output = "é".repeat(50_010);
    let log = [
        event("user_input", &[("content", "go")]),
        event("tool_result", &[("name", "t"), ("error", &output), ("output", "besides")]),
    ];

    let blocks = cut(&log);

    let lengths: Vec<(Kind, usize)> =
        blocks.iter().map(|block| (block.kind, block.text.chars().count())).collect();
    assert_eq!(lengths, [(Kind::User, 2), (Kind::Tool, 50_000), (Kind::Other, 21), (Kind::Other, 7)]);
}

#[test]
fn text_without_a_round_is_not_told() {
    let log = [
        event("text", &[("content", "orphan")]),
        event("user_input", &[("content", "start")]),
        event("text", &[("content", "inside")]),
        event("processing_end", &[]),
        event("text", &[("content", "late")]),
    ];

    let kinds: Vec<Kind> = cut(&log).iter().map(|block| block.kind).collect();

    assert_eq!(kinds, [Kind::Other, Kind::User, Kind::Text, Kind::Other]);
}

#[test]
fn a_message_is_told_only_where_its_text_did_not_come_before() {
    let message = |content: &str| {
        let inner = Value::Map(vec![("content".into(), content.into())]);
        Value::Map(vec![("type".into(), "assistant_message".into()), ("message".into(), inner)])
    };
    let log = [
        event("user_input", &[("content", "go")]),
        event("text_chunk", &[("content", "streamed")]),
        message("streamed"),
        event("assistant_round_start", &[]),
        message("whole"),
        event("text_chunk", &[("content", "more")]),
    ];

    let blocks = told(&log);

    let texts: Vec<(Kind, i64, &str)> =
        blocks.iter().map(|(kind, _, block, _, text)| (*kind, *block, text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (Kind::User, 0, "go"),
            (Kind::Text, 1, "streamed"),
            (Kind::Text, 2, "whole"),
            (Kind::Text, 2, "more")
        ]
    );
}

#[test]
fn sub_agents_summaries_and_messages_are_told_without_being_counted() {
    let log = [
        event("user_input", &[("content", "go")]),
        event("subagent_result", &[("name", "scout"), ("output", "the map of the house")]),
        event("compact_complete", &[("summary", "What was said so far.")]),
        event("text", &[("content", "done")]),
    ];

    let blocks = told(&log);
    let message = cut_message("ops", 4, &event("", &[("sender", "bob"), ("content", "hi")]));

    let shown: Vec<(Kind, i64, &str)> =
        blocks.iter().skip(1).map(|(kind, _, block, _, text)| (*kind, *block, text.as_str())).collect();
    assert_eq!(
        shown,
        [
            (Kind::Subagent, 1, "[subagent:scout] the map of the house"),
            (Kind::Summary, 1, "What was said so far."),
            (Kind::Text, 1, "done"),
        ]
    );
    assert_eq!(message.map(|block| (block.block, block.text)), Some((4, "[channel:ops] bob: hi".to_owned())));
}

#[test]
fn what_is_not_live_moves_no_number() {
    let events = [
        (event("user_input", &[("content", "one")]), true),
        (event("user_input", &[("content", "left")]), false),
        (event("text", &[("content", "left too")]), false),
        (event("user_input", &[("content", "two")]), true),
    ];
    let mut cutter = Cutter::default();
    let mut blocks = Vec::new();

    for (event, live) in &events {
        cutter.cut(event, Standing { live: *live, repeats: false }, &mut blocks);
    }

    let rounds: Vec<(i64, bool, Kind)> =
        blocks.iter().map(|block| (block.round, block.live, block.kind)).collect();
    assert_eq!(
        rounds,
        [(1, true, Kind::User), (1, false, Kind::User), (1, false, Kind::Text), (2, true, Kind::User)]
    );
}

#[test]
fn parts_of_a_content_are_one_text() {
    let part = |fields: &[(&str, &str)]| {
        Value::Map(fields.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
    };
    let parts = vec![
        part(&[("type", "text"), ("text", "look at")]),
        part(&[("type", "image_url")]),
        "this".into(),
        part(&[("type", "file")]),
        Value::Nil,
    ];
    let log =
        [Value::Map(vec![("type".into(), "user_input".into()), ("content".into(), Value::List(parts))])];

    let texts: Vec<String> = cut(&log).into_iter().map(|block| block.text).collect();

    assert_eq!(texts, ["look at [image] this [file]"]);
}

fn any_kind() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "user_input",
        "user_message",
        "text_chunk",
        "assistant_message",
        "tool_call",
        "tool_result",
        "processing_end",
        "compact_complete",
        "card",
    ])
}

proptest! {
    #[test]
    fn every_block_is_a_piece_of_its_event_and_numbers_only_grow(
        log in prop::collection::vec((any_kind(), ".{0,40}", any::<bool>()), 0..40)
    ) {
        let mut cutter = Cutter::default();
        let mut last = (0, 0);
        for (kind, text, live) in log {
            let event = event(kind, &[("content", &text), ("output", &text), ("summary", &text), ("name", "n")]);
            let mut blocks = Vec::new();

            cutter.cut(&event, Standing { live, repeats: false }, &mut blocks);

            let pieces = pieces(&event);
            for block in blocks {
                prop_assert_eq!(&block.text, &pieces[block.part].text);
                prop_assert!((block.round, block.block) >= last);
                last = (block.round, block.block);
            }
        }
    }
}

//! Blocks cut from real logs, beside those that the peer's memory search cuts.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot read its fixture has failed"
)]

mod expected;

use amberlog_core::bundle::cut_log;
use amberlog_core::codec::Value;
use expected::{equal_by_value, fixtures};

/// What the peer keeps of a block: its text and where it stands.
fn peers_form(agent: &str, blocks: &[amberlog_core::recall::blocks::Block]) -> Vec<(String, Value)> {
    let told = blocks.iter().filter(|block| block.live && block.kind.name() != "other");
    told.map(|block| {
        let fields: Vec<(&str, Value)> = vec![
            ("agent", agent.into()),
            ("block", block.block.into()),
            ("channel", block.channel.as_str().into()),
            ("round", block.round.into()),
            ("tool_name", block.tool_name.as_str().into()),
            ("ts", block.ts.into()),
            ("type", block.kind.name().into()),
        ];
        let form = fields.into_iter().map(|(key, value)| (key.into(), value)).collect();
        (block.text.clone(), Value::Map(form))
    })
    .collect()
}

#[test]
fn the_blocks_of_the_fixture_are_those_that_the_peer_cut() {
    let fixture = fixtures().into_iter().find(|fixture| fixture.name == "vectors").unwrap();
    let rows = fixture.get("memory_fts").as_list().unwrap().to_vec();

    let ours: Vec<(String, Value)> = fixture
        .agents()
        .into_iter()
        .flat_map(|agent| peers_form(agent, &cut_log(&fixture.events(agent))))
        .collect();

    let live = fixture.of_agent("alice", "live_event_ids").unwrap().as_list().unwrap();
    let seen = cut_log(&fixture.events("alice")).into_iter();
    assert!(seen.into_iter().all(|block| block.live == live.contains(&block.event_id.into())));
    assert_eq!(ours.len(), rows.len());
    for ((text, form), row) in ours.iter().zip(&rows) {
        let [_, peers_text, meta] = row.as_list().unwrap() else { panic!("a row has three parts") };
        let mut meta = meta.clone();
        if let Value::Map(pairs) = &mut meta {
            pairs.retain(|(key, _)| *key != "block_id");
        }
        assert_eq!(peers_text.as_str(), Some(text.as_str()));
        assert!(equal_by_value(form, &meta), "{form:?} is not {meta:?}");
    }
}

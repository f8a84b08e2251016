//! A bundle as its callers meet it: what was appended is read back, whoever else writes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use amberlog_core::bundle::{Bundle, Conversation, Filter, Options, Payload, Save, Saved, Selection, Tag};
use amberlog_core::clock::SystemClock;
use amberlog_core::codec::msgpack;
use amberlog_core::model::Draft;

fn open(path: &Path) -> Bundle {
    Bundle::open(path, Options::default(), Box::new(SystemClock)).unwrap()
}

fn text_event(text: &str) -> Draft {
    let mut pairs = Vec::new();
    msgpack::put_str(&mut pairs, "content");
    msgpack::put_str(&mut pairs, text);
    Draft { event_type: "user_message".to_owned(), pairs, count: 1, ..Draft::default() }
}

fn ids(bundle: &Bundle, agent: &str, wanted: &Selection) -> Vec<i64> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let page = bundle.page(agent, wanted, from, 100).unwrap();
        for row in &page.rows {
            let Payload::Object(body) = &row.value else { panic!("an event is a map") };
            ids.push(msgpack::field(body, "event_id").and_then(msgpack::as_i64).unwrap());
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return ids,
        }
    }
}

#[test]
fn two_handles_that_take_turns_never_give_a_number_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.kohakutr");
    let (one, other) = (open(&path), open(&path));

    for round in 0..50 {
        one.append("alice", &[text_event(&format!("one {round}"))]).unwrap();
        other.append("alice", &[text_event(&format!("other {round}")), text_event("again")]).unwrap();
        other.append("bob", &[text_event("bob")]).unwrap();
    }

    let alice = ids(&one, "alice", &Selection::default());
    let mut all = [alice.clone(), ids(&other, "bob", &Selection::default())].concat();
    all.sort_unstable();
    assert!(alice.is_sorted());
    assert_eq!(all, (1..=200).collect::<Vec<i64>>());
    assert_eq!(one.max_event_id().unwrap(), 200);
}

#[test]
fn part_of_a_log_is_found_by_id_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = open(&directory.path().join("s.kohakutr"));
    for number in 0..300 {
        let agent = if number % 3 == 0 { "bob" } else { "alice" };
        bundle.append(agent, &[text_event("x")]).unwrap();
    }

    let wanted = Selection { since: Some(100), until: Some(130), ..Selection::default() };
    let forward = ids(&bundle, "alice", &wanted);
    let mut back = ids(&bundle, "alice", &Selection { reverse: true, ..wanted });

    back.reverse();
    assert_eq!(forward, back);
    assert_eq!(forward, (101..=130).filter(|id| (id - 1) % 3 != 0).collect::<Vec<i64>>());
}

#[test]
fn a_closed_bundle_leaves_one_file_and_is_found_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.kohakutr");
    let bundle = open(&path);
    bundle.append("alice", &[text_event("the billing service migration failed")]).unwrap();
    bundle.close().unwrap();

    let again = Bundle::open_readonly(&path, Box::new(SystemClock)).unwrap();
    let hits = again.search("migration billing", 10, Filter::default()).unwrap();

    let mut names: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["s.kohakutr", "s.kohakutr.lock"]);
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].source, "alice:e000000");
    assert_eq!(again.verify().unwrap().problems, []);
}

fn message(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    msgpack::put_map_header(&mut body, 2);
    for (key, value) in [("role", "user"), ("content", text)] {
        msgpack::put_str(&mut body, key);
        msgpack::put_str(&mut body, value);
    }
    body
}

fn joined(found: Option<Conversation>) -> Vec<String> {
    let lists = match found {
        Some(Conversation::Lists(lists)) => lists,
        Some(Conversation::Whole(Payload::Object(list))) => vec![list],
        other => panic!("no list: {other:?}"),
    };
    lists
        .iter()
        .flat_map(|list| msgpack::decode(list).unwrap().as_list().unwrap().to_vec())
        .map(|message| message.get("content").unwrap().as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_turn_keeps_the_messages_that_it_was_saved_with() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = open(&directory.path().join("s.kohakutr"));
    let mut wanted: Vec<Vec<String>> = Vec::new();
    let mut list: Vec<String> = Vec::new();

    for turn in 0..60_usize {
        if turn % 7 == 6 {
            list.truncate(list.len() / 2 + 1);
        }
        list.extend((0..3).map(|part| format!("turn {turn} part {part} {}", "x".repeat(200))));
        let fresh: Vec<Vec<u8>> = list.iter().map(|text| message(text)).collect();
        let saved =
            bundle.save_snapshot(&Save { agent: "a", keep: 0, base: 0, fresh: &fresh, tag: &Tag::Plain });
        assert!(matches!(saved, Ok(Saved::As(_))));
        wanted.push(list.clone());
    }
    bundle.close().unwrap();

    let again = open(bundle.path());
    assert_eq!(again.snapshots("a").unwrap().len(), 60);
    for (turn, list) in wanted.iter().enumerate() {
        let turn = i64::try_from(turn).unwrap() + 1;
        assert_eq!(joined(again.load_snapshot("a", Some(turn)).unwrap()), *list);
    }
    assert_eq!(joined(again.load_snapshot("a", None).unwrap()), wanted[59]);
    assert_eq!(again.verify().unwrap().problems, []);
}

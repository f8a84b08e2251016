//! The tail: what a killed writer acknowledged is there, once, whoever comes next.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use amberlog_core::bundle::{Bundle, Durability, Options, Payload, Selection};
use amberlog_core::clock::SystemClock;
use amberlog_core::codec::msgpack;
use amberlog_core::model::Draft;
use proptest::prelude::*;

/// Key, id and text of an event.
type Event = (String, i64, String);

fn open(path: &Path) -> Bundle {
    let options = Options { durability: Durability::Tail, ..Options::default() };
    Bundle::open(path, options, Box::new(SystemClock)).unwrap()
}

fn readonly(path: &Path) -> Bundle {
    Bundle::open_readonly(path, Box::new(SystemClock)).unwrap()
}

fn text_event(text: &str) -> Draft {
    let mut pairs = Vec::new();
    msgpack::put_str(&mut pairs, "content");
    msgpack::put_str(&mut pairs, text);
    Draft { event_type: "user_message".to_owned(), pairs, count: 1, ..Draft::default() }
}

fn append(bundle: &Bundle, agent: &str, text: &str) -> Event {
    let appended = bundle.append(agent, &[text_event(text)]).unwrap().remove(0);
    (String::from_utf8(appended.key).unwrap(), appended.id.0, text.to_owned())
}

fn log(bundle: &Bundle, agent: &str) -> Vec<Event> {
    let (mut events, mut from) = (Vec::new(), None);
    loop {
        let page = bundle.page(agent, &Selection::default(), from, 100).unwrap();
        for row in &page.rows {
            let Payload::Object(body) = &row.value else { panic!("an event is a map") };
            let id = msgpack::field(body, "event_id").and_then(msgpack::as_i64).unwrap();
            let text = msgpack::field(body, "content").and_then(msgpack::as_str).unwrap();
            events.push((String::from_utf8(row.key.clone()).unwrap(), id, text.to_owned()));
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return events,
        }
    }
}

fn tail_of(path: &Path) -> PathBuf {
    path.with_extension("kohakutr.tail")
}

/// What a kill at this moment would leave, in a directory of its own. Copied by another process, since
/// this one must not open the files of a live session.
fn as_killed(path: &Path, directory: &Path, name: &str) -> PathBuf {
    let copy = directory.join(name).with_extension("kohakutr");
    for suffix in [".tail", "", "-wal"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        if beside(path).exists() {
            assert!(Command::new("cp").arg(beside(path)).arg(beside(&copy)).status().unwrap().success());
        }
    }
    copy
}

#[test]
fn every_acknowledged_event_is_there_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.kohakutr");
    let bundle = open(&path);
    let mut events = Vec::new();

    for number in 0..60 {
        events.push(append(&bundle, "alice", &format!("event {number}")));
        if number % 3 == 0 {
            let copy = as_killed(&path, directory.path(), &format!("copy{number}"));
            let names = std::fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(log(&readonly(&copy), "alice"), events, "read after {number}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), names);
            let opened = open(&copy);
            assert_eq!(log(&opened, "alice"), events, "opened after {number}");
            assert_eq!(append(&opened, "alice", "next").1, number + 2);
            opened.close().unwrap();
            assert!(!tail_of(&copy).exists());
        }
    }

    assert_eq!(log(&bundle, "alice"), events);
}

#[test]
fn one_call_is_there_with_all_its_events_or_with_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.kohakutr");
    let bundle = open(&path);
    append(&bundle, "alice", "first");
    bundle.flush().unwrap();
    bundle.append("alice", &[text_event("one"), text_event("two"), text_event("three")]).unwrap();
    let copy = as_killed(&path, directory.path(), "copy");

    let mut bytes = std::fs::read(tail_of(&copy)).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end] ^= 1;
    std::fs::write(tail_of(&copy), bytes).unwrap();

    // Stored meanwhile by the service thread, they do not depend on the tail.
    let count = log(&open(&copy), "alice").len();
    assert!(count == 1 || count == 4, "{count}");
}

#[test]
fn an_event_whose_key_another_program_took_is_kept_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.kohakutr");
    let bundle = open(&path);
    append(&bundle, "alice", "first");
    bundle.flush().unwrap();
    let copy = loop {
        append(&bundle, "alice", "second");
        let copy = as_killed(&path, directory.path(), "copy");
        // The service thread may have been quicker; then the next event is tried.
        if plain_count(&copy) < log(&bundle, "alice").len() {
            break copy;
        }
    };
    let expected = log(&bundle, "alice");
    let (key, id, _) = expected.last().unwrap().clone();
    let peer = rusqlite::Connection::open(&copy).unwrap();
    let mut body = vec![0x82];
    for (name, value) in [("content", None), ("event_id", Some(id))] {
        msgpack::put_str(&mut body, name);
        match value {
            Some(id) => msgpack::put_i64(&mut body, id),
            None => msgpack::put_str(&mut body, "the peer's"),
        }
    }
    let stored = [b"\x89K\x01\x04\0\0\0\0VK".as_slice(), &body].concat();
    peer.execute("INSERT INTO events VALUES (?1, ?2)", (key.as_bytes(), stored)).unwrap();
    drop(peer);

    let opened = open(&copy);

    let mut wanted = expected;
    let (last_key, last_id, last_text) = wanted.pop().unwrap();
    wanted.push((last_key.clone(), last_id, "the peer's".to_owned()));
    let number: u64 = last_key.rsplit_once(":e").unwrap().1.parse().unwrap();
    wanted.push((format!("alice:e{:06}", number + 1), last_id + 1, last_text));
    assert_eq!(log(&opened, "alice"), wanted);
    assert_eq!(opened.verify().unwrap().counts.get("tail:renumbered"), Some(&1));
}

fn plain_count(path: &Path) -> usize {
    let connection = rusqlite::Connection::open(path).unwrap();
    let count: i64 = connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}

#[test]
fn a_session_has_one_tail_whatever_name_it_is_opened_by() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("s.kohakutr"), directory.path().join("link.kohakutr"));
    let bundle = open(&path);
    let mut events = vec![append(&bundle, "alice", "first"), append(&bundle, "alice", "second")];
    std::os::unix::fs::symlink(&path, &link).unwrap();

    drop(bundle);
    let linked = open(&link);
    events.extend([append(&linked, "alice", "third"), append(&linked, "alice", "fourth")]);
    drop(linked);

    assert!(!tail_of(&link).exists());
    assert_eq!(log(&open(&path), "alice"), events);
}

#[test]
fn the_tail_of_another_bundle_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("s.kohakutr"), directory.path().join("o.kohakutr"));
    let (bundle, stranger) = (open(&path), open(&other));
    for text in ["first", "second"] {
        append(&bundle, "alice", text);
        append(&stranger, "alice", "a stranger's");
    }
    append(&stranger, "alice", "a stranger's");
    stranger.flush().unwrap();
    bundle.close().unwrap();
    assert!(Command::new("cp").arg(tail_of(&other)).arg(tail_of(&path)).status().unwrap().success());

    let opened = open(&path);

    let texts: Vec<String> = log(&opened, "alice").into_iter().map(|(.., text)| text).collect();
    assert_eq!(texts, ["first", "second"]);
}

/// What two handles on one session may do, one step at a time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append(usize),
    AppendTo(usize),
    Read(usize),
    Flush(usize),
    Record(usize),
    Close(usize),
    /// Dropped without a close: SQLite undoes what was not committed, as it does after a kill.
    Kill(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..2_usize;
    let step = prop_oneof![
        6 => who().prop_map(Step::Append),
        2 => who().prop_map(Step::AppendTo),
        1 => who().prop_map(Step::Read),
        1 => who().prop_map(Step::Flush),
        1 => who().prop_map(Step::Record),
        1 => who().prop_map(Step::Close),
        2 => who().prop_map(Step::Kill),
    ];
    proptest::collection::vec(step, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    // The model: the list of what was acknowledged, by agent.
    #[test]
    fn two_handles_lose_nothing_and_give_no_number_twice(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.kohakutr");
        let mut handles = [open(&path), open(&path)];
        let (mut alice, mut bob) = (Vec::new(), Vec::new());
        let mut own = [0, 0];

        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(who) => {
                    alice.push(append(&handles[who], "alice", &format!("{number}")));
                    own[who] = alice.len();
                }
                Step::AppendTo(who) => bob.push(append(&handles[who], "bob", &format!("{number}"))),
                Step::Read(who) => {
                    // What the other handle holds back is the end of the log, and never part of a gap.
                    let seen = log(&handles[who], "alice");
                    prop_assert!(seen.len() >= own[who]);
                    prop_assert_eq!(&seen[..], &alice[..seen.len()]);
                }
                Step::Flush(who) => handles[who].flush().unwrap(),
                Step::Record(who) => {
                    handles[who].append_message("channel", &[], 0, false).unwrap();
                }
                Step::Close(who) => {
                    handles[who].close().unwrap();
                    handles[who] = open(&path);
                }
                Step::Kill(who) => handles[who] = open(&path),
            }
        }

        let [one, other] = handles;
        drop(one);
        prop_assert_eq!(&log(&other, "alice"), &alice);
        drop(other);
        let last = open(&path);
        prop_assert_eq!(log(&last, "alice"), alice.clone());
        prop_assert_eq!(log(&last, "bob"), bob.clone());
        let mut ids: Vec<i64> = alice.iter().chain(&bob).map(|event| event.1).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (1..).take(alice.len() + bob.len()).collect::<Vec<i64>>());
        last.close().unwrap();
        prop_assert!(!tail_of(&path).exists());
    }
}

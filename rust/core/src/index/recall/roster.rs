//! The sessions that the index holds: their fingerprints, and what a hit or a ranking needs to know of
//! them. Written before each commit of the index, which names it: so both are of one moment.

use std::collections::HashMap;
use std::path::Path;

use crate::codec::msgpack::{self, put_list_header, put_value};
use crate::codec::{self, Stored, Value};
use crate::error::{Error, Result};

const TABLE: &str = "recall";
const KEY: &[u8] = b"sessions";
/// How many sessions back a lineage is followed.
const LONGEST_LINEAGE: usize = 1000;

/// How many blocks there are of one kind of row, and a hash of all of them in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub count: u64,
    pub hash: u64,
}

/// What the index knows of one session's file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Known {
    /// The file's path below the session directory.
    pub path: String,
    /// Its packed fingerprint; empty for one that must be looked at again.
    pub print: Vec<u8>,
    /// The number of its blocks in the index; 0 where it has none.
    pub number: u64,
    /// What could not be read of it; empty when all could.
    pub reason: String,
    /// The id of the session.
    pub session_id: String,
    /// The id of the session that it was forked from.
    pub parent: String,
    /// Whether nobody talks in it: it runs by itself.
    pub is_automated: bool,
    /// When it was made, in microseconds since 1970; [`i64::MIN`] where that is not known.
    pub created: i64,
    /// The blocks of its events, and of its channels.
    pub tallies: [Tally; 2],
}

/// All sessions, in the order of their paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Roster {
    /// The number that the next session gets; none is given twice.
    pub next: u64,
    pub sessions: Vec<Known>,
}

impl Roster {
    /// What is known of a file.
    pub fn get(&self, path: &str) -> Option<&Known> {
        let at = self.sessions.binary_search_by(|known| known.path.as_str().cmp(path)).ok()?;
        self.sessions.get(at)
    }

    /// Replaces what is known of files, and forgets others; returns what was known before.
    pub fn update(&mut self, fresh: Vec<Known>, is_gone: impl Fn(&str) -> bool) {
        let mut all: HashMap<String, Known> =
            std::mem::take(&mut self.sessions).into_iter().map(|known| (known.path.clone(), known)).collect();
        all.retain(|path, _| !is_gone(path));
        all.extend(fresh.into_iter().map(|known| (known.path.clone(), known)));
        self.sessions = all.into_values().collect();
        self.sessions.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }

    /// The bytes that [`Roster::unpack`] reads.
    pub fn pack(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.sessions.len() * 96 + 16);
        put_list_header(&mut body, self.sessions.len() + 1);
        put_value(&mut body, &Value::from(self.next));
        for known in &self.sessions {
            put_value(&mut body, &known.to_value());
        }
        codec::seal(TABLE, KEY, &body)
    }

    /// Reads what [`Roster::pack`] wrote; `path` is named by the error.
    pub fn unpack(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |what: String| Error::damaged(path, "its list of sessions", what);
        let Stored::Object(body) =
            codec::open(TABLE, KEY, bytes).map_err(|fault| damaged(fault.to_string()))?
        else {
            return Err(damaged("it is no list".to_owned()));
        };
        let value = msgpack::decode(&body).map_err(|fault| damaged(fault.to_string()))?;
        let read = || {
            let (next, sessions) = value.as_list()?.split_first()?;
            let sessions = sessions.iter().map(Known::of_value).collect::<Option<_>>()?;
            Some(Self { next: u64::try_from(next.as_i64()?).ok()?, sessions })
        };
        read().ok_or_else(|| damaged("it has other fields".to_owned()))
    }

    /// The families of sessions, in their order: those that were forked from each other, or are copies of
    /// each other, share a number.
    pub fn families(&self) -> Vec<u64> {
        let by_id: HashMap<&str, usize> = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, known)| !known.session_id.is_empty())
            .map(|(at, known)| (known.session_id.as_str(), at))
            .collect();
        let root_of = |known: &Known| {
            let mut id = known.session_id.clone();
            let mut parent = known.parent.as_str();
            for _ in 0..LONGEST_LINEAGE {
                if parent.is_empty() || parent == id {
                    break;
                }
                parent.clone_into(&mut id);
                parent = by_id.get(parent).map_or("", |at| self.sessions[*at].parent.as_str());
            }
            if id.is_empty() { known.path.clone() } else { id }
        };
        self.sessions.iter().map(|known| xxhash_rust::xxh3::xxh3_64(root_of(known).as_bytes())).collect()
    }
}

impl Known {
    fn to_value(&self) -> Value {
        let number = |number: u64| Value::from(number);
        let [events, messages] = self.tallies;
        Value::List(vec![
            Value::Str(self.path.clone()),
            Value::List(self.print.iter().map(|byte| Value::Int(i64::from(*byte))).collect()),
            number(self.number),
            Value::Str(self.reason.clone()),
            Value::Str(self.session_id.clone()),
            Value::Str(self.parent.clone()),
            Value::Bool(self.is_automated),
            Value::Int(self.created),
            number(events.count),
            Value::Int(events.hash.cast_signed()),
            number(messages.count),
            Value::Int(messages.hash.cast_signed()),
        ])
    }

    fn of_value(value: &Value) -> Option<Self> {
        let fields = value.as_list()?;
        let text = |at: usize| fields.get(at).and_then(Value::as_str).map(str::to_owned);
        let signed = |at: usize| fields.get(at).and_then(Value::as_i64);
        let count = |at: usize| signed(at).and_then(|number| u64::try_from(number).ok());
        let tally = |at: usize| Some(Tally { count: count(at)?, hash: signed(at + 1)?.cast_unsigned() });
        let print = fields.get(1)?.as_list()?.iter().map(|byte| u8::try_from(byte.as_i64()?).ok());
        Some(Self {
            path: text(0)?,
            print: print.collect::<Option<_>>()?,
            number: count(2)?,
            reason: text(3)?,
            session_id: text(4)?,
            parent: text(5)?,
            is_automated: fields.get(6)?.as_bool()?,
            created: signed(7)?,
            tallies: [tally(8)?, tally(10)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(path: &str, id: &str, parent: &str) -> Known {
        Known { path: path.into(), session_id: id.into(), parent: parent.into(), ..Known::default() }
    }

    #[test]
    fn what_was_packed_comes_back() {
        let tallies = [Tally { count: 3, hash: u64::MAX }, Tally::default()];
        let known = Known {
            print: vec![0, 255, 7],
            number: 9,
            reason: "x".into(),
            is_automated: true,
            created: i64::MIN,
            tallies,
            ..session("a.kohakutr", "a", "b")
        };
        let roster = Roster { next: 10, sessions: vec![known] };

        let found = Roster::unpack(Path::new("x"), &roster.pack()).unwrap();

        assert_eq!((found.next, &found.sessions), (10, &roster.sessions));
        assert!(Roster::unpack(Path::new("x"), &roster.pack()[1..]).is_err());
    }

    #[test]
    fn forks_and_copies_are_of_one_family() {
        let sessions = vec![
            session("child", "c", "p"),
            session("copy", "p", ""),
            session("grandchild", "g", "c"),
            session("orphan", "o", "gone"),
            session("other", "x", ""),
            session("parent", "p", ""),
            session("sibling", "s", "gone"),
            session("unnamed 1", "", ""),
            session("unnamed 2", "", ""),
        ];

        let families = Roster { next: 0, sessions }.families();

        let same = |a: usize, b: usize| families[a] == families[b];
        assert!(same(0, 1) && same(0, 2) && same(0, 5) && same(3, 6));
        assert!(!same(0, 3) && !same(0, 4) && !same(7, 8));
    }

    #[test]
    fn a_lineage_that_bites_its_tail_ends() {
        let sessions = vec![session("a", "a", "b"), session("b", "b", "a")];

        assert_eq!(Roster { next: 0, sessions }.families().len(), 2);
    }
}

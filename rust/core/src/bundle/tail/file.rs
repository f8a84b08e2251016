//! The tail's file: its name, its head, and the records in it.
//!
//! The head says whose tail it is. Which records count is said by the mark in the bundle and by the
//! records themselves, so that the head is never rewritten: to begin anew takes a higher epoch, no write.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::mark::{Mark, START};
use super::record::{self, HEAD};
use crate::files::journal::Journal;

/// Bytes of the head of the file.
const BEFORE: usize = 64;
const MAGIC: &[u8; 16] = b"amberlog tail 1\n";
const BUNDLE_AT: usize = 16;
/// A writer that waits for its turn leaves a number here, and never the same one.
const KNOCK_AT: usize = 24;

/// A record with a good check, and where the tail stands behind it.
#[derive(Debug)]
pub struct Record {
    pub head: [u8; HEAD],
    pub body: Vec<u8>,
    pub behind: Mark,
}

/// Returns the name of the tail of `bundle`. That of a link lies beside what it leads to, as its log does.
pub fn tail_path(bundle: &Path) -> PathBuf {
    let target = if bundle.is_symlink() { bundle.canonicalize().ok() } else { None };
    let mut name = OsString::from(target.as_deref().unwrap_or(bundle));
    name.push(".tail");
    PathBuf::from(name)
}

/// Whether there is a file of the tail's name.
pub fn has_file(bundle: &Path) -> bool {
    tail_path(bundle).symlink_metadata().is_ok()
}

/// An open tail.
#[derive(Debug)]
pub struct TailFile {
    pub journal: Journal,
    bundle: u64,
}

impl TailFile {
    /// The tail in `journal`, when it is that of the bundle which `mark` is of.
    pub fn of(journal: Journal, mark: Mark) -> io::Result<Option<Self>> {
        let mut head = [0; BEFORE];
        journal.read(&mut head, 0)?;
        let is_ours = head.starts_with(MAGIC) && number(&head, BUNDLE_AT) == mark.bundle;
        Ok(is_ours.then_some(Self { journal, bundle: mark.bundle }))
    }

    /// Makes the tail of a bundle; what the file held is forgotten.
    pub fn make(path: &Path, mark: Mark) -> io::Result<Self> {
        let mut journal = Journal::make(path)?;
        let mut head = [0; BEFORE];
        head[..MAGIC.len()].copy_from_slice(MAGIC);
        head[BUNDLE_AT..BUNDLE_AT + 8].copy_from_slice(&mark.bundle.to_le_bytes());
        journal.write(&head, 0)?;
        Ok(Self { journal, bundle: mark.bundle })
    }

    /// The first record that is not taken in, and the number that was last left at the head.
    ///
    /// A higher epoch at the start means that all of the marked one was taken in before it began.
    pub fn look(&self, mark: Mark) -> io::Result<(Option<Record>, u64)> {
        let mut start = [0; BEFORE + HEAD];
        self.journal.read(&mut start, 0)?;
        let knock = number(&start, KNOCK_AT);
        let (_, first) = start.split_at(BEFORE);
        let newer = first.first_chunk::<HEAD>().map(record::head_of);
        if let Some(newer) = newer.filter(|newer| newer.epoch > mark.epoch && newer.seq == 1) {
            let found = self.next(Mark { epoch: newer.epoch, seq: 0, offset: START, ..mark })?;
            if found.is_some() {
                return Ok((found, knock));
            }
        }
        Ok((self.next(mark)?, knock))
    }

    /// The record behind `mark`; `None` where none was finished.
    pub fn next(&self, mark: Mark) -> io::Result<Option<Record>> {
        let mut head = [0; HEAD];
        if self.journal.read(&mut head, mark.offset)? < HEAD {
            return Ok(None);
        }
        let stated = record::head_of(&head);
        if stated.epoch != mark.epoch || stated.seq != mark.seq + 1 {
            return Ok(None);
        }
        let length = stated.length as usize;
        let behind = mark.behind(HEAD + length);
        if behind.offset > self.journal.size()? {
            return Ok(None);
        }
        let mut body = vec![0; length];
        if self.journal.read(&mut body, mark.offset + HEAD as u64)? < length
            || record::entries(&head, &body, self.bundle).is_none()
        {
            return Ok(None);
        }
        Ok(Some(Record { head, body, behind }))
    }

    /// Every record that is not taken in, in order, up to the first that is missing or not whole.
    pub fn left(&self, mark: Mark) -> io::Result<Vec<Record>> {
        let mut found = Vec::new();
        let mut next = self.look(mark)?.0;
        while let Some(record) = next {
            next = self.next(record.behind)?;
            found.push(record);
        }
        Ok(found)
    }
}

/// Tells the process that holds the tail of `bundle` that another writer waits for its turn.
pub fn knock(bundle: &Path) -> io::Result<()> {
    let Some(mut journal) = Journal::open(&tail_path(bundle))? else { return Ok(()) };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let number = now.map_or(1, |now| u64::from(now.subsec_nanos()) | now.as_secs() << 30)
        ^ u64::from(std::process::id()) << 48;
    journal.write(&number.to_le_bytes(), KNOCK_AT as u64)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bundle::tail::record::{Draft, Entry, entries};

    fn write(tail: &mut TailFile, at: Mark, value: &[u8]) -> Mark {
        let mut draft = Draft::default();
        draft.begin();
        draft.add(&Entry { key: b"a:e000000", value, is_given: false }).unwrap();
        let bytes = draft.finish(at.bundle, at.epoch, at.seq + 1).unwrap();
        tail.journal.write(bytes, at.offset).unwrap();
        at.behind(bytes.len())
    }

    fn values(tail: &TailFile, mark: Mark) -> Vec<Vec<u8>> {
        let left = tail.left(mark).unwrap();
        left.iter()
            .map(|record| entries(&record.head, &record.body, mark.bundle).unwrap()[0].value.to_vec())
            .collect()
    }

    /// What a writer may do with the file, one step at a time.
    #[derive(Debug, Clone)]
    enum Step {
        Append(Vec<u8>),
        TakeIn,
        Recycle,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => proptest::collection::vec(any::<u8>(), 0..60).prop_map(Step::Append),
            2 => Just(Step::TakeIn),
            1 => Just(Step::Recycle),
        ];
        proptest::collection::vec(step, 1..40)
    }

    proptest! {
        // The model: a list of what was written since it was last taken in.
        #[test]
        fn what_is_left_is_what_was_written_and_not_taken_in(steps in steps(), cut in any::<u16>()) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s.tail");
            let mut taken = Mark::first();
            let mut tail = TailFile::make(&path, taken).unwrap();
            let (mut at, mut model, mut last) = (taken, Vec::new(), None);

            for step in steps {
                match step {
                    Step::Append(value) => {
                        last = Some(at);
                        at = write(&mut tail, at, &value);
                        model.push(value);
                    }
                    Step::TakeIn => {
                        taken = at;
                        model.clear();
                    }
                    Step::Recycle if model.is_empty() => at = at.recycled(),
                    Step::Recycle => {}
                }
                prop_assert_eq!(&values(&tail, taken), &model);
            }

            if let Some(last) = last.filter(|_| !model.is_empty()) {
                let length = at.offset - last.offset;
                let torn = last.offset + u64::from(cut) % length;
                tail.journal.write(&vec![0x5a; usize::try_from(at.offset - torn).unwrap()], torn).unwrap();
                model.pop();
                prop_assert_eq!(values(&tail, taken), model);
            }
        }
    }
}

//! Reading session files for the index, by as many threads as there are processors.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::build::{Builder, Segment};
use super::rows::{Card, Session};
use crate::Result;
use crate::chat::document::Document;
use crate::chat::entry::Entry;
use crate::chat::proof::{self, Stamp};
use crate::chat::search::{is_automated, lineage, turns, when};

/// Bytes of files whose words are one segment.
const BATCH: u64 = 16 << 20;

/// A file to be read, and how large it is.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) file: String,
    pub(super) size: u64,
    /// The hash that the index has of it, where a file with the same bytes need not be taken apart.
    pub(super) known: Option<i64>,
}

/// What some files say.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) cards: Vec<Card>,
    /// Files that are what the index has, but for their stamps.
    pub(super) same: Vec<Card>,
    /// Files that are gone meanwhile.
    pub(super) gone: Vec<String>,
    pub(super) segment: Segment,
}

/// Reads files in batches and hands each batch to `each`, on the caller's thread.
pub(super) fn read_all(
    directory: &Path,
    tasks: &[Task],
    now: f64,
    mut each: impl FnMut(Batch) -> Result<()>,
) -> Result<()> {
    let batches = cut(tasks);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(batches.len());
    if threads <= 1 {
        return batches.iter().try_for_each(|tasks| each(read_batch(directory, tasks, now)));
    }
    let next = AtomicUsize::new(0);
    // One batch waits while one is written: no more than that are in memory at once.
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, batches) = (sender.clone(), &next, &batches);
            scope.spawn(move || {
                while let Some(tasks) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody takes it where writing one has failed.
                    if sender.send(read_batch(directory, tasks, now)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let outcome = receiver.iter().try_for_each(&mut each);
        drop(receiver);
        outcome
    })
}

fn cut(tasks: &[Task]) -> Vec<&[Task]> {
    let mut batches = Vec::new();
    let mut rest = tasks;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|task| {
            let fits = bytes == 0 || bytes + task.size <= BATCH;
            bytes += task.size;
            fits
        });
        let (batch, others) = rest.split_at(fitting.count());
        batches.push(batch);
        rest = others;
    }
    batches
}

fn read_batch(directory: &Path, tasks: &[Task], now: f64) -> Batch {
    let mut batch = Batch::default();
    let mut builder = Builder::default();
    for task in tasks {
        let path = directory.join(&task.file);
        let found = proof::read(&path).map_err(|error| error.to_string());
        match found {
            Ok(None) => batch.gone.push(task.file.clone()),
            Ok(Some((bytes, proof))) => {
                let hash = hash_of(&bytes);
                let card = |session| Card {
                    file: task.file.clone(),
                    print: print_of(&proof.stamp(), now),
                    hash,
                    session,
                };
                if task.known == Some(hash) {
                    batch.same.push(card(Err(String::new())));
                } else {
                    let session = Document::parse(&bytes)
                        .map(|document| session_of(&task.file, &document, &mut builder))
                        .map_err(|fault| format!("{} at offset {}", fault.what, fault.offset));
                    batch.cards.push(card(session));
                }
            }
            Err(reason) => batch.cards.push(Card {
                file: task.file.clone(),
                print: Vec::new(),
                hash: 0,
                session: Err(reason),
            }),
        }
    }
    batch.segment = builder.finish();
    batch
}

/// The print of a file under its stamp.
pub(super) fn print_of(stamp: &Stamp, now: f64) -> Vec<u8> {
    stamp.pack(!stamp.is_young(now))
}

/// The hash of a file's bytes.
pub(super) fn hash_of(bytes: &[u8]) -> i64 {
    xxhash_rust::xxh3::xxh3_64(bytes).cast_signed()
}

fn session_of(file: &str, document: &Document, builder: &mut Builder) -> Session {
    let place = builder.session();
    let turns = turns(document);
    for turn in &turns {
        builder.message(&turn.text);
    }
    Session {
        entry: Entry::of(file, document),
        shown: when(document).as_str().unwrap_or_default().to_owned(),
        is_automated: is_automated(document, &turns),
        lineage: lineage(document),
        place,
    }
}

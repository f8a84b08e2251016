//! What one session brings to the index: all of its blocks, or only those that are new, where what was
//! indexed of it before still stands.

use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::{IndexWriter, Term};
use xxhash_rust::xxh3::xxh3_64;

use super::document::{Fields, Ready, Sent};
use super::permits::Permits;
use super::roster::{Known, Tally};
use super::session::Sink;
use crate::error::Result;

/// Bytes of words that one session keeps in memory until it is known whether they are new.
const KEPT: usize = 8 << 20;

/// The index that sessions are written to.
pub(super) struct Target<'a> {
    pub writer: &'a IndexWriter<Sent>,
    pub fields: &'a Fields,
    pub permits: &'a Permits,
    /// The number that the next session gets.
    pub next: &'a AtomicU64,
}

/// Takes the blocks of one session.
pub(super) struct Feed<'a> {
    target: &'a Target<'a>,
    before: Option<&'a Known>,
    kept: Vec<(Ready, bool)>,
    bytes: usize,
    /// The number under which blocks are written as they come, where there are too many to keep.
    flows: Option<u64>,
    tallies: [Tally; 2],
    /// Whether the blocks begin with those that were there before.
    is_as_before: [bool; 2],
    failure: Option<tantivy::TantivyError>,
}

impl<'a> Feed<'a> {
    pub fn new(target: &'a Target<'a>, before: Option<&'a Known>) -> Self {
        let before = before.filter(|known| known.number != 0);
        let mut feed = Self {
            target,
            before,
            kept: Vec::new(),
            bytes: 0,
            flows: None,
            tallies: [Tally::default(); 2],
            is_as_before: [false; 2],
            failure: None,
        };
        feed.compare(0);
        feed.compare(1);
        feed
    }

    fn compare(&mut self, side: usize) {
        let now = self.tallies[side];
        if let Some(known) = self.before.map(|known| known.tallies[side])
            && known.count == now.count
        {
            self.is_as_before[side] = known.hash == now.hash;
        }
    }

    fn fresh_number(&self) -> u64 {
        self.target.next.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&mut self, ready: Ready, number: u64) {
        if self.failure.is_some() {
            return;
        }
        let permit = self.target.permits.take(ready.size());
        let sent = Sent { document: ready.document(self.target.fields, number), _permit: permit };
        if let Err(error) = self.target.writer.add_document(sent) {
            self.failure = Some(error);
        }
    }

    fn delete(&self, number: u64) {
        self.target.writer.delete_term(Term::from_field_u64(self.target.fields.session, number));
    }

    /// Writes what is new, and returns the number of the session and its blocks. 0 for one without any.
    pub fn finish(mut self) -> Result<(u64, [Tally; 2]), tantivy::TantivyError> {
        let number = match (self.flows, self.before) {
            (Some(number), _) => {
                self.delete_before();
                number
            }
            (None, Some(known)) if self.is_as_before == [true; 2] => {
                let mut left = known.tallies.map(|tally| tally.count);
                for (ready, is_message) in std::mem::take(&mut self.kept) {
                    let left = &mut left[usize::from(is_message)];
                    if *left > 0 {
                        *left -= 1;
                    } else {
                        self.send(ready, known.number);
                    }
                }
                known.number
            }
            (None, _) => {
                self.delete_before();
                let kept = std::mem::take(&mut self.kept);
                let number = if kept.is_empty() { 0 } else { self.fresh_number() };
                for (ready, _) in kept {
                    self.send(ready, number);
                }
                number
            }
        };
        match self.failure {
            Some(error) => Err(error),
            None => Ok((number, self.tallies)),
        }
    }

    fn delete_before(&self) {
        if let Some(known) = self.before {
            self.delete(known.number);
        }
    }

    /// Takes nothing of the session, and removes what there was.
    pub fn drop_all(mut self) {
        self.restart();
        self.delete_before();
    }

    /// Takes nothing of the session, and leaves what there was.
    pub fn leave(mut self) {
        self.restart();
    }
}

impl Sink for Feed<'_> {
    fn take(&mut self, ready: Ready, is_message: bool) {
        let side = usize::from(is_message);
        let tally = &mut self.tallies[side];
        tally.count += 1;
        tally.hash = xxh3_64(&[tally.hash.to_le_bytes(), ready.digest().to_le_bytes()].concat());
        self.compare(side);
        if let Some(number) = self.flows {
            return self.send(ready, number);
        }
        self.bytes += ready.size();
        self.kept.push((ready, is_message));
        if self.bytes > KEPT {
            let number = self.fresh_number();
            self.flows = Some(number);
            for (ready, _) in std::mem::take(&mut self.kept) {
                self.send(ready, number);
            }
        }
    }

    fn restart(&mut self) {
        if let Some(number) = self.flows.take() {
            self.delete(number);
        }
        self.kept.clear();
        self.bytes = 0;
        self.tallies = [Tally::default(); 2];
        self.is_as_before = [false; 2];
        self.compare(0);
        self.compare(1);
    }
}

//! Copies neighbouring pages from the log into the database with one call.
//!
//! A checkpoint writes each page with a call of its own, in the order of the file. Here they are
//! gathered, by a connection alone that has the file to itself and closes it: its checkpoint copies all
//! of the log, cuts the file to its length and syncs it before the log counts as copied, so that an
//! error of a later call is one of the checkpoint still. Every other checkpoint may end with a write.

use super::layer::FULL;

/// Pages that are not in the file yet.
#[derive(Debug, Default)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    /// Where the first of them belongs.
    start: i64,
    /// Whether a checkpoint is under way that may gather.
    is_on: bool,
    /// Whether nobody else has the file open.
    pub(super) is_alone: bool,
}

/// What is to be done with a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing yet: more may belong to it.
    Wait,
    /// The gathered bytes, this write among them, are to be written.
    Full,
    /// It does not belong to the gathered bytes, which are to be written first.
    Apart,
}

impl Copied {
    /// Begins to gather, where nobody else has the file open.
    pub(super) fn begin(&mut self) {
        self.is_on = self.is_alone;
    }

    /// Gathers no more, and forgets what was not written.
    pub(super) fn end(&mut self) {
        self.is_on = false;
        self.bytes = Vec::new();
    }

    /// What was gathered, and where it belongs.
    pub(super) fn take(&mut self) -> (Vec<u8>, i64) {
        (std::mem::take(&mut self.bytes), self.start)
    }

    /// Takes a write that goes on from the gathered bytes.
    pub(super) fn add(&mut self, bytes: &[u8], offset: i64) -> Step {
        if !self.is_on {
            return Step::Apart;
        }
        if self.bytes.is_empty() {
            self.start = offset;
        }
        let end = self.start + i64::try_from(self.bytes.len()).unwrap_or(i64::MAX);
        if offset != end {
            return Step::Apart;
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= FULL { Step::Full } else { Step::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone() -> Copied {
        let mut copied = Copied { is_alone: true, ..Copied::default() };
        copied.begin();
        copied
    }

    #[test]
    fn neighbours_wait_for_each_other() {
        let mut copied = alone();

        let steps = [copied.add(&[1; 512], 1024), copied.add(&[2; 512], 1536), copied.add(&[3; 512], 4096)];

        assert_eq!(steps, [Step::Wait, Step::Wait, Step::Apart]);
        assert_eq!(copied.take(), ([[1; 512], [2; 512]].concat(), 1024));
        assert_eq!(copied.add(&[3; 512], 4096), Step::Wait);
    }

    #[test]
    fn a_long_run_is_written_in_parts() {
        let mut copied = alone();

        assert_eq!(copied.add(&vec![1; FULL], 0), Step::Full);
    }

    #[test]
    fn a_connection_that_is_not_alone_gathers_nothing() {
        let mut copied = Copied::default();

        copied.begin();

        assert_eq!(copied.add(&[1; 512], 0), Step::Apart);
    }
}

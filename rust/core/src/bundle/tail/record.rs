//! The form of a record of the tail: one public append, whole or not there.
//!
//! A record is a head of 32 bytes, little-endian: length of the body (u32), number of events (u32), epoch
//! (u64), number within the epoch from 1 on (u64), check (u64); then for each event the lengths of its
//! key and value and its flags (u32 each), its key and its value. The check covers all else of the
//! record and is seeded with the number of the bundle, so that no other bundle's record passes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the head of a record.
pub const HEAD: usize = 32;
const CHECKED: usize = 24;
const ENTRY: usize = 12;
/// The caller chose the event's id.
const GIVEN: u32 = 1;

/// What stands at the head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the body.
    pub length: u32,
    /// Events in the body.
    pub count: u32,
    /// The life of the tail that the record belongs to.
    pub epoch: u64,
    /// Its number in that life.
    pub seq: u64,
    check: u64,
}

/// One event of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value, as it is stored.
    pub value: &'a [u8],
    /// Whether the caller chose its id.
    pub is_given: bool,
}

/// A record that is being put together, in a buffer that is used again.
#[derive(Debug, Default)]
pub struct Draft {
    bytes: Vec<u8>,
    count: u32,
}

impl Draft {
    /// Begins a record.
    pub fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEAD, 0);
        self.count = 0;
    }

    /// Adds an event.
    pub fn add(&mut self, entry: &Entry<'_>) -> Option<()> {
        let flags = if entry.is_given { GIVEN } else { 0 };
        for number in [u32::try_from(entry.key.len()).ok()?, u32::try_from(entry.value.len()).ok()?, flags] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        self.count += 1;
        Some(())
    }

    /// Gives the record its place and returns its bytes; `None` when it is too long for one.
    pub fn finish(&mut self, bundle: u64, epoch: u64, seq: u64) -> Option<&[u8]> {
        let length = u32::try_from(self.bytes.len().checked_sub(HEAD)?).ok()?;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&self.count.to_le_bytes());
        head[8..16].copy_from_slice(&epoch.to_le_bytes());
        head[16..24].copy_from_slice(&seq.to_le_bytes());
        let check = check_of(&head, self.bytes.get(HEAD..)?, bundle);
        head[CHECKED..].copy_from_slice(&check.to_le_bytes());
        self.bytes.get_mut(..HEAD)?.copy_from_slice(&head);
        Some(&self.bytes)
    }
}

fn check_of(head: &[u8; HEAD], body: &[u8], bundle: u64) -> u64 {
    let (checked, _) = head.split_at(CHECKED);
    xxh3_64_with_seed(body, xxh3_64_with_seed(checked, bundle))
}

/// The head that stands in these bytes, whatever it is worth.
pub fn head_of(bytes: &[u8; HEAD]) -> Head {
    let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let whole = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
    Head { length: half(0), count: half(4), epoch: whole(8), seq: whole(16), check: whole(CHECKED) }
}

/// The events of a record; `None` when it is not what was written.
pub fn entries<'a>(head: &[u8; HEAD], body: &'a [u8], bundle: u64) -> Option<Vec<Entry<'a>>> {
    let stated = head_of(head);
    if stated.length as usize != body.len() || stated.check != check_of(head, body, bundle) {
        return None;
    }
    let mut found = Vec::new();
    let mut rest = body;
    for _ in 0..stated.count {
        let (numbers, after) = rest.split_first_chunk::<ENTRY>()?;
        let number =
            |at: usize| u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]);
        let (key, after) = after.split_at_checked(number(0) as usize)?;
        let (value, after) = after.split_at_checked(number(4) as usize)?;
        found.push(Entry { key, value, is_given: number(8) & GIVEN != 0 });
        rest = after;
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Event = (Vec<u8>, Vec<u8>, bool);

    fn record(bundle: u64, epoch: u64, seq: u64, events: &[Event]) -> Vec<u8> {
        let mut draft = Draft::default();
        draft.begin();
        for (key, value, is_given) in events {
            draft.add(&Entry { key, value, is_given: *is_given }).unwrap();
        }
        draft.finish(bundle, epoch, seq).unwrap().to_vec()
    }

    fn read(bytes: &[u8], bundle: u64) -> Option<Vec<Event>> {
        let (head, body) = bytes.split_first_chunk::<HEAD>()?;
        let body = body.get(..head_of(head).length as usize)?;
        let found = entries(head, body, bundle)?;
        Some(found.iter().map(|entry| (entry.key.to_vec(), entry.value.to_vec(), entry.is_given)).collect())
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        proptest::collection::vec((bytes(), bytes(), any::<bool>()), 1..5)
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was_written(events in events(), place in any::<(u64, u64, u64)>()) {
            let bytes = record(place.0, place.1, place.2, &events);

            let head = head_of(bytes.first_chunk().unwrap());

            prop_assert_eq!((head.epoch, head.seq), (place.1, place.2));
            prop_assert_eq!(read(&bytes, place.0), Some(events));
        }

        #[test]
        fn a_record_that_was_cut_anywhere_is_none(events in events(), tail in any::<u8>()) {
            let bytes = record(1, 2, 3, &events);

            for cut in 0..bytes.len() {
                let mut torn = bytes[..cut].to_vec();
                torn.resize(bytes.len(), tail);
                if torn != bytes {
                    prop_assert_eq!(read(&torn, 1), None, "cut at {}", cut);
                }
            }
        }

        #[test]
        fn a_record_with_a_flipped_bit_is_none(events in events()) {
            let bytes = record(1, 2, 3, &events);

            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(read(&flipped, 1), None, "bit {}", bit);
            }
        }

        #[test]
        fn a_record_of_another_bundle_is_none(events in events(), bundle in 1..u64::MAX) {
            let bytes = record(0, 2, 3, &events);

            prop_assert_eq!(read(&bytes, bundle), None);
        }
    }
}

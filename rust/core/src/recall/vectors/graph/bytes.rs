//! The graph as bytes, to be kept beside the vectors.
//!
//! `AGH1`, then in little-endian `u32`: dimensions, count, entry slot, entry level; then for each slot its
//! level and, from the lowest level up, each list as its count and its slots; then xxh3 of all before.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use xxhash_rust::xxh3::xxh3_64;

use super::{Entry, Graph, HIGHEST_LEVEL, M, MOST_BELOW, lock, small};

const MAGIC: &[u8; 4] = b"AGH1";
const CHECK: usize = 8;

impl Graph {
    /// The bytes of the graph.
    pub(in super::super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let entry = lock(&self.entry).unwrap_or(Entry { slot: 0, level: 0 });
        let head = [small(self.dimensions), small(self.len()), entry.slot, u32::from(entry.level)];
        for number in head {
            out.extend(number.to_le_bytes());
        }
        for (slot, top) in self.levels.iter().enumerate() {
            out.push(*top);
            for level in 0..=*top {
                let list = self.list(small(slot), level);
                out.push(u8::try_from(list.len()).unwrap_or(u8::MAX));
                list.iter().for_each(|other| out.extend(other.to_le_bytes()));
            }
        }
        let check = xxh3_64(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// The graph that bytes hold; `None` where they are damaged or of another size or form.
    pub(in super::super) fn from_bytes(bytes: &[u8], dimensions: usize) -> Option<Self> {
        let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        if xxh3_64(body).to_le_bytes() != check {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let (stored, count) = (number(&mut rest)?, number(&mut rest)?);
        let entry = Entry { slot: number(&mut rest)?, level: u8::try_from(number(&mut rest)?).ok()? };
        if stored as usize != dimensions || dimensions == 0 || count as usize > rest.len() {
            return None;
        }
        let mut graph = Self::new(dimensions);
        for _ in 0..count {
            let top = byte(&mut rest).filter(|top| *top <= HIGHEST_LEVEL)?;
            graph.levels.push(top);
            graph.above_at.push(small(graph.above.len()));
            read_list(&mut rest, &mut graph.below, MOST_BELOW, count)?;
            for _ in 0..top {
                read_list(&mut rest, &mut graph.above, M, count)?;
            }
        }
        let is_level = graph.levels.get(entry.slot as usize).is_none_or(|top| *top == entry.level);
        let is_sound = rest.is_empty() && is_level && (count == 0 || entry.slot < count);
        graph.entry = Mutex::new((count > 0).then_some(entry));
        (is_sound && graph.links_fit()).then_some(graph)
    }

    /// Whether every neighbour on an upper level has lists there.
    fn links_fit(&self) -> bool {
        (0..self.len()).all(|slot| {
            (1..=self.levels[slot]).all(|level| {
                self.list(small(slot), level).iter().all(|other| self.levels[other as usize] >= level)
            })
        })
    }
}

fn read_list(rest: &mut &[u8], lists: &mut Vec<AtomicU32>, most: usize, count: u32) -> Option<()> {
    let held = usize::from(byte(rest)?);
    if held > most {
        return None;
    }
    lists.push(AtomicU32::new(small(held)));
    for _ in 0..held {
        lists.push(AtomicU32::new(number(rest).filter(|slot| *slot < count)?));
    }
    lists.extend((held..most).map(|_| AtomicU32::new(0)));
    Some(())
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (first, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*first))
}

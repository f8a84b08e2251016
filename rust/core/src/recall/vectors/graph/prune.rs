//! A graph without the slots whose vectors are gone.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use super::{Entry, Graph, M, MOST_BELOW, small};

impl Graph {
    /// The graph of the slots that are kept, under new numbers in the same order. Where a neighbour is
    /// gone, those of its own neighbours that are not take its place, so that ways lead on.
    pub(in super::super) fn without(&self, kept: &[bool]) -> Self {
        let mut numbers = Vec::with_capacity(kept.len());
        let mut count = 0;
        for is_kept in kept {
            numbers.push(small(count));
            count += usize::from(*is_kept);
        }
        let mut graph = Self::new(self.dimensions);
        let mut entry: Option<Entry> = None;
        for slot in (0..kept.len()).filter(|slot| kept[*slot]) {
            let top = self.levels[slot];
            graph.levels.push(top);
            graph.above_at.push(small(graph.above.len()));
            for level in 0..=top {
                let most = if level == 0 { MOST_BELOW } else { M };
                let lists = if level == 0 { &mut graph.below } else { &mut graph.above };
                let list = self.led_on(small(slot), level, most, kept);
                lists.push(AtomicU32::new(small(list.len())));
                lists.extend(list.iter().map(|other| AtomicU32::new(numbers[*other as usize])));
                lists.extend((list.len()..most).map(|_| AtomicU32::new(0)));
            }
            if entry.is_none_or(|entry| top > entry.level) {
                entry = Some(Entry { slot: numbers[slot], level: top });
            }
        }
        graph.entry = Mutex::new(entry);
        graph
    }

    /// The neighbours that are kept, and the kept neighbours of those that are not.
    fn led_on(&self, slot: u32, level: u8, most: usize, kept: &[bool]) -> Vec<u32> {
        let own = self.list(slot, level);
        let is_kept = |other: &u32| kept[*other as usize];
        let mut led: Vec<u32> = own.iter().filter(is_kept).collect();
        for gone in own.iter().filter(|other| !is_kept(other)) {
            for other in self.list(gone, level).iter().filter(is_kept) {
                if led.len() < most && other != slot && !led.contains(&other) {
                    led.push(other);
                }
            }
        }
        led
    }
}

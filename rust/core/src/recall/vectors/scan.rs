//! A look at every vector: at small forms first, then at the numbers of those that may be among the nearest.

use super::codes::{Bytes, Signs};
use super::{Codes, Filter, Near, Vectors, kernel, order};

/// Up to how many vectors are compared without a look at their small forms.
const FEW: usize = 2_000;
/// How many vectors whose signs fit are looked at again: at least, for each hit, and one of so many in all.
const AGAIN: usize = 4_000;
const AGAIN_EACH: usize = 40;
const AGAIN_OF: usize = 12;

impl Vectors {
    pub(super) fn scan(&self, query: &[f32], k: usize, filter: &impl Filter) -> Vec<Near> {
        let kept = (!filter.is_all() || self.gone_count > 0).then(|| {
            let is_kept = |slot: &usize| !self.gone[*slot] && filter.keeps(*slot);
            (0..self.ids.len()).filter(is_kept).collect::<Vec<usize>>()
        });
        match (&kept, &self.codes) {
            (Some(slots), _) if slots.len() <= FEW.max(2 * k) => {
                self.rescore(query, k, slots.iter().copied())
            }
            (Some(slots), Codes::Plain) => self.rescore(query, k, slots.iter().copied()),
            (None, Codes::Plain) => self.plain(query, k),
            (_, Codes::Bytes(bytes)) => self.by_bytes(bytes, query, k, kept.as_deref()),
            (_, Codes::Signs(signs, bytes)) => self.by_signs((signs, bytes), query, k, kept.as_deref()),
        }
    }

    fn plain(&self, query: &[f32], k: usize) -> Vec<Near> {
        let mut scores = Vec::with_capacity(self.ids.len());
        kernel::dots(&self.rows, query, &mut scores);
        best(self.ids.iter().zip(scores).map(|(id, score)| Near { id: *id, score }).collect(), k)
    }

    /// The exact nearest of some vectors.
    pub(super) fn rescore(&self, query: &[f32], k: usize, slots: impl Iterator<Item = usize>) -> Vec<Near> {
        let near = slots.map(|slot| Near { id: self.ids[slot], score: kernel::dot(self.row(slot), query) });
        best(near.collect(), k)
    }

    /// Exact: what the bounds leave out cannot be among the nearest.
    fn by_bytes(&self, bytes: &Bytes, query: &[f32], k: usize, kept: Option<&[usize]>) -> Vec<Near> {
        let bounds = bytes.bounds(&Bytes::ask(query));
        match kept {
            None => self.rescore(query, k, within(bounds.iter().copied().enumerate(), k).into_iter()),
            Some(slots) => {
                let bounds = slots.iter().map(|slot| (*slot, bounds[*slot]));
                self.rescore(query, k, within(bounds, k).into_iter())
            }
        }
    }

    /// Signs say which vectors to look at, bytes which of these may be among the nearest.
    fn by_signs(
        &self,
        (signs, bytes): (&Signs, &Bytes),
        query: &[f32],
        k: usize,
        kept: Option<&[usize]>,
    ) -> Vec<Near> {
        let distances = signs.distances(query);
        let mut counts = vec![0_usize; Signs::farthest(self.dimensions) + 1];
        match kept {
            None => distances.iter().for_each(|distance| counts[usize::from(*distance)] += 1),
            Some(slots) => slots.iter().for_each(|slot| counts[usize::from(distances[*slot])] += 1),
        }
        let wanted = AGAIN.max(k * AGAIN_EACH).max(distances.len() / AGAIN_OF);
        let mut sum = 0;
        let reach = counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        let reach = reach.unwrap_or(counts.len());
        let is_near = |slot: &usize| usize::from(distances[*slot]) <= reach;
        let near: Vec<usize> = match kept {
            None => (0..distances.len()).filter(is_near).collect(),
            Some(slots) => slots.iter().copied().filter(is_near).collect(),
        };
        let asked = Bytes::ask(query);
        let bounds = near.into_iter().map(|slot| (slot, bytes.bounds_of(slot, &asked)));
        self.rescore(query, k, within(bounds, k).into_iter())
    }
}

/// The slots whose highest possible score reaches the `k`-th of the least possible ones.
fn within(bounds: impl Iterator<Item = (usize, (f32, f32))>, k: usize) -> Vec<usize> {
    let mut least: Vec<f32> = Vec::with_capacity(k + 1);
    let mut candidates = Vec::new();
    for (slot, (low, high)) in bounds {
        let is_full = least.len() == k;
        if is_full && least.last().is_some_and(|last| high < *last) {
            continue;
        }
        candidates.push((slot, high));
        if !is_full || least.last().is_some_and(|last| low > *last) {
            let at = least.partition_point(|other| *other >= low);
            least.insert(at, low);
            least.truncate(k);
        }
    }
    let bar = if least.len() == k { least.last().copied() } else { None };
    candidates.retain(|(_, high)| bar.is_none_or(|bar| *high >= bar));
    candidates.into_iter().map(|(slot, _)| slot).collect()
}

fn best(mut near: Vec<Near>, k: usize) -> Vec<Near> {
    if k < near.len() {
        near.select_nth_unstable_by(k - 1, order);
        near.truncate(k);
    }
    near.sort_unstable_by(order);
    near
}

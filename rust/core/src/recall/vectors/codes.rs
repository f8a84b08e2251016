//! Small forms of vectors: whole numbers, whose error is known, and signs.

use super::kernel;

/// Every number of a vector in a byte, with what that loses.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    codes: Vec<i8>,
    scales: Vec<f32>,
    /// How long the difference between a vector and its small form is.
    errors: Vec<f32>,
}

/// What rounding of sums may add to the error of a product.
const SLACK: f32 = 1e-5;
const MOST: f32 = 127.0;

/// The scale of a vector's small form and the length of what it loses.
fn reduce(row: &[f32], mut put: impl FnMut(i8)) -> (f32, f32) {
    let most = row.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let scale = if most > 0.0 { most / MOST } else { 1.0 };
    let mut lost = 0.0_f32;
    for number in row {
        #[expect(clippy::cast_possible_truncation, reason = "at most 127, since `most` is the largest")]
        let code = (number / scale).round() as i8;
        put(code);
        let difference = number - f32::from(code) * scale;
        lost += difference * difference;
    }
    (scale, lost.sqrt())
}

impl Bytes {
    pub(super) fn extend(&mut self, rows: &[f32], dimensions: usize) {
        for row in rows.chunks_exact(dimensions) {
            let (scale, error) = reduce(row, |code| self.codes.push(code));
            self.scales.push(scale);
            self.errors.push(error);
        }
    }

    /// A query in the same form. Vectors and query have length 1.
    pub(super) fn ask(query: &[f32]) -> Asked {
        let mut codes = Vec::with_capacity(query.len());
        let (scale, lost) = reduce(query, |code| codes.push(i16::from(code)));
        Asked { codes, scale, lost }
    }

    /// Each vector's least and highest possible product with the query.
    pub(super) fn bounds(&self, asked: &Asked) -> Vec<(f32, f32)> {
        let mut products = Vec::with_capacity(self.scales.len());
        kernel::products(&self.codes, &asked.codes, &mut products);
        products.iter().enumerate().map(|(slot, product)| self.bounds_from(slot, *product, asked)).collect()
    }

    /// The same of one vector.
    pub(super) fn bounds_of(&self, slot: usize, asked: &Asked) -> (f32, f32) {
        let length = asked.codes.len();
        let row = &self.codes[slot * length..(slot + 1) * length];
        self.bounds_from(slot, kernel::product(row, &asked.codes), asked)
    }

    fn bounds_from(&self, slot: usize, product: i32, asked: &Asked) -> (f32, f32) {
        let (scale, error) = (self.scales[slot], self.errors[slot]);
        #[expect(clippy::cast_precision_loss, reason = "the slack covers it")]
        let about = product as f32 * (scale * asked.scale);
        let apart = error + (1.0 + error) * asked.lost + SLACK;
        (about - apart, about + apart)
    }
}

/// A query in bytes, with what that loses.
pub(super) struct Asked {
    codes: Vec<i16>,
    scale: f32,
    lost: f32,
}

/// The signs of a vector's numbers after a turn that spreads what it says evenly over all of them.
#[derive(Debug, Default)]
pub(super) struct Signs {
    words: Vec<u64>,
}

const BITS: usize = 64;

/// How many numbers a turned vector has.
fn turned_length(dimensions: usize) -> usize {
    dimensions.next_power_of_two().max(BITS)
}

impl Signs {
    pub(super) fn extend(&mut self, rows: &[f32], dimensions: usize) {
        let mut turned = Vec::new();
        for row in rows.chunks_exact(dimensions) {
            turn(row, &mut turned);
            self.words.extend(signs(&turned));
        }
    }

    /// In how many signs each vector differs from the query.
    pub(super) fn distances(&self, query: &[f32]) -> Vec<u16> {
        let mut turned = Vec::new();
        turn(query, &mut turned);
        let query: Vec<u64> = signs(&turned).collect();
        let mut distances = Vec::with_capacity(self.words.len() / query.len());
        kernel::distances(&self.words, &query, &mut distances);
        distances
    }

    /// The highest distance that there can be.
    pub(super) fn farthest(dimensions: usize) -> usize {
        turned_length(dimensions)
    }
}

fn signs(turned: &[f32]) -> impl Iterator<Item = u64> {
    turned.chunks_exact(BITS).map(|numbers| {
        numbers.iter().enumerate().fold(0, |word, (at, number)| word | u64::from(*number >= 0.0) << at)
    })
}

/// Flips signs by a fixed pattern and applies the Walsh-Hadamard transform, both of which keep angles.
fn turn(row: &[f32], out: &mut Vec<f32>) {
    out.clear();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    out.extend(row.iter().map(|number| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if seed >> 63 == 0 { *number } else { -number }
    }));
    out.resize(turned_length(row.len()), 0.0);
    let mut width = 1;
    while width < out.len() {
        for pair in out.chunks_exact_mut(2 * width) {
            let (low, high) = pair.split_at_mut(width);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_keeps_products() {
        let one: Vec<f32> = (0..100_u8).map(|n| f32::from(n % 7) - 3.0).collect();
        let other: Vec<f32> = (0..100_u8).map(|n| f32::from(n % 11) - 5.0).collect();
        let (mut turned_one, mut turned_other) = (Vec::new(), Vec::new());

        turn(&one, &mut turned_one);
        turn(&other, &mut turned_other);

        let product = kernel::dot(&turned_one, &turned_other) / 128.0;
        assert!((product - kernel::dot(&one, &other)).abs() < 1e-2);
    }

    #[test]
    fn a_product_lies_within_its_bounds() {
        let unit = |seed: u8| {
            let row: Vec<f32> = (0..50_u8).map(|n| f32::from(n.wrapping_mul(seed) % 23) - 11.0).collect();
            let length = kernel::dot(&row, &row).sqrt();
            row.iter().map(|number| number / length).collect::<Vec<f32>>()
        };
        let mut bytes = Bytes::default();
        let rows: Vec<Vec<f32>> = (1..60).map(unit).collect();
        bytes.extend(&rows.concat(), 50);
        let query = unit(77);

        let asked = Bytes::ask(&query);

        for (slot, (row, (least, most))) in rows.iter().zip(bytes.bounds(&asked)).enumerate() {
            assert_eq!(bytes.bounds_of(slot, &asked), (least, most));
            let product = kernel::dot(row, &query);
            assert!(least <= product && product <= most && most - least < 0.1);
        }
    }
}

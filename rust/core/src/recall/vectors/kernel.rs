//! The inner loops, each compiled for several kinds of processor and chosen when it runs.
//!
//! Sums are added in one fixed order of sixteen lanes, so every processor gives the same bits.

const LANES: usize = 16;

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn dot_body(one: &[f32], other: &[f32]) -> f32 {
    let (ones, one_rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    // Every place in the lanes is a constant once unrolled, or they would not stay in a register.
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in ones.iter().zip(others) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    if !one_rest.is_empty() {
        let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
        a[..one_rest.len()].copy_from_slice(one_rest);
        b[..other_rest.len()].copy_from_slice(other_rest);
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    for lane in 0..8 {
        lanes[lane] += lanes[lane + 8];
    }
    for lane in 0..4 {
        lanes[lane] += lanes[lane + 4];
    }
    for lane in 0..2 {
        lanes[lane] += lanes[lane + 2];
    }
    lanes[0] += lanes[1];
    lanes[0]
}

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn dots_body(rows: &[f32], query: &[f32], out: &mut Vec<f32>) {
    // No iterator that calls a function: it would be compiled for the least kind of processor.
    let from = out.len();
    out.resize(from + rows.len() / query.len(), 0.0);
    for (slot, row) in out[from..].iter_mut().zip(rows.chunks_exact(query.len())) {
        *slot = dot_body(row, query);
    }
}

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn product_body(row: &[i8], query: &[i16]) -> i32 {
    let mut sum = 0;
    for (a, b) in row.iter().zip(query) {
        sum += i32::from(*a) * i32::from(*b);
    }
    sum
}

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn products_body(rows: &[i8], query: &[i16], out: &mut Vec<i32>) {
    let from = out.len();
    out.resize(from + rows.len() / query.len(), 0);
    for (slot, row) in out[from..].iter_mut().zip(rows.chunks_exact(query.len())) {
        *slot = product_body(row, query);
    }
}

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn distances_body(rows: &[u64], query: &[u64], out: &mut Vec<u16>) {
    let from = out.len();
    out.resize(from + rows.len() / query.len(), 0);
    let out = &mut out[from..];
    // A length that the compiler knows makes the loop over a row disappear.
    if let (Ok(query), (rows, [])) = (<&[u64; 4]>::try_from(query), rows.as_chunks::<4>()) {
        for (slot, row) in out.iter_mut().zip(rows) {
            *slot = differing(row, query);
        }
    } else {
        for (slot, row) in out.iter_mut().zip(rows.chunks_exact(query.len())) {
            *slot = differing(row, query);
        }
    }
}

#[expect(clippy::inline_always, reason = "the wrapper's instructions are those of its caller's kind")]
#[inline(always)]
fn differing(row: &[u64], query: &[u64]) -> u16 {
    let mut count = 0;
    for (a, b) in row.iter().zip(query) {
        count += (a ^ b).count_ones();
    }
    #[expect(clippy::cast_possible_truncation, reason = "a vector has at most 32,768 numbers")]
    let count = count as u16;
    count
}

/// One function for each kind of processor, and one that picks among them.
macro_rules! chosen {
    ($(#[$doc:meta])* $name:ident, $body:ident, ($($argument:ident: $type:ty),*) $(-> $out:ty)?) => {
        $(#[$doc])*
        #[inline]
        pub(super) fn $name($($argument: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,popcnt")]
                fn avx512($($argument: $type),*) $(-> $out)? {
                    $body($($argument),*)
                }
                #[target_feature(enable = "avx2,popcnt")]
                fn avx2($($argument: $type),*) $(-> $out)? {
                    $body($($argument),*)
                }
                match kind() {
                    // SAFETY: `kind` asked the processor for every feature that the function names.
                    Kind::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    Kind::Avx2 => return unsafe { avx2($($argument),*) },
                    Kind::Plain => {}
                }
            }
            // NEON is part of every 64-bit ARM, so the plain form uses it there.
            $body($($argument),*)
        }
    };
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Avx2,
    Avx512,
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn kind() -> Kind {
    use std::arch::is_x86_feature_detected as has;
    if has!("avx512f")
        && has!("avx512bw")
        && has!("avx512vl")
        && has!("avx512dq")
        && has!("avx512vpopcntdq")
        && has!("popcnt")
    {
        Kind::Avx512
    } else if has!("avx2") && has!("popcnt") {
        Kind::Avx2
    } else {
        Kind::Plain
    }
}

chosen!(
    /// The inner product of two vectors of one length.
    dot, dot_body, (one: &[f32], other: &[f32]) -> f32
);
chosen!(
    /// The inner product of each row with the query.
    dots, dots_body, (rows: &[f32], query: &[f32], out: &mut Vec<f32>)
);
chosen!(
    /// The inner product of two vectors in whole numbers.
    product, product_body, (row: &[i8], query: &[i16]) -> i32
);
chosen!(
    /// The same of each row.
    products, products_body, (rows: &[i8], query: &[i16], out: &mut Vec<i32>)
);
chosen!(
    /// In how many bits each row differs from the query.
    distances, distances_body, (rows: &[u64], query: &[u64], out: &mut Vec<u16>)
);

/// Asks the processor to have a vector at hand soon. A hint: it changes no value.
#[inline]
pub(super) fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(LANES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about an address never faults, and SSE is part of every 64-bit x86.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _hint_of_other_processors = row;
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "bytes of a seed, and small numbers"
)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same each time.
    fn numbers(count: usize, mut seed: u64) -> Vec<f32> {
        (0..count)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                f32::from(i16::from_ne_bytes([(seed >> 40) as u8, (seed >> 48) as u8])) / 32768.0
            })
            .collect()
    }

    #[test]
    fn every_kind_of_processor_gives_the_same_bits() {
        for length in [1, 3, 8, 15, 16, 17, 64, 100, 255, 256, 384, 1000] {
            let (one, other) = (numbers(length, 7), numbers(length, 11));

            assert_eq!(dot(&one, &other).to_bits(), dot_body(&one, &other).to_bits(), "{length}");
            let (mut chosen, mut plain) = (Vec::new(), Vec::new());
            let rows = numbers(length * 5, 13);
            dots(&rows, &one, &mut chosen);
            dots_body(&rows, &one, &mut plain);
            assert_eq!(chosen, plain);
        }
    }

    #[test]
    fn a_product_is_that_of_plain_arithmetic() {
        let (one, other) = (numbers(300, 3), numbers(300, 5));

        let exact: f64 = one.iter().zip(&other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();

        assert!((f64::from(dot(&one, &other)) - exact).abs() < 1e-4);
    }

    #[test]
    fn whole_numbers_and_bits_are_counted_exactly() {
        for length in [1, 4, 7, 16, 33, 256] {
            let rows: Vec<i8> = (0..length * 3).map(|n| (n * 37 % 255) as u8 as i8).collect();
            let query: Vec<i16> = (0..length).map(|n| (n as i16 * 91) % 128).collect();
            let bits: Vec<u64> =
                (0..length * 3).map(|n| (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
            let (mut found, mut apart) = (Vec::new(), Vec::new());

            products(&rows, &query, &mut found);
            distances(&bits, &bits[..length], &mut apart);

            for (at, row) in rows.chunks(length).enumerate() {
                let sum: i64 = row.iter().zip(&query).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
                assert_eq!(i64::from(found[at]), sum);
            }
            for (at, row) in bits.chunks(length).enumerate() {
                let sum: u32 = (0..length).map(|n| (row[n] ^ bits[n]).count_ones()).sum();
                assert_eq!(u32::from(apart[at]), sum);
            }
        }
    }
}

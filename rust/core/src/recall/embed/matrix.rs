//! Matrices that other embedders made: brought to single precision, and looked at before they are used.

use crate::{Error, Result};

/// How a number of a foreign matrix is written, in the byte order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// `float16`.
    Half,
    /// `float32`.
    Single,
    /// `float64`.
    Double,
}

impl Width {
    fn bytes(self) -> usize {
        match self {
            Width::Half => 2,
            Width::Single => 4,
            Width::Double => 8,
        }
    }
}

/// Returns numbers in single precision. One that is too large for that becomes infinite.
pub fn floats(bytes: &[u8], width: Width) -> Result<Vec<f32>> {
    if !bytes.len().is_multiple_of(width.bytes()) {
        return Err(Error::invalid(format!("{} bytes hold no whole number of floats", bytes.len())));
    }
    #[expect(clippy::cast_possible_truncation, reason = "single precision is what is asked for")]
    let numbers = match width {
        Width::Half => bytes.chunks_exact(2).map(|n| half(u16::from_ne_bytes([n[0], n[1]]))).collect(),
        Width::Single => {
            bytes.chunks_exact(4).map(|n| f32::from_ne_bytes([n[0], n[1], n[2], n[3]])).collect()
        }
        Width::Double => bytes
            .chunks_exact(8)
            .map(|n| f64::from_ne_bytes([n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]]) as f32)
            .collect(),
    };
    Ok(numbers)
}

fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1F);
    let fraction = f32::from(bits & 0x3FF);
    match exponent {
        0 => sign * fraction * 2_f32.powi(-24),
        31 if fraction > 0.0 => f32::NAN,
        31 => sign * f32::INFINITY,
        _ => sign * (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    }
}

/// Refuses a matrix that holds NaN or an infinity; says in which row of how many numbers.
pub fn check(bytes: &[u8], dimensions: usize) -> Result<()> {
    let bad = |n: &[u8]| !f32::from_ne_bytes([n[0], n[1], n[2], n[3]]).is_finite();
    // One pass without a branch a number, then the search for the culprit.
    if !bytes.chunks_exact(4).fold(false, |found, n| found | bad(n)) {
        return Ok(());
    }
    let at = bytes.chunks_exact(4).position(bad).unwrap_or_default();
    let (row, column) = (at / dimensions.max(1), at % dimensions.max(1));
    Err(Error::invalid(format!("the vector of text {row} holds NaN or an infinity, at place {column}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read_exactly() {
        let cases = [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
            (0x7C00, f32::INFINITY),
        ];

        for (bits, value) in cases {
            assert_eq!(half(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert!(half(0x7E00).is_nan());
    }

    #[test]
    fn the_row_of_a_bad_number_is_named() {
        let bytes: Vec<u8> = [1.0, 2.0, 3.0, f32::NAN].iter().flat_map(|n| n.to_ne_bytes()).collect();

        let error = check(&bytes, 2).unwrap_err().to_string();

        assert_eq!(error, "the vector of text 1 holds NaN or an infinity, at place 1");
        assert!(check(&bytes[..12], 2).is_ok());
    }

    #[test]
    fn doubles_beyond_single_precision_are_infinite() {
        let bytes: Vec<u8> = [0.5, 1e300].iter().flat_map(|n: &f64| n.to_ne_bytes()).collect();

        let numbers = floats(&bytes, Width::Double).unwrap();

        assert_eq!(numbers, [0.5, f32::INFINITY]);
        assert!(floats(&bytes[1..], Width::Double).is_err());
    }
}

//! Text as vectors, without a model at run time: a table of word pieces, or hashed words.

mod hashed;
mod matrix;
mod pieces;
mod table;
mod words;

pub use hashed::hashed;
pub use matrix::{Width, check, floats};
pub use table::Table;

/// Scales a vector to length 1; one without a direction stays as it is, zeros.
///
/// The order of the additions is part of the result, and the same on every platform.
fn normalise(vector: &mut [f32]) {
    let squares: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    if squares > 0.0 {
        let length = squares.sqrt();
        for x in vector {
            #[expect(clippy::cast_possible_truncation, reason = "the vectors are of single precision")]
            let scaled = (f64::from(*x) / length) as f32;
            *x = scaled;
        }
    }
}

//! MessagePack as the bundle uses it: nil, bools, integers, doubles, strings, lists, string-keyed maps.
//!
//! Binary, extension types and other keys are never written, since the peer cannot read them, and are
//! named when a foreign file has them.

mod read;
mod tree;
mod write;

pub use read::{Reader, Token, as_f64, as_i64, as_str, field, object_len};
pub use tree::decode;
pub use write::{
    put_bool, put_f64, put_i64, put_list_header, put_map_header, put_nil, put_str, put_u64, put_value,
};

/// How many containers a caller's value may nest.
pub const MAX_DEPTH: usize = 512;

/// How many containers a reader goes into. The rooms above wrap a caller's value in a few of their own
/// (a list of messages, a map of slots): what was accepted must stay readable inside them.
pub const READ_DEPTH: usize = MAX_DEPTH + 8;

/// The longest string, list or map that the format can state.
pub const MAX_LEN: usize = u32::MAX as usize;

/// Bytes that are not one MessagePack object of the kinds above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Malformed {
    /// The offset in the bytes that were given.
    pub at: usize,
    /// What was found there.
    pub what: &'static str,
}

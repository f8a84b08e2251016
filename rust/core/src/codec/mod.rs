//! The bytes of a stored value: ten bytes of header, one MessagePack object, a checksum.
//!
//! [`seal`] writes them, [`open`] reads them and every older form that the peer left in its files.
//! [`msgpack`] works on bytes; [`Value`] is the tree for the few places that must look inside.

mod cbor;
pub mod json;
mod key;
mod legacy;
pub mod msgpack;
mod parsed;
mod stored;
mod value;

pub use key::Key;
pub use parsed::from_json;
pub use stored::{Fault, Stored, has_trailer, open, seal, seal_into, unsealed};
pub use value::Value;

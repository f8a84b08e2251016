//! The values of a session: keys, ids, drafts. No I/O.

mod event;
mod key;

pub use event::{Draft, Stamps};
pub use key::{
    EVENT_MARK, EventId, MESSAGE_MARK, Namespace, attached_parts, channel_key, event_key, event_prefix,
    message_prefix, parse_numbered, rollup_key,
};

//! Keys of a bundle's tables: who an event belongs to and its place in that log.
//!
//! An event key is `<namespace>:e<number>`, the number padded to six digits and growing past them
//! without re-padding, so text order is number order only among keys of one length.

/// The id of an event: unique and growing within a session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventId(pub i64);

/// What stands between a namespace and the number of an event.
pub const EVENT_MARK: &str = ":e";
/// What stands between a channel and the number of a message.
pub const MESSAGE_MARK: &str = ":m";
/// Digits that a number is padded to.
pub const PADDED: usize = 6;

/// The owner of a run of numbered keys, with what a reader must know to walk them in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    prefix: Vec<u8>,
}

impl Namespace {
    /// The event log of an agent.
    pub fn events(agent: &str) -> Self {
        Self { prefix: event_prefix(agent) }
    }

    /// The messages of a channel.
    pub fn messages(channel: &str) -> Self {
        Self { prefix: message_prefix(channel) }
    }

    /// The literal bytes before the number.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The key of number `seq`.
    pub fn key(&self, seq: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + PADDED);
        key.extend_from_slice(&self.prefix);
        push_number(&mut key, seq);
        key
    }

    /// The number that `key` holds, if it is a key of this namespace and of no other.
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        digits(key.strip_prefix(self.prefix.as_slice())?)
    }

    /// First and last key with numbers of `width` digits; keys of other widths may lie between them.
    pub fn span(&self, width: usize, from: u64, to: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let (low, high) = numbers_of(width);
        let (first, last) = (from.max(low), to.min(high));
        (first <= last).then(|| (self.key(first), self.key(last)))
    }
}

/// The smallest and the largest number written with `width` digits.
fn numbers_of(width: usize) -> (u64, u64) {
    let high = 10_u64.checked_pow(u32::try_from(width).unwrap_or(u32::MAX)).map_or(u64::MAX, |next| next - 1);
    let low = if width <= PADDED { 0 } else { high / 10 + 1 };
    (low, high)
}

fn push_number(key: &mut Vec<u8>, seq: u64) {
    let text = seq.to_string();
    key.resize(key.len() + PADDED.saturating_sub(text.len()), b'0');
    key.extend_from_slice(text.as_bytes());
}

fn digits(bytes: &[u8]) -> Option<u64> {
    let canonical = bytes.len() >= PADDED
        && bytes.len() <= 19
        && bytes.iter().all(u8::is_ascii_digit)
        && (bytes.len() == PADDED || bytes[0] != b'0');
    if !canonical {
        return None;
    }
    Some(bytes.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// The literal bytes before the number in the event keys of `agent`.
pub fn event_prefix(agent: &str) -> Vec<u8> {
    [agent.as_bytes(), EVENT_MARK.as_bytes()].concat()
}

/// The literal bytes before the number in the message keys of `channel`.
pub fn message_prefix(channel: &str) -> Vec<u8> {
    [channel.as_bytes(), MESSAGE_MARK.as_bytes()].concat()
}

/// The key of event number `seq` of `agent`.
pub fn event_key(agent: &str, seq: u64) -> Vec<u8> {
    Namespace::events(agent).key(seq)
}

/// The key of message number `seq` of `channel`.
pub fn channel_key(channel: &str, seq: u64) -> Vec<u8> {
    Namespace::messages(channel).key(seq)
}

/// The key of the rollup of one turn.
pub fn rollup_key(agent: &str, turn: i64) -> Vec<u8> {
    format!("{agent}:turn:{turn:06}").into_bytes()
}

/// Splits a numbered key into its owner and its number; `mark` is [`EVENT_MARK`] or [`MESSAGE_MARK`].
///
/// The last mark counts, so that owners may hold marks themselves.
pub fn parse_numbered<'a>(key: &'a [u8], mark: &str) -> Option<(&'a str, u64)> {
    let text = std::str::from_utf8(key).ok()?;
    let (owner, number) = text.rsplit_once(mark)?;
    Some((owner, digits(number.as_bytes())?))
}

/// Splits the namespace of an attached agent, `<host>:attached:<role>:<n>`, into host, role and number.
pub fn attached_parts(namespace: &str) -> Option<(&str, &str, i64)> {
    let (host, rest) = namespace.split_once(":attached:")?;
    let (role, number) = rest.rsplit_once(':')?;
    Some((host, role, number.parse().ok()?)).filter(|(_, role, _)| !role.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_past_six_digits_keeps_its_place_by_value() {
        let space = Namespace::events("alice");

        let numbers = [0, 999_999, 1_000_000, 12_345_678].map(|seq| space.number(&space.key(seq)));

        assert_eq!(numbers, [Some(0), Some(999_999), Some(1_000_000), Some(12_345_678)]);
    }

    #[test]
    fn a_namespace_that_begins_with_another_is_not_part_of_it() {
        let alice = Namespace::events("alice");

        let foreign = [event_key("alice:explorer", 1), event_key("alice:e12", 1), b"alice:e0000012".to_vec()];

        assert!(foreign.iter().all(|key| alice.number(key).is_none()));
    }

    #[test]
    fn an_owner_may_hold_the_mark_itself() {
        let key = event_key("a:e1:b", 7);

        assert_eq!(parse_numbered(&key, EVENT_MARK), Some(("a:e1:b", 7)));
    }

    #[test]
    fn a_role_may_hold_colons() {
        assert_eq!(attached_parts("root:attached:code:critic:3"), Some(("root", "code:critic", 3)));
        assert_eq!(attached_parts("root:attached::3"), None);
    }
}

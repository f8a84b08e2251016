//! The stored form: `89 4B 01 enc flags 00 00 00 56 4B`, the payload, and behind our payloads a trailer.
//!
//! The trailer is `C1 A5` and eight bytes, little-endian: the xxh3-64 of header and object, seeded with
//! the xxh3-64 of the key, which is seeded with the xxh3-64 of the table's name (its seed is 0). Hashed
//! one by one, a name cannot run into a key; and a value copied under another key is noticed like a
//! damaged one.
//!
//! The peer ignores what stands behind the object. Its own values have no trailer.

use std::borrow::Cow;
use std::fmt;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::legacy;
use super::msgpack::{Malformed, object_len};

const HEADER: [u8; 10] = [0x89, 0x4b, 1, PACKED, 0, 0, 0, 0, 0x56, 0x4b];
/// The encoding of one MessagePack object.
const PACKED: u8 = 0x04;
/// `C1` occurs neither in MessagePack nor in UTF-8, and `A5` makes it a mark of ours.
const MARKER: [u8; 2] = [0xc1, 0xa5];
const TRAILER_LEN: usize = MARKER.len() + size_of::<u64>();

/// What a stored value holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Exactly one MessagePack object; owned where an older form was translated into it.
    Object(Cow<'a, [u8]>),
    /// Bytes that the caller stored as bytes.
    Bytes(&'a [u8]),
}

/// Why a stored value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    what: String,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::new(malformed.to_string())
    }
}

/// Returns the stored form of `body`, which must be exactly one MessagePack object.
pub fn seal(table: &str, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER.len() + body.len() + TRAILER_LEN);
    seal_into(&mut out, table, key, body);
    out
}

/// Appends the stored form of `body`, which must be exactly one MessagePack object, to `out`.
pub fn seal_into(out: &mut Vec<u8>, table: &str, key: &[u8], body: &[u8]) {
    let start = out.len();
    out.reserve(HEADER.len() + body.len() + TRAILER_LEN);
    out.extend_from_slice(&HEADER);
    out.extend_from_slice(body);
    let sum = checksum(table, key, out.get(start..).unwrap_or_default());
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&sum);
}

/// Returns what `stored` holds, after checking that it is whole and, where it has a checksum, unchanged.
pub fn open<'a>(table: &str, key: &[u8], stored: &'a [u8]) -> Result<Stored<'a>, Fault> {
    let Some((header, payload)) = stored.split_first_chunk::<{ HEADER.len() }>() else {
        return short(stored);
    };
    let [first, second, version, encoding, _flags, reserved @ .., v, k] = *header;
    let framed = [first, second] == [0x89, 0x4b];
    if !(framed && encoding == PACKED) && was_sealed(table, key, stored) {
        return Err(Fault::new("a damaged header"));
    }
    if !framed {
        return Ok(Stored::Bytes(stored));
    }
    if [v, k] != [0x56, 0x4b] || version != 1 || reserved != [0; 3] {
        return Err(Fault::new("a header that no known version writes"));
    }
    match encoding {
        PACKED => packed(table, key, stored, payload),
        0x00 => Ok(Stored::Bytes(payload)),
        other => legacy::transcode(other, payload).map(|body| Stored::Object(Cow::Owned(body))),
    }
}

/// Returns the object of a value that was sealed here, without looking at it: for bytes that were found to be
/// the very ones that were sealed. None of any other value.
pub fn unsealed(stored: &[u8]) -> Option<&[u8]> {
    split_trailer(stored).and_then(|(sealed, _)| sealed.strip_prefix(&HEADER))
}

/// Returns whether `stored` ends in the marker where a trailer would be.
pub fn has_trailer(stored: &[u8]) -> bool {
    split_trailer(stored).is_some()
}

// Nothing that is shorter than a header has one, so the peer takes it for bytes; what begins like a
// header is refused on writing, and so can only be the rest of a longer value.
fn short(stored: &[u8]) -> Result<Stored<'_>, Fault> {
    if stored.starts_with(&[0x89, 0x4b]) {
        Err(Fault::new("a header that is cut off"))
    } else {
        Ok(Stored::Bytes(stored))
    }
}

fn packed<'a>(table: &str, key: &[u8], stored: &'a [u8], payload: &'a [u8]) -> Result<Stored<'a>, Fault> {
    let (body, rest) = payload.split_at_checked(object_len(payload)?).unwrap_or((payload, &[]));
    // A damaged count can make the object end at the last byte, with a number that swallowed the
    // marker: so where a trailer could be there must be one. The peer's last ten bytes would have to
    // begin with the marker inside one number, which its forms allow only in lists of mixed widths.
    let Some((sealed, sum)) = split_trailer(stored) else {
        return if rest.is_empty() {
            Ok(Stored::Object(Cow::Borrowed(body)))
        } else {
            Err(Fault::new("bytes behind the object that are no checksum"))
        };
    };
    if rest.len() == TRAILER_LEN && checksum(table, key, sealed) == *sum {
        Ok(Stored::Object(Cow::Borrowed(body)))
    } else {
        Err(Fault::new("checksum mismatch"))
    }
}

// Header and object, and the checksum behind them.
fn split_trailer(stored: &[u8]) -> Option<(&[u8], &[u8; 8])> {
    let (front, sum) = stored.split_last_chunk::<8>()?;
    let (sealed, marker) = front.split_last_chunk::<2>()?;
    (*marker == MARKER && sealed.len() > HEADER.len()).then_some((sealed, sum))
}

// Without its first bytes a sealed value would pass for bytes, and with another encoding for an older
// form: the checksum, taken under the header that we write, tells.
#[cold]
fn was_sealed(table: &str, key: &[u8], stored: &[u8]) -> bool {
    let Some((sealed, sum)) = split_trailer(stored) else { return false };
    let mut mended = HEADER.to_vec();
    mended.extend_from_slice(sealed.get(HEADER.len()..).unwrap_or_default());
    checksum(table, key, &mended) == *sum
}

fn checksum(table: &str, key: &[u8], sealed: &[u8]) -> [u8; 8] {
    let place = xxh3_64_with_seed(key, xxh3_64(table.as_bytes()));
    xxh3_64_with_seed(sealed, place).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Stored, has_trailer, open, seal, unsealed};

    const LIST: &[u8] = &[0x92, 0x01, 0xa1, b'x'];

    fn fault(stored: &[u8]) -> String {
        open("meta", b"k", stored).unwrap_err().to_string()
    }

    fn bare(body: &[u8]) -> Vec<u8> {
        [&[0x89, 0x4b, 1, 4, 0, 0, 0, 0, 0x56, 0x4b], body].concat()
    }

    #[test]
    fn a_value_opens_only_in_the_place_it_was_sealed_for() {
        let stored = seal("meta", b"k", LIST);

        let places = [("meta", b"k".as_slice()), ("meta", b"l"), ("met", b"ak"), ("metak", b"")];
        let opened = places.map(|(table, key)| open(table, key, &stored));

        assert_eq!(opened[0], Ok(Stored::Object(Cow::Borrowed(LIST))));
        assert!(opened[1..].iter().all(|one| one.as_ref().unwrap_err().to_string() == "checksum mismatch"));
    }

    #[test]
    fn the_trailer_is_what_independent_readers_were_told() {
        let stored = seal("events", b"alice:e000001", &[0xc0]);

        let (front, sum) = stored.split_at(13);

        assert_eq!(front, [0x89, 0x4b, 1, 4, 0, 0, 0, 0, 0x56, 0x4b, 0xc0, 0xc1, 0xa5]);
        // From another implementation of xxh3.
        assert_eq!(sum, [0x6e, 0x7d, 0xb6, 0x2d, 0x77, 0xb2, 0x26, 0x12]);
        assert!(has_trailer(&stored) && !has_trailer(&bare(LIST)));
        assert_eq!((unsealed(&stored), unsealed(&bare(LIST))), (Some([0xc0].as_slice()), None));
    }

    #[test]
    fn a_value_of_the_peer_needs_no_trailer_but_must_be_whole() {
        assert_eq!(open("meta", b"k", &bare(LIST)), Ok(Stored::Object(Cow::Borrowed(LIST))));
        assert_eq!(fault(&bare(&[0x92, 0x01])), "a container longer than the bytes that follow at byte 0");
        assert_eq!(fault(&bare(&[0x01, 0x00])), "bytes behind the object that are no checksum");
    }

    #[test]
    fn a_header_is_bytes_known_or_a_fault() {
        let opened = |stored: &'static [u8]| open("meta", b"k", stored);

        assert_eq!(opened(b""), Ok(Stored::Bytes(b"")));
        assert_eq!(opened(b"\x8aK\x01\x04 and more"), Ok(Stored::Bytes(b"\x8aK\x01\x04 and more")));
        assert_eq!(opened(b"\x89K\x01\x00\x00\x00\x00\x00VKraw"), Ok(Stored::Bytes(b"raw")));
        assert_eq!(fault(b"\x89K\x01\x04"), "a header that is cut off");
        assert_eq!(fault(b"\x89K\x02\x04\x00\x00\x00\x00VK\xc0"), "a header that no known version writes");
        assert_eq!(fault(b"\x89K\x01\x04\x00\x01\x00\x00VK\xc0"), "a header that no known version writes");
        assert_eq!(fault(b"\x89K\x01\x04\x00\x00\x00\x00VV\xc0"), "a header that no known version writes");
    }

    #[test]
    fn a_sealed_value_with_a_damaged_header_never_passes_for_bytes() {
        for (at, byte) in [(0, 0x88), (1, 0x4a), (3, 0x00), (3, 0x05)] {
            let mut stored = seal("meta", b"k", LIST);
            stored[at] = byte;

            let what = fault(&stored);

            assert_eq!(what, "a damaged header");
        }
    }

    #[test]
    fn a_number_that_swallows_the_marker_is_no_peers_value() {
        // The count of a list was damaged: its third item is made of the marker and half the checksum.
        let stored = bare(&[0x93, 0x01, 0xce, 0xc1, 0xa5, 0x00, 0x00, 0xa5, b'a', b'b', b'c', b'd', b'e']);

        let what = open("meta", b"k", &stored[..]).unwrap_err().to_string();

        assert_eq!(what, "checksum mismatch");
    }
}

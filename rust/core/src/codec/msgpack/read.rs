//! Reads MessagePack without trusting a single length in it.

use super::{Malformed, READ_DEPTH};

/// The next thing in the bytes: a whole scalar, or the opening of a container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<S> {
    /// Nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer that an `i64` can hold.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A double, or a single widened to one.
    Float(f64),
    /// A string: text, or the bytes that should be.
    Str(S),
    /// A list: so many objects follow. No more than there are bytes left.
    List(usize),
    /// A map: so many pairs follow, each a [`Reader::key`] and an object.
    Map(usize),
}

/// A position in MessagePack bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns how many bytes were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns how many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads the next scalar or the opening of the next container.
    #[inline]
    pub fn token(&mut self) -> Result<Token<&'a str>, Malformed> {
        self.next(|bytes, at| {
            std::str::from_utf8(bytes).map_err(|_| Malformed { at, what: "a string that is not UTF-8" })
        })
    }

    /// Reads the same, and leaves it to the caller to check that a string is UTF-8: who hands the bytes
    /// to somebody that checks them need not pay for it twice.
    #[inline]
    pub fn raw_token(&mut self) -> Result<Token<&'a [u8]>, Malformed> {
        self.next(|bytes, _| Ok(bytes))
    }

    #[inline]
    fn next<S>(
        &mut self,
        text: impl Fn(&'a [u8], usize) -> Result<S, Malformed>,
    ) -> Result<Token<S>, Malformed> {
        let start = self.at;
        let [marker] = self.take()?;
        Ok(match marker {
            0x00..=0x7f => Token::Int(i64::from(marker)),
            0x80..=0x8f => self.map(start, usize::from(marker & 0x0f))?,
            0x90..=0x9f => self.list(start, usize::from(marker & 0x0f))?,
            0xa0..=0xbf => {
                let (at, bytes) = (self.at, self.bytes_of(usize::from(marker & 0x1f))?);
                Token::Str(text(bytes, at)?)
            }
            0xc0 => Token::Nil,
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xca => Token::Float(f64::from(f32::from_be_bytes(self.take()?))),
            0xcb => Token::Float(f64::from_be_bytes(self.take()?)),
            0xcc => Token::Int(i64::from(u8::from_be_bytes(self.take()?))),
            0xcd => Token::Int(i64::from(u16::from_be_bytes(self.take()?))),
            0xce => Token::Int(i64::from(u32::from_be_bytes(self.take()?))),
            0xcf => {
                let number = u64::from_be_bytes(self.take()?);
                i64::try_from(number).map_or(Token::UInt(number), Token::Int)
            }
            0xd0 => Token::Int(i64::from(i8::from_be_bytes(self.take()?))),
            0xd1 => Token::Int(i64::from(i16::from_be_bytes(self.take()?))),
            0xd2 => Token::Int(i64::from(i32::from_be_bytes(self.take()?))),
            0xd3 => Token::Int(i64::from_be_bytes(self.take()?)),
            0xe0..=0xff => Token::Int(i64::from(marker.cast_signed())),
            0xd9..=0xdb => {
                let length = self.length(marker - 0xd9)?;
                let (at, bytes) = (self.at, self.bytes_of(length)?);
                Token::Str(text(bytes, at)?)
            }
            0xdc | 0xdd => {
                let count = self.length(marker - 0xdb)?;
                self.list(start, count)?
            }
            0xde | 0xdf => {
                let count = self.length(marker - 0xdd)?;
                self.map(start, count)?
            }
            _ => return Err(unknown(start, marker)),
        })
    }

    /// Reads a map's next key.
    #[inline]
    pub fn key(&mut self) -> Result<&'a str, Malformed> {
        let start = self.at;
        key_of(start, self.token()?)
    }

    /// Reads a map's next key, as [`Reader::raw_token`] does.
    #[inline]
    pub fn raw_key(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        key_of(start, self.raw_token()?)
    }

    /// Passes over one whole object, checking everything in it.
    pub fn skip(&mut self) -> Result<(), Malformed> {
        // A list of what is open, not recursion: a foreign file decides how deep it nests.
        let mut open: Vec<Pending> = Vec::new();
        loop {
            let start = self.at;
            match self.token()? {
                Token::List(left) => {
                    check_depth(start, open.len())?;
                    open.push(Pending { left, keyed: false });
                }
                Token::Map(left) => {
                    check_depth(start, open.len())?;
                    open.push(Pending { left, keyed: true });
                }
                _ => {}
            }
            while open.pop_if(|pending| pending.left == 0).is_some() {}
            let Some(pending) = open.last_mut() else { return Ok(()) };
            pending.left -= 1;
            if pending.keyed {
                self.key()?;
            }
        }
    }

    /// Passes over one whole object that was checked before, whose strings need no second look.
    pub(crate) fn pass(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        let mut left = 1_usize;
        while left > 0 {
            left = match self.raw_token()? {
                Token::List(count) => left.saturating_add(count),
                Token::Map(count) => left.saturating_add(count.saturating_mul(2)),
                _ => left,
            } - 1;
        }
        self.bytes.get(start..self.at).ok_or_else(|| self.cut())
    }

    /// Passes over one whole object and returns its bytes.
    pub fn raw(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        self.skip()?;
        self.bytes.get(start..self.at).ok_or_else(|| self.cut())
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let chunk = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>);
        let chunk = *chunk.ok_or_else(|| self.cut())?;
        self.at += N;
        Ok(chunk)
    }

    fn length(&mut self, size: u8) -> Result<usize, Malformed> {
        Ok(match size {
            0 => usize::from(u8::from_be_bytes(self.take()?)),
            1 => usize::from(u16::from_be_bytes(self.take()?)),
            _ => usize::try_from(u32::from_be_bytes(self.take()?)).unwrap_or(usize::MAX),
        })
    }

    #[inline]
    fn bytes_of(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length).ok_or_else(|| self.cut())?;
        let bytes = self.bytes.get(self.at..end).ok_or_else(|| self.cut())?;
        self.at = end;
        Ok(bytes)
    }

    // An item takes at least a byte and a pair two: a count that says more lies, and is refused
    // before anybody makes room for it.
    #[inline]
    fn list<S>(&self, start: usize, count: usize) -> Result<Token<S>, Malformed> {
        if count <= self.remaining() { Ok(Token::List(count)) } else { Err(too_long(start)) }
    }

    #[inline]
    fn map<S>(&self, start: usize, count: usize) -> Result<Token<S>, Malformed> {
        if count <= self.remaining() / 2 { Ok(Token::Map(count)) } else { Err(too_long(start)) }
    }

    #[cold]
    fn cut(&self) -> Malformed {
        Malformed { at: self.at, what: "an object that is cut off" }
    }
}

#[inline]
fn key_of<S>(at: usize, token: Token<S>) -> Result<S, Malformed> {
    match token {
        Token::Str(key) => Ok(key),
        _ => Err(Malformed { at, what: "a map key that is not a string" }),
    }
}

#[cold]
fn unknown(at: usize, marker: u8) -> Malformed {
    let what = match marker {
        0xc4..=0xc6 => "a binary value, which a session cannot hold",
        0xc7..=0xc9 | 0xd4..=0xd8 => "an extension type, which a session cannot hold",
        _ => "a byte that begins nothing",
    };
    Malformed { at, what }
}

#[cold]
fn too_long(at: usize) -> Malformed {
    Malformed { at, what: "a container longer than the bytes that follow" }
}

#[inline]
pub(super) fn check_depth(at: usize, depth: usize) -> Result<(), Malformed> {
    if depth < READ_DEPTH { Ok(()) } else { Err(Malformed { at, what: "a value that is nested too deep" }) }
}

/// An open container that is passed over.
struct Pending {
    left: usize,
    keyed: bool,
}

/// Returns where the first object ends, after checking all of it: lengths, kinds, UTF-8, depth.
pub fn object_len(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut reader = Reader::new(bytes);
    reader.skip()?;
    Ok(reader.position())
}

/// Returns the bytes of one field's value; none where `map` is no map or is cut off. It passes over the
/// whole map, since the last of two equal keys counts, but decodes nothing and checks no text.
pub fn field<'a>(map: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let mut reader = Reader::new(map);
    let Ok(Token::Map(count)) = reader.token() else { return None };
    let mut found = None;
    for _ in 0..count {
        let name = reader.raw_key().ok()?;
        let raw = reader.pass().ok()?;
        if name == key.as_bytes() {
            found = Some(raw);
        }
    }
    found
}

/// Returns the text of a string object.
pub fn as_str(raw: &[u8]) -> Option<&str> {
    match Reader::new(raw).token() {
        Ok(Token::Str(text)) => Some(text),
        _ => None,
    }
}

/// Returns an integer object that an `i64` can hold.
pub fn as_i64(raw: &[u8]) -> Option<i64> {
    match Reader::new(raw).token() {
        Ok(Token::Int(number)) => Some(number),
        _ => None,
    }
}

/// Returns a number object as a double, rounded to the nearest beyond 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "the caller asks for a double")]
pub fn as_f64(raw: &[u8]) -> Option<f64> {
    match Reader::new(raw).token() {
        Ok(Token::Float(number)) => Some(number),
        Ok(Token::Int(number)) => Some(number as f64),
        Ok(Token::UInt(number)) => Some(number as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Malformed, as_f64, as_i64, as_str, field, object_len};
    use crate::codec::Value;
    use crate::codec::msgpack::{READ_DEPTH, decode, put_f64, put_map_header, put_str, put_u64};

    fn what(bytes: &[u8]) -> &'static str {
        object_len(bytes).unwrap_err().what
    }

    #[test]
    fn a_lying_length_is_refused_before_room_is_made_for_it() {
        assert_eq!(
            what(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0x01]),
            "a container longer than the bytes that follow"
        );
        assert_eq!(what(&[0xdf, 0xff, 0xff, 0xff, 0xff, 0xa0, 0x01]), what(&[0x82, 0xa0, 0x01]));
        assert_eq!(what(&[0xdb, 0xff, 0xff, 0xff, 0xff, b'x']), "an object that is cut off");
        assert_eq!(what(&[]), what(&[0xcb, 0, 0]));
    }

    #[test]
    fn what_a_session_cannot_hold_is_named_with_its_offset() {
        assert_eq!(
            object_len(&[0x91, 0xc4, 0x01, 0x00]),
            Err(Malformed { at: 1, what: "a binary value, which a session cannot hold" })
        );
        assert_eq!(what(&[0xd6, 0xff, 0, 0, 0, 0]), "an extension type, which a session cannot hold");
        assert_eq!(what(&[0x81, 0x01, 0x01]), "a map key that is not a string");
        assert_eq!(what(&[0xc1]), "a byte that begins nothing");
        assert_eq!(what(&[0xa1, 0xff]), "a string that is not UTF-8");
    }

    #[test]
    fn nesting_ends_at_the_limit_on_a_small_stack() {
        let nested = |depth: usize| {
            let mut bytes = vec![0x91; depth];
            bytes.push(0xc0);
            bytes
        };

        let run = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            (decode(&nested(READ_DEPTH)).is_ok(), object_len(&nested(100_000)), decode(&nested(100_000)))
        });
        let (at_limit, skipped, decoded) = run.unwrap().join().unwrap();

        assert!(at_limit);
        assert_eq!(skipped.unwrap_err(), decoded.unwrap_err());
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_for_every_reader() {
        let bytes = [0x82, 0xa1, b'a', 0x01, 0xa1, b'a', 0x02];

        let value = decode(&bytes).unwrap();

        assert_eq!(value, Value::Map(vec![("a".into(), Value::Int(2))]));
        assert_eq!(field(&bytes, "a").and_then(as_i64), Some(2));
    }

    #[test]
    fn a_field_is_found_without_decoding_the_rest() {
        let mut map = Vec::new();
        put_map_header(&mut map, 3);
        put_str(&mut map, "ts");
        put_f64(&mut map, 1.5);
        put_str(&mut map, "big");
        put_u64(&mut map, u64::MAX);
        put_str(&mut map, "type");
        put_str(&mut map, "text");

        let (ts, big, kind) = (field(&map, "ts"), field(&map, "big"), field(&map, "type"));

        assert_eq!(ts.and_then(as_f64), Some(1.5));
        assert_eq!(big.map(|raw| (as_i64(raw), as_f64(raw).is_some())), Some((None, true)));
        assert_eq!(kind.and_then(as_str), Some("text"));
        assert_eq!(field(&map, "none"), None);
    }

    #[test]
    fn nothing_may_stand_behind_a_decoded_object() {
        assert_eq!(decode(&[0x01, 0x02]), Err(Malformed { at: 1, what: "bytes behind the object" }));
        assert_eq!(object_len(&[0x01, 0x02]), Ok(1));
    }
}

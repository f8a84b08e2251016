//! CBOR (RFC 8949), read only: the peer offers it as a wrapper type, so a file may hold some.

use super::key::Key;
use super::stored::Fault;
use super::value::Value;

/// The length of an item that says "until a break".
const INDEFINITE: u8 = 31;
/// As deep as the JSON parser goes: nobody nests further, and the recursion stays small.
const DEPTH: usize = 128;
const BREAK: u8 = 0xff;
/// The tag that only says "this is CBOR".
const SELF_DESCRIBED: u64 = 55_799;

/// Decodes bytes that are exactly one CBOR item of the kinds a session can hold.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, Fault> {
    let mut reader = Reader { left: bytes };
    let value = reader.value(0)?;
    if reader.left.is_empty() { Ok(value) } else { Err(Fault::new("bytes behind the CBOR item")) }
}

struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        let (major, short) = self.head()?;
        match major {
            0 => Ok(Value::from(self.number(short)?)),
            1 => self.negative(short),
            3 => self.text(short).map(Value::Str),
            4 | 5 if depth >= DEPTH => Err(Fault::new("CBOR that is nested too deep")),
            4 => self.list(short, depth),
            5 => self.map(short, depth),
            6 if self.number(short)? == SELF_DESCRIBED && depth == 0 => self.value(1),
            7 => self.simple(short),
            2 => Err(Fault::new("a CBOR byte string, which a session cannot hold")),
            _ => Err(Fault::new("a CBOR tag, which a session cannot hold")),
        }
    }

    fn negative(&mut self, short: u8) -> Result<Value, Fault> {
        // The number n stands for -1 - n, which is n with every bit turned round.
        i64::try_from(self.number(short)?)
            .map(|number| Value::Int(!number))
            .map_err(|_| Fault::new("a CBOR integer below 64 bits"))
    }

    fn text(&mut self, short: u8) -> Result<String, Fault> {
        let mut text = String::new();
        if short == INDEFINITE {
            while !self.at_break()? {
                let (major, chunk) = self.head()?;
                if major != 3 || chunk == INDEFINITE {
                    return Err(Fault::new("a CBOR text with a chunk that is no text"));
                }
                text.push_str(self.chunk(chunk)?);
            }
        } else {
            text.push_str(self.chunk(short)?);
        }
        Ok(text)
    }

    fn list(&mut self, short: u8, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        if short == INDEFINITE {
            while !self.at_break()? {
                items.push(self.value(depth + 1)?);
            }
        } else {
            // Each item takes at least a byte, so a lying count ends with the bytes.
            for _ in 0..self.number(short)? {
                items.push(self.value(depth + 1)?);
            }
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, short: u8, depth: usize) -> Result<Value, Fault> {
        let mut entries = Vec::new();
        if short == INDEFINITE {
            while !self.at_break()? {
                entries.push(self.entry(depth)?);
            }
        } else {
            for _ in 0..self.number(short)? {
                entries.push(self.entry(depth)?);
            }
        }
        Ok(Value::Map(entries))
    }

    fn entry(&mut self, depth: usize) -> Result<(Key, Value), Fault> {
        let (3, short) = self.head()? else {
            return Err(Fault::new("a CBOR map key that is not a string"));
        };
        Ok((self.text(short)?.into(), self.value(depth + 1)?))
    }

    fn simple(&mut self, short: u8) -> Result<Value, Fault> {
        Ok(match short {
            20 => Value::Bool(false),
            21 => Value::Bool(true),
            22 => Value::Nil,
            25 => Value::Float(half(u16::from_be_bytes(self.take()?))),
            26 => Value::Float(f64::from(f32::from_be_bytes(self.take()?))),
            27 => Value::Float(f64::from_be_bytes(self.take()?)),
            _ => return Err(Fault::new("a CBOR simple value, which a session cannot hold")),
        })
    }

    fn head(&mut self) -> Result<(u8, u8), Fault> {
        let [head] = self.take()?;
        Ok((head >> 5, head & 0x1f))
    }

    fn number(&mut self, short: u8) -> Result<u64, Fault> {
        Ok(match short {
            0..=23 => u64::from(short),
            24 => u64::from(u8::from_be_bytes(self.take()?)),
            25 => u64::from(u16::from_be_bytes(self.take()?)),
            26 => u64::from(u32::from_be_bytes(self.take()?)),
            27 => u64::from_be_bytes(self.take()?),
            _ => return Err(Fault::new("a CBOR length that means nothing")),
        })
    }

    fn chunk(&mut self, short: u8) -> Result<&'a str, Fault> {
        let length = usize::try_from(self.number(short)?).unwrap_or(usize::MAX);
        let (chunk, left) = self.left.split_at_checked(length).ok_or_else(cut)?;
        self.left = left;
        std::str::from_utf8(chunk).map_err(|_| Fault::new("a CBOR text that is not UTF-8"))
    }

    fn at_break(&mut self) -> Result<bool, Fault> {
        let (first, left) = self.left.split_first().ok_or_else(cut)?;
        if *first == BREAK {
            self.left = left;
        }
        Ok(*first == BREAK)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (chunk, left) = self.left.split_first_chunk::<N>().ok_or_else(cut)?;
        self.left = left;
        Ok(*chunk)
    }
}

fn cut() -> Fault {
    Fault::new("a CBOR item that is cut off")
}

// Half precision: one sign bit, five of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let size = match (bits >> 10) & 0x1f {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2_f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use crate::codec::Value;

    #[test]
    fn the_examples_of_the_rfc_read_as_they_say() {
        let examples: [(&[u8], Value); 10] = [
            (&[0x18, 0x64], Value::Int(100)),
            (&[0x1b, 255, 255, 255, 255, 255, 255, 255, 255], Value::UInt(u64::MAX)),
            (&[0x39, 0x03, 0xe7], Value::Int(-1000)),
            (&[0xf9, 0x3e, 0x00], Value::Float(1.5)),
            (&[0xf9, 0x00, 0x01], Value::Float(5.960_464_477_539_063e-8)),
            (&[0xf9, 0xfc, 0x00], Value::Float(f64::NEG_INFINITY)),
            (&[0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a], Value::Float(1.1)),
            (
                &[0x7f, 0x65, b's', b't', b'r', b'e', b'a', 0x64, b'm', b'i', b'n', b'g', 0xff],
                "streaming".into(),
            ),
            (&[0x9f, 0x01, 0xf6, 0xff], Value::List(vec![Value::Int(1), Value::Nil])),
            (&[0xa1, 0x61, b'a', 0xf5], Value::Map(vec![("a".into(), Value::Bool(true))])),
        ];

        for (bytes, value) in examples {
            assert_eq!(decode(bytes), Ok(value), "{bytes:02x?}");
        }
    }

    #[test]
    fn what_a_session_cannot_hold_is_refused() {
        let refused: [&[u8]; 9] = [
            &[0x41, 0x00],
            &[0xc1, 0x00],
            &[0xa1, 0x01, 0x01],
            &[0x3b, 255, 255, 255, 255, 255, 255, 255, 255],
            &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255],
            &[0x7b, 255, 255, 255, 255, 255, 255, 255, 255],
            &[0xff],
            &[0x01, 0x01],
            &[0x81; 10_000],
        ];

        for bytes in refused {
            assert!(decode(bytes).is_err());
        }
    }
}

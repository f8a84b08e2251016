//! The encodings that the peer writes, or once wrote, besides MessagePack. Each becomes one object.

use super::msgpack::{put_f64, put_i64, put_nil, put_str, put_value};
use super::stored::Fault;
use super::{cbor, parsed};

/// `None` under the two pickle protocols that the peer has used. No other pickle is ever looked into:
/// loading one runs what its author wrote.
const PICKLED_NONE: [[u8; 4]; 2] = [[0x80, 4, b'N', b'.'], [0x80, 5, b'N', b'.']];

/// Returns the payload of an older encoding as one MessagePack object.
pub(super) fn transcode(encoding: u8, payload: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(payload.len() + 5);
    match encoding {
        0x01 if PICKLED_NONE.iter().any(|none| none == payload) => put_nil(&mut out),
        0x01 => return Err(Fault::new("a pickled value, which is never loaded")),
        0x02 => scalar(payload, &mut out)?,
        0x03 => {
            let read = serde_json::from_slice(payload)
                .map_err(|error| Fault::new(format!("JSON that cannot be read: {error}")))?;
            put_value(&mut out, &parsed::value_of(read));
        }
        0x05 => put_value(&mut out, &cbor::decode(payload)?),
        0x06 => {
            let text = std::str::from_utf8(payload)
                .map_err(|error| Fault::new(format!("text that is not UTF-8: {error}")))?;
            put_str(&mut out, text);
        }
        other => return Err(Fault::new(format!("the unknown encoding {other:#04x}"))),
    }
    Ok(out)
}

// Eight bytes without a type: an i64 or an f64. The peer guesses, and what it guesses is what the
// caller of the peer has always seen, so the rule is the same to the letter.
fn scalar(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let bytes = <[u8; 8]>::try_from(payload)
        .map_err(|_| Fault::new("a NumPy array, which a session does not hold"))?;
    let (float, integer) = (f64::from_le_bytes(bytes), i64::from_le_bytes(bytes));
    let has_fraction = float.is_finite() && float.fract().abs() > 1e-9;
    if !has_fraction && integer.unsigned_abs() < 1_000_000_000_000 {
        put_i64(out, integer);
    } else {
        put_f64(out, float);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::transcode;
    use crate::codec::Value;
    use crate::codec::msgpack::decode;

    fn read(encoding: u8, payload: &[u8]) -> Value {
        decode(&transcode(encoding, payload).unwrap()).unwrap()
    }

    fn refusal(encoding: u8, payload: &[u8]) -> String {
        transcode(encoding, payload).unwrap_err().to_string()
    }

    #[test]
    fn a_scalar_without_a_type_is_read_as_the_peer_guesses() {
        let float = |number: f64| read(0x02, &number.to_le_bytes());
        let integer = |number: i64| read(0x02, &number.to_le_bytes());

        assert_eq!(float(1.5), Value::Float(1.5));
        assert_eq!(float(0.0), Value::Int(0));
        assert_eq!(float(1e300), Value::Float(1e300));
        assert_eq!(integer(2), Value::Int(2));
        assert_eq!(integer(-7), Value::Int(-7));
        assert_eq!(integer(999_999_999_999), Value::Int(999_999_999_999));
        // From here on the peer has lost the number; what it reads is what stands there.
        let lost = f64::from_bits(1_000_000_000_000);
        assert_eq!(integer(1_000_000_000_000), Value::Float(lost));
    }

    #[test]
    fn only_the_two_pickles_of_none_are_read() {
        assert_eq!(read(0x01, b"\x80\x04N."), Value::Nil);
        assert_eq!(read(0x01, b"\x80\x05N."), Value::Nil);
        assert_eq!(refusal(0x01, b"\x80\x04]."), "a pickled value, which is never loaded");
        assert_eq!(refusal(0x01, b""), "a pickled value, which is never loaded");
    }

    #[test]
    fn an_array_and_an_unknown_encoding_are_named() {
        assert_eq!(
            refusal(0x02, &[1, 1, 2, 0, 0, 0, 7, 7, 7]),
            "a NumPy array, which a session does not hold"
        );
        assert_eq!(refusal(0x07, b""), "the unknown encoding 0x07");
    }

    #[test]
    fn json_and_text_keep_order_and_types() {
        let map = read(0x03, br#"{"b": [1, 1.0, null], "a": 18446744073709551615}"#);

        assert_eq!(map.get("b").and_then(Value::as_list).map(<[Value]>::len), Some(3));
        assert_eq!(map.as_map().map(|entries| entries[0].0.as_str()), Some("b"));
        assert_eq!(map.get("a"), Some(&Value::UInt(u64::MAX)));
        assert_eq!(read(0x06, "日本".as_bytes()), Value::from("日本"));
        assert!(refusal(0x06, &[0xff]).starts_with("text that is not UTF-8"));
        assert!(refusal(0x03, b"{} x").starts_with("JSON that cannot be read"));
    }
}

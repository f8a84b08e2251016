//! Writes MessagePack: each number in its smallest form, floats always as doubles.

use super::MAX_LEN;
use crate::codec::Value;

/// Writes nil.
#[inline]
pub fn put_nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Writes a truth value.
#[inline]
pub fn put_bool(out: &mut Vec<u8>, truth: bool) {
    out.push(if truth { 0xc3 } else { 0xc2 });
}

/// Writes a signed integer.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, number: i64) {
    if let Ok(positive) = u64::try_from(number) {
        put_u64(out, positive);
    } else if number >= -32 {
        out.push(low_byte(number));
    } else if let Ok(small) = i8::try_from(number) {
        put_marked(out, 0xd0, small.to_be_bytes());
    } else if let Ok(short) = i16::try_from(number) {
        put_marked(out, 0xd1, short.to_be_bytes());
    } else if let Ok(middle) = i32::try_from(number) {
        put_marked(out, 0xd2, middle.to_be_bytes());
    } else {
        put_marked(out, 0xd3, number.to_be_bytes());
    }
}

/// Writes an unsigned integer.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    if let Ok(small) = u8::try_from(number) {
        if small < 0x80 {
            out.push(small);
        } else {
            put_marked(out, 0xcc, [small]);
        }
    } else if let Ok(short) = u16::try_from(number) {
        put_marked(out, 0xcd, short.to_be_bytes());
    } else if let Ok(middle) = u32::try_from(number) {
        put_marked(out, 0xce, middle.to_be_bytes());
    } else {
        put_marked(out, 0xcf, number.to_be_bytes());
    }
}

/// Writes a double, bit for bit.
#[inline]
pub fn put_f64(out: &mut Vec<u8>, number: f64) {
    put_marked(out, 0xcb, number.to_be_bytes());
}

/// Writes a string of at most [`MAX_LEN`] bytes; the caller refuses a longer one first.
#[inline]
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    let length = stated(text.len());
    if let Ok(small) = u8::try_from(length) {
        if small < 32 {
            out.push(0xa0 | small);
        } else {
            put_marked(out, 0xd9, [small]);
        }
    } else if let Ok(short) = u16::try_from(length) {
        put_marked(out, 0xda, short.to_be_bytes());
    } else {
        put_marked(out, 0xdb, length.to_be_bytes());
    }
    out.extend_from_slice(text.as_bytes());
}

/// Opens a list: exactly `count` objects must follow. At most [`MAX_LEN`].
#[inline]
pub fn put_list_header(out: &mut Vec<u8>, count: usize) {
    put_count(out, stated(count), [0x90, 0xdc, 0xdd]);
}

/// Opens a map: exactly `count` pairs of a string and an object must follow. At most [`MAX_LEN`].
#[inline]
pub fn put_map_header(out: &mut Vec<u8>, count: usize) {
    put_count(out, stated(count), [0x80, 0xde, 0xdf]);
}

/// Writes a whole value.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Nil => put_nil(out),
        Value::Bool(truth) => put_bool(out, *truth),
        Value::Int(number) => put_i64(out, *number),
        Value::UInt(number) => put_u64(out, *number),
        Value::Float(number) => put_f64(out, *number),
        Value::Str(text) => put_str(out, text),
        Value::List(items) => {
            put_list_header(out, items.len());
            for item in items {
                put_value(out, item);
            }
        }
        Value::Map(entries) => {
            put_map_header(out, entries.len());
            for (key, entry) in entries {
                put_str(out, key);
                put_value(out, entry);
            }
        }
    }
}

#[inline]
fn put_marked<const N: usize>(out: &mut Vec<u8>, marker: u8, bytes: [u8; N]) {
    out.push(marker);
    out.extend_from_slice(&bytes);
}

#[inline]
fn put_count(out: &mut Vec<u8>, count: u32, [fixed, short, long]: [u8; 3]) {
    match (u8::try_from(count), u16::try_from(count)) {
        (Ok(small), _) if small < 16 => out.push(fixed | small),
        (_, Ok(middle)) => put_marked(out, short, middle.to_be_bytes()),
        _ => put_marked(out, long, count.to_be_bytes()),
    }
}

// A count that the format cannot state is written as the largest one: the bytes that follow then
// contradict it and every reader refuses them, where a wrapped count would read as something else.
#[inline]
fn stated(count: usize) -> u32 {
    u32::try_from(count.min(MAX_LEN)).unwrap_or(u32::MAX)
}

#[inline]
fn low_byte(number: i64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}

#[cfg(test)]
mod tests {
    use super::{put_f64, put_i64, put_list_header, put_map_header, put_str, put_u64};

    fn written(put: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    #[test]
    fn an_integer_takes_its_smallest_form() {
        let edges: [(i64, &[u8]); 12] = [
            (0, &[0x00]),
            (127, &[0x7f]),
            (128, &[0xcc, 0x80]),
            (256, &[0xcd, 1, 0]),
            (65_536, &[0xce, 0, 1, 0, 0]),
            (1 << 40, &[0xcf, 0, 0, 1, 0, 0, 0, 0, 0]),
            (-1, &[0xff]),
            (-32, &[0xe0]),
            (-33, &[0xd0, 0xdf]),
            (-129, &[0xd1, 0xff, 0x7f]),
            (-32_769, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (i64::MIN, &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ];

        for (number, bytes) in edges {
            assert_eq!(written(|out| put_i64(out, number)), bytes, "{number}");
        }
        assert_eq!(written(|out| put_u64(out, u64::MAX)), [0xcf, 255, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn a_float_is_always_a_double() {
        let bytes = written(|out| put_f64(out, 2.5));

        assert_eq!(bytes, [0xcb, 0x40, 0x04, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_count_takes_its_smallest_form() {
        let text = "x".repeat(70_000);
        let cut = |count: usize| text.get(..count).unwrap();

        assert_eq!(written(|out| put_str(out, cut(31)))[..1], [0xbf]);
        assert_eq!(written(|out| put_str(out, cut(32)))[..2], [0xd9, 32]);
        assert_eq!(written(|out| put_str(out, cut(256)))[..3], [0xda, 1, 0]);
        assert_eq!(written(|out| put_str(out, &text))[..5], [0xdb, 0, 1, 0x11, 0x70]);
        assert_eq!(written(|out| put_list_header(out, 15)), [0x9f]);
        assert_eq!(written(|out| put_list_header(out, 16)), [0xdc, 0, 16]);
        assert_eq!(written(|out| put_map_header(out, 15)), [0x8f]);
        assert_eq!(written(|out| put_map_header(out, 65_536)), [0xdf, 0, 1, 0, 0]);
    }
}

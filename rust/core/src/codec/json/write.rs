//! Writing values, with the separators and escapes of Python's `json.dumps(ensure_ascii=False)`.

use super::Json;

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(super) fn compact(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                compact(item, out);
            }
            out.push(b']');
        }
        Json::Map(pairs) => {
            out.push(b'{');
            for (index, (key, item)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                text(key, out);
                out.extend_from_slice(b": ");
                compact(item, out);
            }
            out.push(b'}');
        }
        leaf => scalar(leaf, out),
    }
}

pub(super) fn indented(value: &Json, level: usize, out: &mut Vec<u8>) {
    match value {
        Json::List(items) if !items.is_empty() => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                next_line(index, level + 1, out);
                indented(item, level + 1, out);
            }
            last_line(level, out);
            out.push(b']');
        }
        Json::Map(pairs) if !pairs.is_empty() => {
            out.push(b'{');
            for (index, (key, item)) in pairs.iter().enumerate() {
                next_line(index, level + 1, out);
                text(key, out);
                out.extend_from_slice(b": ");
                indented(item, level + 1, out);
            }
            last_line(level, out);
            out.push(b'}');
        }
        leaf => compact(leaf, out),
    }
}

fn next_line(index: usize, level: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    last_line(level, out);
}

fn last_line(level: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * level, b' ');
}

fn scalar(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(spelling) | Json::Odd(spelling) => out.extend_from_slice(spelling.as_bytes()),
        Json::Text(value) => text(value, out),
        Json::List(_) | Json::Map(_) => {}
    }
}

pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(bytes.get(plain..at).unwrap_or_default());
        plain = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(bytes.get(plain..).unwrap_or_default());
    out.push(b'"');
}

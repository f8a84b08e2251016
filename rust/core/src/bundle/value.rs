//! Stored values of a bundle's tables: sealed on the way in, opened and checked on the way out.

use std::borrow::Cow;
use std::path::Path;

use crate::codec::{self, Stored, Value, msgpack};
use crate::db::schema::Table;
use crate::error::{Error, Result};

/// A value on its way into a table.
#[derive(Debug, Clone)]
pub enum Payload {
    /// One `MessagePack` object.
    Object(Vec<u8>),
    /// Bytes, stored as they are.
    Bytes(Vec<u8>),
}

impl Payload {
    /// A payload of a value built here.
    pub fn of(value: &Value) -> Self {
        let mut body = Vec::new();
        msgpack::put_value(&mut body, value);
        Self::Object(body)
    }

    /// A payload that holds an integer.
    pub fn integer(number: i64) -> Self {
        let mut body = Vec::new();
        msgpack::put_i64(&mut body, number);
        Self::Object(body)
    }

    /// The bytes that the table stores.
    pub fn seal(&self, table: Table, key: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Object(body) => Cow::Owned(codec::seal(table.name(), key, body)),
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
        }
    }
}

/// A key as a person reads it.
pub fn key_text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Opens a stored value, or says which row is damaged.
pub fn open<'a>(path: &Path, table: Table, key: &[u8], stored: &'a [u8]) -> Result<Stored<'a>> {
    codec::open(table.name(), key, stored).map_err(|fault| Error::Damaged {
        path: path.to_owned(),
        at: format!("{}[{}]", table.name(), key_text(key)),
        what: fault.to_string(),
    })
}

/// Opens a stored value as an owned payload.
pub fn open_payload(path: &Path, table: Table, key: &[u8], stored: &[u8]) -> Result<Payload> {
    Ok(match open(path, table, key, stored)? {
        Stored::Object(body) => Payload::Object(body.into_owned()),
        Stored::Bytes(bytes) => Payload::Bytes(bytes.to_vec()),
    })
}

/// Opens a stored value in its own memory.
pub fn open_owned(path: &Path, table: Table, key: &[u8], stored: Vec<u8>) -> Result<Payload> {
    let (start, length) = match open(path, table, key, &stored)? {
        Stored::Object(Cow::Borrowed(body)) => (body.as_ptr().addr() - stored.as_ptr().addr(), body.len()),
        Stored::Object(Cow::Owned(body)) => return Ok(Payload::Object(body)),
        Stored::Bytes(_) => return Ok(Payload::Bytes(stored)),
    };
    Ok(Payload::Object(narrowed(stored, start, length)))
}

/// The object of a stored value that is known to have the very bytes that were sealed here; `Err` holds any
/// other value.
pub fn unsealed(stored: Vec<u8>) -> std::result::Result<Vec<u8>, Vec<u8>> {
    match codec::unsealed(&stored).map(|body| (body.as_ptr().addr() - stored.as_ptr().addr(), body.len())) {
        Some((start, length)) => Ok(narrowed(stored, start, length)),
        None => Err(stored),
    }
}

fn narrowed(mut bytes: Vec<u8>, start: usize, length: usize) -> Vec<u8> {
    bytes.truncate(start + length);
    bytes.drain(..start);
    bytes
}

/// Opens a stored value and decodes it; bytes are taken as text, as old files keep some.
pub fn open_value(path: &Path, table: Table, key: &[u8], stored: &[u8]) -> Result<Value> {
    match open(path, table, key, stored)? {
        Stored::Object(body) => msgpack::decode(&body).map_err(|fault| Error::Damaged {
            path: path.to_owned(),
            at: format!("{}[{}]", table.name(), key_text(key)),
            what: fault.to_string(),
        }),
        Stored::Bytes(bytes) => Ok(Value::Str(key_text(bytes))),
    }
}

/// One integer field of a stored map, without decoding the rest; `None` where it is anything else.
pub fn field_i64(table: Table, key: &[u8], stored: &[u8], field: &str) -> Option<i64> {
    match codec::open(table.name(), key, stored) {
        Ok(Stored::Object(body)) => msgpack::field(&body, field).and_then(msgpack::as_i64),
        _ => None,
    }
}

/// A stored integer.
pub fn event_number(table: Table, key: &[u8], stored: &[u8]) -> Option<i64> {
    match codec::open(table.name(), key, stored) {
        Ok(Stored::Object(body)) => msgpack::as_i64(&body),
        _ => None,
    }
}

/// How many items a list has and where the first one starts; `None` when it is no list.
pub fn list_header(body: &[u8]) -> Option<(usize, usize)> {
    let mut reader = msgpack::Reader::new(body);
    match reader.token() {
        Ok(msgpack::Token::List(count)) => Some((count, reader.position())),
        _ => None,
    }
}

//! Where a page ended, as a text that a caller hands back: it goes on from the last row that was
//! shown, whatever came or went before it meanwhile.

use std::fmt::Write;

use rusqlite::types::Value as Sql;

use super::list::{Query, Sort};
use crate::codec::Value;
use crate::codec::msgpack;
use crate::error::{Error, Result};

/// A place in a listing.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// Behind the row with this key and this file.
    After(Sql, String),
    /// Behind so many rows, where an order has no key.
    Offset(u64),
}

/// A parsed cursor.
#[derive(Debug)]
pub struct Cursor {
    /// Where to go on.
    pub place: Place,
}

impl Cursor {
    /// The text of a place in the order of a query.
    pub fn text(query: &Query, place: &Place) -> String {
        let mut fields = vec![Value::Int(order(query))];
        match place {
            Place::Offset(at) => fields.push(Value::from(*at)),
            Place::After(key, file) => {
                fields.push(match key {
                    Sql::Integer(number) => Value::Int(*number),
                    Sql::Text(text) => Value::Str(text.clone()),
                    _ => Value::Nil,
                });
                fields.push(Value::Str(file.clone()));
            }
        }
        let mut body = Vec::new();
        msgpack::put_value(&mut body, &Value::List(fields));
        body.iter().fold(String::with_capacity(body.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            write!(text, "{byte:02x}").unwrap_or_default();
            text
        })
    }

    /// Reads a cursor; [`Error::Invalid`] for any text that is not one of a listing in this order.
    pub fn parse(text: &str, query: &Query) -> Result<Self> {
        let wrong = || Error::invalid("cursor: it does not come from a page of this listing");
        let value = unhex(text).and_then(|body| msgpack::decode(&body).ok()).ok_or_else(wrong)?;
        let fields = value.as_list().unwrap_or_default();
        if fields.first() != Some(&Value::Int(order(query))) {
            return Err(wrong());
        }
        let is_text = matches!(query.sort, Sort::Name | Sort::Status);
        let place = match &fields[1..] {
            [Value::Int(at)] => Place::Offset(u64::try_from(*at).map_err(|_| wrong())?),
            [Value::Int(key), Value::Str(file)] if !is_text => Place::After(Sql::Integer(*key), file.clone()),
            [Value::Str(key), Value::Str(file)] if is_text => {
                Place::After(Sql::Text(key.clone()), file.clone())
            }
            _ => return Err(wrong()),
        };
        Ok(Self { place })
    }
}

fn order(query: &Query) -> i64 {
    let sort = match query.sort {
        Sort::LastActive => 0,
        Sort::CreatedAt => 1,
        Sort::Name => 2,
        Sort::Status => 3,
        Sort::Relevance => 4,
    };
    sort * 2 + i64::from(query.ascending)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let by_name = Query { sort: Sort::Name, ..Query::default() };
        let by_time = Query::default();
        let place = Place::After(Sql::Text("é".into()), "é.kohakutr".into());
        let newest = Place::After(Sql::Integer(i64::MIN), "x.kt".into());

        let named = Cursor::parse(&Cursor::text(&by_name, &place), &by_name).unwrap();
        let timed = Cursor::parse(&Cursor::text(&by_time, &newest), &by_time).unwrap();

        assert_eq!((named.place, timed.place), (place, newest));
    }

    #[test]
    fn any_other_text_is_refused() {
        let query = Query::default();
        let of_another_order =
            Cursor::text(&Query { ascending: true, ..Query::default() }, &Place::Offset(3));

        for text in ["", "0", "zz", "93", "c0", "00", "éé", of_another_order.as_str()] {
            assert!(Cursor::parse(text, &query).is_err(), "{text}");
        }
    }
}

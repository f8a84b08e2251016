//! The record format: a row's columns in its payload.

use super::PageFault;

/// The most columns that SQLite can be built for.
const MOST_COLUMNS: usize = 32_767;

/// One stored value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column<'a> {
    /// `NULL`.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// Text, which SQLite does not check to be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Reads a variable-length integer at `at` and moves past it.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for _ in 0..8 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some(value);
        }
    }
    let byte = *bytes.get(*at)?;
    *at += 1;
    Some(value << 8 | u64::from(byte))
}

/// Returns all columns of a record.
pub(super) fn columns(payload: &[u8]) -> Result<Vec<Column<'_>>, PageFault> {
    let mut cursor = Cursor::new(payload)?;
    // Each type takes a byte or more.
    let mut found = Vec::with_capacity((cursor.types_end - cursor.types).min(16));
    while let Some(column) = cursor.next_column()? {
        found.push(column);
        if found.len() > MOST_COLUMNS {
            return Err(damaged());
        }
    }
    if cursor.body != payload.len() {
        return Err(damaged());
    }
    Ok(found)
}

/// Returns the first column of a record.
pub(super) fn first(payload: &[u8]) -> Result<Column<'_>, PageFault> {
    Cursor::new(payload)?.next_column()?.ok_or_else(damaged)
}

/// Returns the last column of an index entry: the rowid that it leads to.
pub(super) fn last_int(payload: &[u8]) -> Result<i64, PageFault> {
    match columns(payload)?.last() {
        Some(Column::Int(rowid)) => Ok(*rowid),
        _ => Err(damaged()),
    }
}

struct Cursor<'a> {
    payload: &'a [u8],
    /// The next serial type, and where the types end.
    types: usize,
    types_end: usize,
    /// The next value.
    body: usize,
}

impl<'a> Cursor<'a> {
    fn new(payload: &'a [u8]) -> Result<Self, PageFault> {
        let mut types = 0;
        let types_end = varint(payload, &mut types)
            .and_then(|length| usize::try_from(length).ok())
            .filter(|&end| end >= types && end <= payload.len())
            .ok_or_else(damaged)?;
        Ok(Self { payload, types, types_end, body: types_end })
    }

    fn next_column(&mut self) -> Result<Option<Column<'a>>, PageFault> {
        if self.types == self.types_end {
            return Ok(None);
        }
        self.decode().map(Some).ok_or_else(damaged)
    }

    fn decode(&mut self) -> Option<Column<'a>> {
        let serial = varint(self.payload.get(..self.types_end)?, &mut self.types)?;
        let column = match serial {
            0 => Column::Null,
            1 => Column::Int(self.int(1)?),
            2 => Column::Int(self.int(2)?),
            3 => Column::Int(self.int(3)?),
            4 => Column::Int(self.int(4)?),
            5 => Column::Int(self.int(6)?),
            6 => Column::Int(self.int(8)?),
            7 => {
                let value = f64::from_bits(self.int(8)?.cast_unsigned());
                // SQLite has no NaN: it reads one as nothing.
                if value.is_nan() { Column::Null } else { Column::Real(value) }
            }
            8 => Column::Int(0),
            9 => Column::Int(1),
            10 | 11 => return None,
            _ => {
                let length = usize::try_from((serial - 12) / 2).ok()?;
                let bytes = self.take(length)?;
                if serial % 2 == 0 { Column::Blob(bytes) } else { Column::Text(bytes) }
            }
        };
        Some(column)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.body.checked_add(length)?;
        let bytes = self.payload.get(self.body..end)?;
        self.body = end;
        Some(bytes)
    }

    /// Reads a big-endian number of two's complement.
    fn int(&mut self, length: usize) -> Option<i64> {
        let bytes = self.take(length)?;
        let negative = bytes.first().is_some_and(|&byte| byte >= 0x80);
        let start = if negative { -1_i64 } else { 0 };
        Some(bytes.iter().fold(start, |value, &byte| value << 8 | i64::from(byte)))
    }
}

fn damaged() -> PageFault {
    PageFault::corrupt("a record that does not fit its payload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_takes_up_to_nine_bytes() {
        for (bytes, value) in
            [(&[0x7f][..], 0x7f), (&[0x81, 0x00], 0x80), (&[0xff; 9], u64::MAX), (&[0x80, 0x80, 0x01], 1)]
        {
            let mut at = 0;
            assert_eq!(varint(bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
        }
        assert_eq!(varint(&[0x80], &mut 0), None);
    }

    #[test]
    fn numbers_keep_their_sign() {
        let payload = [5, 1, 3, 6, 9, 0xff, 0x80, 0, 1, 0x7f, 0, 0, 0, 0, 0, 0, 1];

        let found = columns(&payload);

        assert_eq!(
            found.ok().as_deref(),
            Some(
                &[
                    Column::Int(-1),
                    Column::Int(-0x7f_ffff),
                    Column::Int(0x7f00_0000_0000_0001),
                    Column::Int(1)
                ][..]
            )
        );
    }

    #[test]
    fn a_record_with_bytes_left_over_or_missing_is_damaged() {
        assert!(columns(&[2, 1, 5]).is_ok());
        for payload in [&[2, 1][..], &[2, 1, 5, 6], &[3, 1, 5], &[2, 10], &[], &[0], &[0x80]] {
            assert!(columns(payload).is_err(), "{payload:?}");
        }
    }
}

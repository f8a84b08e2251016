//! One session as a row: the peer's columns, and the document without line ends in one of them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::chat::document::Document;
use crate::codec::json::Json;

const GET: &str = "SELECT data FROM sessions WHERE session_id = ?1";
const EXISTS: &str = "SELECT 1 FROM sessions WHERE session_id = ?1";
const DELETE: &str = "DELETE FROM sessions WHERE session_id = ?1";
const PUT: &str = "INSERT INTO sessions (session_id, data, agent_name, gateway_session_id, agent_id, \
                   updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(session_id) DO UPDATE SET \
                   data = excluded.data, agent_name = excluded.agent_name, \
                   gateway_session_id = excluded.gateway_session_id, agent_id = excluded.agent_id, \
                   updated_at = excluded.updated_at";

/// Returns the text of a session.
pub(super) fn get(connection: &Connection, id: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached(GET)?.query_row([id], |row| bytes(row, 0)).optional()
}

pub(super) fn exists(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached(EXISTS)?.exists([id])
}

pub(super) fn delete(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(DELETE)?.execute([id])? > 0)
}

/// Writes a session, with the columns by which it is found.
pub(super) fn put(connection: &Connection, id: &str, document: &Document) -> rusqlite::Result<()> {
    let text = |key: &str| document.get(key).and_then(Json::as_str);
    let data = String::from_utf8_lossy(&one_line(&document.to_bytes())).into_owned();
    connection.prepare_cached(PUT)?.execute(params![
        id,
        data,
        text("agent_name"),
        text("gateway_session_id"),
        text("agent_id"),
        text("updated_at"),
    ])?;
    Ok(())
}

/// Reads a document of a row, or says what is wrong with it.
pub(super) fn parse(stored: &[u8]) -> Result<Document, String> {
    Document::parse(stored).map_err(|fault| format!("{} at offset {}", fault.what, fault.offset))
}

/// Returns the bytes of a column, whatever another writer has put there.
pub(super) fn bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Vec::new(),
    })
}

/// Takes the line ends out of an indented document. Within texts there are none: they are escaped.
fn one_line(indented: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(indented.len());
    for line in indented.split(|&byte| byte == b'\n') {
        out.extend_from_slice(line.trim_ascii_start());
        if line.ends_with(b",") {
            out.push(b' ');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_in_the_form_of_python() {
        let text = r#"{"session_id": "s", "messages": [{"role": "user", "content": "a,\n  b", "metadata": {}}, {"role": "x"}], "metadata": {"k": [1, "é"]}}"#;
        let document = Document::parse(text.as_bytes()).unwrap();

        let line = one_line(&document.to_bytes());

        assert_eq!(String::from_utf8(line).unwrap(), text);
    }
}

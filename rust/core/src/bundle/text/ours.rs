//! The index that our searches use: plain tokens, and a row for each that says where they come from.

use rusqlite::Connection;

use super::Source;
use super::content::Content;
use crate::db::schema::{Group, Table};
use crate::model::{MESSAGE_MARK, parse_numbered};
use crate::recall::words::{Words, analyse};

const BLOCK: &str = "INSERT INTO amber_block (source, agent, type, event_id) VALUES (?1, ?2, ?3, ?4)";
const TOKENS: &str = "INSERT INTO amber_text (rowid, body, whole) VALUES (?1, ?2, ?3)";
/// The type of every message of a channel.
pub(super) const CHANNEL: &str = "channel";

/// Adds rows to the index.
pub(super) fn index<'a>(
    connection: &Connection,
    table: Table,
    rows: impl Iterator<Item = &'a Source>,
) -> rusqlite::Result<()> {
    let mut block = connection.prepare_cached(BLOCK)?;
    let mut tokens = connection.prepare_cached(TOKENS)?;
    let mut words = Words::default();
    for row in rows {
        let Some(content) = Content::of(table, &row.key, &row.stored) else { continue };
        let mark = if table == Table::Channels { MESSAGE_MARK } else { ":e" };
        let Some((owner, _)) = parse_numbered(&row.key, mark) else { continue };
        words.clear();
        analyse(&content.text(), &mut words);
        if words.is_empty() {
            continue;
        }
        let kind = if table == Table::Channels { CHANNEL } else { content.string("type") };
        let source = String::from_utf8_lossy(&row.key);
        block.execute((source.as_ref(), owner, kind, content.event_id()))?;
        tokens.execute((connection.last_insert_rowid(), &words.body, &words.whole))?;
    }
    Ok(())
}

/// Removes the index.
pub(super) fn drop_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS amber_text; DROP TABLE IF EXISTS amber_block;")
}

/// Makes an empty index in a database of its own.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(Group::Text.ddl())
}

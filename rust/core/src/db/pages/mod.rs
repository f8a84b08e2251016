//! A read-only reader of SQLite's page format, for bundles that nobody has open: a tenth of the
//! price of an open by SQLite, and it leaves no file behind.
//!
//! It knows what bundles are made of (UTF-8, ordinary tables) and gives up on everything else, so
//! that the caller asks SQLite instead. What it returned counts only once [`Pages::finish`] has
//! said that the file stood still meanwhile.

mod ddl;
mod header;
mod node;
mod record;
mod schema;
mod source;
mod still;
mod tree;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

pub use record::Column;
pub use still::{Names, Still};

use ddl::Layout;
use schema::{Schema, Table};
use source::Source;
use tree::Walk;

/// Why the reader gave up. Whatever it is, SQLite may still be able to read the file.
#[derive(Debug, thiserror::Error)]
pub enum PageFault {
    /// The file could not be opened or read.
    #[error("cannot read: {0}")]
    Io(#[from] std::io::Error),
    /// The file was written to, replaced or opened for writing while it was read, or so shortly
    /// before that a change could not be told.
    #[error("the file changed while it was read")]
    Changed,
    /// The file is not at rest, or holds something that this reader does not know.
    #[error("not supported by the page reader: {0}")]
    Unsupported(String),
    /// The bytes contradict the format.
    #[error("damaged: {0}")]
    Corrupt(String),
}

impl PageFault {
    fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }

    fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }
}

/// A bundle at rest, opened for reading page by page.
///
/// A table that does not exist has no rows, since bundles make tables on first use: ask
/// [`Pages::has_table`] to tell an empty table from a stranger's file.
#[derive(Debug)]
pub struct Pages {
    source: Source,
    schema: Schema,
}

impl Pages {
    /// Opens the file and reads its schema: a handful of system calls and page reads.
    ///
    /// Refuses a file that is not at rest: one with a `-journal`, with a `-wal` that is not empty,
    /// or changed within the present tick of the clock.
    ///
    /// The caller must know that no SQLite connection of this process has the file open, and keep
    /// it so until the value is dropped: POSIX drops all locks of a process on a file when *any* of
    /// its descriptors is closed, so that the drop would unlock that connection.
    pub fn open(path: &Path) -> Result<Self, PageFault> {
        Self::of(Source::open(path, false)?)
    }

    /// The same, of a file beside which neither a log nor a journal was seen a moment ago: whether
    /// there is one is asked in [`Pages::finish`] only, where it counts.
    pub fn open_quiet(path: &Path) -> Result<Self, PageFault> {
        Self::of(Source::open(path, true)?)
    }

    /// The same, of a file in a directory that stands still and in which it is at rest: as long as
    /// that holds, nothing is asked by name. The caller has registered its inode `id`.
    pub fn open_within(still: &Arc<Still>, path: &Path, id: (u64, u64)) -> Result<Self, PageFault> {
        Self::of(Source::within(still, path, id)?)
    }

    /// The same as [`Pages::open`], of a file that may have been changed within the present tick of the clock: whoever
    /// writes it in that tick may do so between this and [`Pages::finish`], unseen.
    pub fn glance(path: &Path) -> Result<Self, PageFault> {
        Self::of(Source::glance(path, false)?)
    }

    fn of(source: Source) -> Result<Self, PageFault> {
        let schema = Schema::read(&source)?;
        Ok(Self { source, schema })
    }

    /// Returns the device and inode that are being read.
    pub fn file_id(&self) -> (u64, u64) {
        self.source.file_id()
    }

    /// Returns `PRAGMA user_version`.
    pub fn user_version(&self) -> u32 {
        self.source.header().user_version
    }

    /// Returns `PRAGMA application_id`.
    pub fn application_id(&self) -> u32 {
        self.source.header().application_id
    }

    /// Returns the names of all tables that hold rows of their own, in the order of the schema;
    /// views and virtual tables have none.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.schema.tables().filter(|table| table.has_rows()).map(|table| table.name.as_str())
    }

    /// Whether there is such a table, upper and lower case being the same.
    pub fn has_table(&self, table: &str) -> bool {
        self.schema.table(table).is_some_and(Table::has_rows)
    }

    /// Shows every row of a table to `visit`, in the order of the b-tree, until it breaks.
    ///
    /// The first argument is the rowid, 0 in a table `WITHOUT ROWID`; the columns are those of the
    /// `CREATE TABLE`, in its order.
    pub fn scan(
        &self,
        table: &str,
        visit: impl FnMut(i64, &[Column<'_>]) -> ControlFlow<()>,
    ) -> Result<(), PageFault> {
        self.scan_from(table, None, visit)
    }

    /// Shows the rows whose rowid is greater than `rowid`, ascending: the cost is that of the rows
    /// shown, not of those before them.
    pub fn scan_after(
        &self,
        table: &str,
        rowid: i64,
        visit: impl FnMut(i64, &[Column<'_>]) -> ControlFlow<()>,
    ) -> Result<(), PageFault> {
        let Some(start) = rowid.checked_add(1) else { return Ok(()) };
        self.scan_from(table, Some(start), visit)
    }

    /// Shows the rows from the greatest rowid downwards until `visit` breaks.
    pub fn scan_back(
        &self,
        table: &str,
        mut visit: impl FnMut(i64, &[Column<'_>]) -> ControlFlow<()>,
    ) -> Result<(), PageFault> {
        let Some((table, layout)) = self.find_by_rowid(table)? else { return Ok(()) };
        let mut payload = Vec::new();
        Walk::tables(&self.source).backward(table.root, &mut |walk, node, cell| {
            let bytes = walk.payload(node, cell, &mut payload)?;
            Ok(visit(cell.rowid, &layout.row(cell.rowid, bytes)?))
        })
    }

    /// Returns the greatest rowid of a table, `None` when it is empty.
    pub fn newest(&self, table: &str) -> Result<Option<i64>, PageFault> {
        let Some((table, _)) = self.find_by_rowid(table)? else { return Ok(None) };
        let mut newest = None;
        Walk::tables(&self.source).backward(table.root, &mut |_, _, cell| {
            newest = Some(cell.rowid);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(newest)
    }

    /// Returns the value of a blob key in a table of `key` and `value`: a few page reads through
    /// the index of its primary key, a scan where there is none.
    pub fn get_kv(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        let Some((table, layout)) = self.find(table)? else { return Ok(None) };
        if !layout.is_key_value() {
            return Err(PageFault::unsupported(format!(
                "`{}` is not a table of keys and values",
                table.name
            )));
        }
        match (layout.without_rowid, table.key_index) {
            _ if !layout.plain_key => self.search_kv(table, key),
            (true, _) => {
                let Some(payload) = Walk::indexes(&self.source).find(table.root, key)? else {
                    return Ok(None);
                };
                value_of(&layout.row(0, &payload)?, key).map(Some)
            }
            (false, Some(index)) => {
                let Some(entry) = Walk::indexes(&self.source).find(index, key)? else { return Ok(None) };
                let rowid = record::last_int(&entry)?;
                let mut payload = Vec::new();
                let found = Walk::tables(&self.source).seek(table.root, rowid, &mut payload)?;
                let bytes = found.ok_or_else(|| PageFault::corrupt("an index entry without its row"))?;
                value_of(&layout.row(rowid, bytes)?, key).map(Some)
            }
            (false, None) => self.search_kv(table, key),
        }
    }

    /// Returns the first blob key of a table of `key` and `value` that is not less than `key`: a few
    /// page reads through the index of its primary key, refused where there is none.
    pub fn key_from(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        let Some((table, layout)) = self.find(table)? else { return Ok(None) };
        let root = match (layout.without_rowid, table.key_index) {
            _ if !layout.is_key_value() || !layout.plain_key => None,
            (true, _) => Some(table.root),
            (false, index) => index,
        };
        let root =
            root.ok_or_else(|| PageFault::unsupported(format!("`{}` has no index of its keys", table.name)))?;
        Walk::indexes(&self.source).first_from(root, key)
    }

    /// Looks at the file again and tells whether everything read since [`Pages::open`] is one
    /// state of it. Without an `Ok` from here, what was read must be thrown away.
    pub fn finish(self) -> Result<(), PageFault> {
        self.source.finish()
    }

    fn scan_from(
        &self,
        table: &str,
        start: Option<i64>,
        mut visit: impl FnMut(i64, &[Column<'_>]) -> ControlFlow<()>,
    ) -> Result<(), PageFault> {
        let found = if start.is_some() { self.find_by_rowid(table)? } else { self.find(table)? };
        let Some((table, layout)) = found else { return Ok(()) };
        let mut walk =
            if layout.without_rowid { Walk::indexes(&self.source) } else { Walk::tables(&self.source) };
        let mut payload = Vec::new();
        walk.forward(table.root, start, &mut |walk, node, cell| {
            let bytes = walk.payload(node, cell, &mut payload)?;
            Ok(visit(cell.rowid, &layout.row(cell.rowid, bytes)?))
        })
    }

    fn search_kv(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        let mut value = None;
        self.scan(&table.name, |_, columns| {
            if columns.first() == Some(&Column::Blob(key)) {
                value = Some(value_of(columns, key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        value.transpose()
    }

    fn find(&self, name: &str) -> Result<Option<(&Table, &Layout)>, PageFault> {
        match self.schema.table(name) {
            None => Ok(None),
            Some(table) => Ok(Some((table, table.layout()?))),
        }
    }

    fn find_by_rowid(&self, name: &str) -> Result<Option<(&Table, &Layout)>, PageFault> {
        match self.find(name)? {
            Some((table, layout)) if layout.without_rowid => {
                Err(PageFault::unsupported(format!("`{}` has no rowids", table.name)))
            }
            found => Ok(found),
        }
    }
}

fn value_of(columns: &[Column<'_>], key: &[u8]) -> Result<Vec<u8>, PageFault> {
    match columns {
        [Column::Blob(found), Column::Blob(value), ..] if *found == key => Ok(value.to_vec()),
        [Column::Blob(found), ..] if *found == key => {
            Err(PageFault::unsupported("a value that is not a blob"))
        }
        _ => Err(PageFault::corrupt("an index entry that leads to another key")),
    }
}

//! The tables of a file, from the b-tree at its first page.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use super::PageFault;
use super::ddl::Layout;
use super::record::{Column, columns};
use super::source::Source;
use super::tree::Walk;

/// The page that the schema always begins at.
const ROOT: u32 = 1;

/// So many schemas are kept: those of the programs and versions that wrote a directory's files.
const KEPT: usize = 4;
/// The longest schema that is read; one of a bundle has some 3 KiB.
const LONGEST: usize = 1 << 20;
/// The longest schema that is kept.
const LONGEST_KEPT: usize = 64 << 10;

/// All tables.
#[derive(Debug)]
pub(super) struct Schema {
    tables: Arc<Vec<Table>>,
}

thread_local! {
    /// The schemas that were read last, by the rows that say them: most files of a directory have
    /// the same, to the byte.
    static READ: RefCell<VecDeque<(Rows, Arc<Vec<Table>>)>> = const { RefCell::new(VecDeque::new()) };
}

/// The rows of a schema: their bytes, one behind the other, and where each one ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    fn read(source: &Source) -> Result<Self, PageFault> {
        let mut rows = Self::default();
        let mut payload = Vec::new();
        Walk::tables(source).forward(ROOT, None, &mut |walk, node, cell| {
            rows.bytes.extend_from_slice(walk.payload(node, cell, &mut payload)?);
            rows.ends.push(rows.bytes.len());
            if rows.bytes.len() > LONGEST {
                return Err(PageFault::unsupported("a schema that is no bundle's"));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }
}

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    pub name: String,
    /// The first page of its b-tree; 0 for a view or a virtual table.
    pub root: u32,
    /// The first page of the index that its first constraint brought.
    pub key_index: Option<u32>,
    sql: String,
    layout: OnceLock<Layout>,
}

impl Schema {
    pub fn read(source: &Source) -> Result<Self, PageFault> {
        let rows = Rows::read(source)?;
        let known = READ.with_borrow(|kept| {
            kept.iter().find(|(known, _)| *known == rows).map(|(_, tables)| Arc::clone(tables))
        });
        if let Some(tables) = known {
            return Ok(Self { tables });
        }
        let tables = Arc::new(tables_of(&rows)?);
        if rows.bytes.len() <= LONGEST_KEPT {
            READ.with_borrow_mut(|kept| {
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back((rows, Arc::clone(&tables)));
            });
        }
        Ok(Self { tables })
    }

    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter()
    }

    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }
}

fn tables_of(rows: &Rows) -> Result<Vec<Table>, PageFault> {
    let mut tables = Vec::new();
    let mut indexes = Vec::new();
    for row in rows.each() {
        let row = columns(row)?;
        let [Column::Text(kind), Column::Text(name), Column::Text(table), root, sql] = row.as_slice() else {
            return Err(damaged());
        };
        let root = match root {
            Column::Int(root) => u32::try_from(*root).map_err(|_| damaged())?,
            Column::Null => 0,
            _ => return Err(damaged()),
        };
        match (*kind, sql) {
            (b"table" | b"view", Column::Text(sql)) => tables.push(Table {
                name: text(name)?,
                root,
                key_index: None,
                sql: text(sql)?,
                layout: OnceLock::new(),
            }),
            (b"index", Column::Null) => indexes.push((text(name)?, text(table)?, root)),
            (b"index" | b"trigger", Column::Text(_)) => {}
            _ => return Err(damaged()),
        }
    }
    for table in &mut tables {
        let automatic = format!("sqlite_autoindex_{}_1", table.name);
        let found = indexes.iter().find(|(name, of, _)| *name == automatic && *of == table.name);
        table.key_index = found.map(|(_, _, root)| *root);
    }
    Ok(tables)
}

impl Table {
    /// Whether it has a b-tree of its own.
    pub fn has_rows(&self) -> bool {
        self.root != 0
    }

    /// Returns how its rows are stored, from its `CREATE TABLE`.
    pub fn layout(&self) -> Result<&Layout, PageFault> {
        if !self.has_rows() {
            return Err(PageFault::unsupported(format!("`{}` is a view or a virtual table", self.name)));
        }
        if let Some(layout) = self.layout.get() {
            return Ok(layout);
        }
        let layout = Layout::parse(&self.sql)
            .map_err(|what| PageFault::unsupported(format!("`{}`: {what}", self.name)))?;
        Ok(self.layout.get_or_init(|| layout))
    }
}

fn text(bytes: &[u8]) -> Result<String, PageFault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| damaged())
}

fn damaged() -> PageFault {
    PageFault::corrupt("a schema row that makes no sense")
}

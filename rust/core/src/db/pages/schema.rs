//! The tables of a file, from the b-tree at its first page.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use super::PageFault;
use super::ddl::Layout;
use super::record::{Column, columns};
use super::source::Source;
use super::tree::Walk;

/// The page that the schema always begins at.
const ROOT: u32 = 1;

/// All tables.
#[derive(Debug)]
pub(super) struct Schema {
    tables: Vec<Table>,
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
    layout: OnceCell<Layout>,
}

impl Schema {
    pub fn read(source: &Source) -> Result<Self, PageFault> {
        let mut tables = Vec::new();
        let mut indexes = Vec::new();
        let mut payload = Vec::new();
        Walk::tables(source).forward(ROOT, None, &mut |walk, node, cell| {
            let row = columns(walk.payload(node, cell, &mut payload)?)?;
            let [Column::Text(kind), Column::Text(name), Column::Text(table), root, sql] = row.as_slice()
            else {
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
                    layout: OnceCell::new(),
                }),
                (b"index", Column::Null) => indexes.push((text(name)?, text(table)?, root)),
                (b"index" | b"trigger", Column::Text(_)) => {}
                _ => return Err(damaged()),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for table in &mut tables {
            let automatic = format!("sqlite_autoindex_{}_1", table.name);
            let found = indexes.iter().find(|(name, of, _)| *name == automatic && *of == table.name);
            table.key_index = found.map(|(_, _, root)| *root);
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

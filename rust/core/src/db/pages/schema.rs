//! The tables of a file, from the b-tree at its first page.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use super::PageFault;
use super::ddl::Layout;
use super::header;
use super::record::{Column, columns};
use super::source::Source;
use super::tree::Walk;

/// The page that the schema always begins at.
const ROOT: u32 = 1;

/// So many schemas are kept: those of the programs and versions that wrote a directory's files.
const KEPT: usize = 16;
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
    /// The schemas that were read last: most files of a directory have the same, to the byte.
    static READ: RefCell<VecDeque<Known>> = const { RefCell::new(VecDeque::new()) };
}

/// A schema that was read, by what says it.
struct Known {
    leaves: Option<Leaves>,
    rows: Rows,
    tables: Arc<Vec<Table>>,
}

/// The pages of a schema's b-tree, where that is a root and leaves without long rows.
struct Leaves {
    usable: usize,
    /// The first page behind the file's header, which leads to the others.
    root: Vec<u8>,
    others: Vec<(u32, Vec<u8>)>,
}

impl Leaves {
    fn read(source: &Source) -> Result<Option<Self>, PageFault> {
        let root = source.page(ROOT)?;
        let Some(own) = root.get(header::LENGTH..) else { return Ok(None) };
        let mut found = Self { usable: source.header().usable, root: own.to_vec(), others: Vec::new() };
        let Some(children) = Walk::tables(source).leaves(ROOT)? else { return Ok(None) };
        for number in children {
            found.others.push((number, source.page(number)?.to_vec()));
        }
        Ok(Some(found))
    }

    /// Whether a file has these very pages.
    fn are_of(&self, source: &Source) -> bool {
        let is_page = |number, from: usize, bytes: &[u8]| {
            source.page(number).is_ok_and(|page| page.get(from..) == Some(bytes))
        };
        self.usable == source.header().usable
            && is_page(ROOT, header::LENGTH, &self.root)
            && self.others.iter().all(|(number, bytes)| is_page(*number, 0, bytes))
    }
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
        let same = |known: &Known| known.leaves.as_ref().is_some_and(|leaves| leaves.are_of(source));
        let find = |same: &dyn Fn(&Known) -> bool| {
            READ.with_borrow(|kept| {
                kept.iter().find(|known| same(known)).map(|known| Arc::clone(&known.tables))
            })
        };
        if let Some(tables) = find(&same) {
            return Ok(Self { tables });
        }
        let rows = Rows::read(source)?;
        let known = find(&|known| known.rows == rows);
        if let Some(tables) = known {
            return Ok(Self { tables });
        }
        let tables = Arc::new(tables_of(&rows)?);
        if rows.bytes.len() <= LONGEST_KEPT {
            let leaves = Leaves::read(source)?;
            READ.with_borrow_mut(|kept| {
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back(Known { leaves, rows, tables: Arc::clone(&tables) });
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

//! One page of a b-tree, cut into cells.

use std::ops::Range;

use super::PageFault;
use super::header;
use super::record::varint;
use super::source::Page;

/// The two forms of b-tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Keyed by rowid, rows in the leaves only.
    Table,
    /// Keyed by the record itself, entries on all levels.
    Index,
}

/// A page of a b-tree.
#[derive(Debug)]
pub(super) struct Node {
    page: Page,
    usable: usize,
    form: Form,
    /// Where the array of pointers to cells begins.
    pointers: usize,
    pub is_leaf: bool,
    /// How many cells it has.
    pub cells: usize,
    /// The child behind the last cell; 0 in a leaf.
    pub right: u32,
}

/// A cell: a row or entry, a pointer to a child, or both.
#[derive(Debug)]
pub(super) struct Cell {
    /// The child before it; 0 in a leaf.
    pub child: u32,
    /// The rowid; in a page above the leaves the greatest of the child's. 0 in an index.
    pub rowid: i64,
    /// The length of the payload, wherever it is.
    pub length: usize,
    /// Where the part of the payload that is in this page lies.
    pub local: Range<usize>,
    /// The first page of the rest; 0 when there is none.
    pub overflow: u32,
    /// Bytes that the cell takes in this page.
    pub size: usize,
}

impl Node {
    /// Reads the page header. `usable` is what the b-tree may use of the page.
    pub fn parse(number: u32, page: Page, usable: usize, form: Form) -> Result<Self, PageFault> {
        let start = if number == 1 { header::LENGTH } else { 0 };
        let damaged = || PageFault::corrupt(format!("page {number} is no page of this b-tree"));
        let bytes = page.get(start..start + 12).ok_or_else(damaged)?;
        let is_leaf = match (bytes[0], form) {
            (0x0d, Form::Table) | (0x0a, Form::Index) => true,
            (0x05, Form::Table) | (0x02, Form::Index) => false,
            _ => return Err(damaged()),
        };
        let cells = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        let pointers = start + if is_leaf { 8 } else { 12 };
        let right = if is_leaf { 0 } else { u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) };
        // A cell takes at least four bytes, and two for its pointer.
        if cells * 6 > usable.saturating_sub(8) || pointers + 2 * cells > usable {
            return Err(damaged());
        }
        Ok(Self { page, usable, form, pointers, is_leaf, cells, right })
    }

    /// Returns a range of the page.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.page.get(range).unwrap_or_default()
    }

    /// Returns the child before cell `index`, or the last one.
    pub fn child(&self, index: usize) -> Result<u32, PageFault> {
        if index < self.cells { Ok(self.cell(index)?.child) } else { Ok(self.right) }
    }

    /// Reads one cell.
    pub fn cell(&self, index: usize) -> Result<Cell, PageFault> {
        self.try_cell(index).ok_or_else(|| PageFault::corrupt("a cell that does not fit its page"))
    }

    fn try_cell(&self, index: usize) -> Option<Cell> {
        let page = self.page.get(..self.usable)?;
        let at = self.pointers + 2 * index;
        let start = usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?]));
        if start < self.pointers + 2 * self.cells {
            return None;
        }
        let mut at = start;
        let child = if self.is_leaf {
            0
        } else {
            at += 4;
            word(page, start)?
        };
        if self.form == Form::Table && !self.is_leaf {
            let rowid = varint(page, &mut at)?.cast_signed();
            return Some(Cell { child, rowid, length: 0, local: at..at, overflow: 0, size: at - start });
        }
        let length = usize::try_from(varint(page, &mut at)?).ok().filter(|&length| length <= 0x7fff_ffff)?;
        let rowid = if self.form == Form::Table { varint(page, &mut at)?.cast_signed() } else { 0 };
        let kept = self.kept(length);
        let local = at..at + kept;
        page.get(local.clone())?;
        let overflow = if kept < length { word(page, local.end)? } else { 0 };
        let end = if kept < length { local.end + 4 } else { local.end };
        Some(Cell { child, rowid, length, local, overflow, size: (end - start).max(4) })
    }

    /// How much of a payload stays in the page, by the rule of the format.
    fn kept(&self, length: usize) -> usize {
        let most = match self.form {
            Form::Table => self.usable - 35,
            Form::Index => (self.usable - 12) * 64 / 255 - 23,
        };
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let kept = least + (length - least) % (self.usable - 4);
        if kept <= most { kept } else { least }
    }
}

fn word(page: &[u8], at: usize) -> Option<u32> {
    page.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

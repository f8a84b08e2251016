//! Walks and searches of one b-tree, with a bound on what any bytes can make them cost.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::PageFault;
use super::node::{Cell, Form, Node};
use super::record::{self, Column};
use super::source::Source;

/// SQLite's own limit: a tree of that depth holds more than a file can.
const DEEPEST: usize = 20;
/// The most pages of an overflow chain read in one go.
const LONGEST_RUN: usize = 32;

/// What a walk shows of each row or entry.
type Visit<'v> = dyn FnMut(&mut Walk<'_>, &Node, &Cell) -> Result<ControlFlow<()>, PageFault> + 'v;

/// One way through a b-tree. In a sound file each page belongs to one place of one tree, so a walk
/// that needs more pages than there are goes in circles.
#[derive(Debug)]
pub(super) struct Walk<'s> {
    source: &'s Source,
    form: Form,
    pages_left: u32,
    run: Vec<u8>,
}

impl<'s> Walk<'s> {
    /// Begins at a table of rowids.
    pub fn tables(source: &'s Source) -> Self {
        Self::new(source, Form::Table)
    }

    /// Begins at an index, or a table `WITHOUT ROWID`.
    pub fn indexes(source: &'s Source) -> Self {
        Self::new(source, Form::Index)
    }

    fn new(source: &'s Source, form: Form) -> Self {
        Self { source, form, pages_left: source.header().page_count, run: Vec::new() }
    }

    /// Shows the cells in ascending order, those of rowids from `start` on only.
    pub fn forward(&mut self, root: u32, start: Option<i64>, visit: &mut Visit<'_>) -> Result<(), PageFault> {
        self.ascend(root, 0, start, visit).map(drop)
    }

    /// Shows the rows of a table in descending order.
    pub fn backward(&mut self, root: u32, visit: &mut Visit<'_>) -> Result<(), PageFault> {
        self.descend(root, 0, visit).map(drop)
    }

    fn ascend(
        &mut self,
        number: u32,
        depth: usize,
        start: Option<i64>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, PageFault> {
        let node = self.node(number, depth)?;
        let first = match start {
            Some(rowid) => position(&node, |cell| Ok(cell.rowid.cmp(&rowid)))?.0,
            None => 0,
        };
        let mut room = Room::of(self.source);
        for index in first..node.cells {
            let cell = node.cell(index)?;
            room.take(&cell)?;
            if !node.is_leaf {
                // Only the first child that is entered can hold rows to be passed over.
                let start = start.filter(|_| index == first);
                if self.ascend(cell.child, depth + 1, start, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if (node.is_leaf || self.form == Form::Index) && visit(self, &node, &cell)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if node.is_leaf {
            return Ok(ControlFlow::Continue(()));
        }
        self.ascend(node.right, depth + 1, start.filter(|_| first == node.cells), visit)
    }

    fn descend(
        &mut self,
        number: u32,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, PageFault> {
        let node = self.node(number, depth)?;
        if !node.is_leaf && self.descend(node.right, depth + 1, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut room = Room::of(self.source);
        for index in (0..node.cells).rev() {
            let cell = node.cell(index)?;
            room.take(&cell)?;
            let shown = if node.is_leaf {
                visit(self, &node, &cell)?
            } else {
                self.descend(cell.child, depth + 1, visit)?
            };
            if shown.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the leaves below the root of a table; `None` where the tree is deeper or a row goes on
    /// in other pages.
    pub fn leaves(&mut self, root: u32) -> Result<Option<Vec<u32>>, PageFault> {
        let top = self.node(root, 0)?;
        let mut found = Vec::new();
        if !top.is_leaf {
            for index in 0..=top.cells {
                found.push(top.child(index)?);
            }
        }
        let is_short = |node: &Node| -> Result<bool, PageFault> {
            for index in 0..node.cells {
                if !node.is_leaf || node.cell(index)?.overflow != 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if top.is_leaf && !is_short(&top)? {
            return Ok(None);
        }
        for number in &found {
            if !is_short(&self.node(*number, 1)?)? {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Returns the payload of one row of a table.
    pub fn seek<'b>(
        &mut self,
        root: u32,
        rowid: i64,
        payload: &'b mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, PageFault> {
        let mut number = root;
        for depth in 0..DEEPEST {
            let node = self.node(number, depth)?;
            let (index, is_found) = position(&node, |cell| Ok(cell.rowid.cmp(&rowid)))?;
            if node.is_leaf {
                if !is_found {
                    return Ok(None);
                }
                let cell = node.cell(index)?;
                self.collect(&node, &cell, payload)?;
                return Ok(Some(payload));
            }
            number = node.child(index)?;
        }
        Err(too_deep())
    }

    /// Returns the payload of the entry whose first column is the blob `key`.
    pub fn find(&mut self, root: u32, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        let mut number = root;
        let mut payload = Vec::new();
        for depth in 0..DEEPEST {
            let node = self.node(number, depth)?;
            let mut is_collected = false;
            let (index, is_found) = position(&node, |cell| {
                is_collected = false;
                // A key mostly lies in the page, however long the value behind it is.
                let column = match record::first(node.bytes(cell.local.clone())) {
                    Err(_) if cell.overflow != 0 => {
                        is_collected = true;
                        self.collect(&node, cell, &mut payload)?;
                        record::first(&payload)?
                    }
                    column => column?,
                };
                // All else sorts before blobs.
                Ok(if let Column::Blob(found) = column { found.cmp(key) } else { Ordering::Less })
            })?;
            if is_found {
                if !is_collected {
                    self.collect(&node, &node.cell(index)?, &mut payload)?;
                }
                return Ok(Some(payload));
            }
            if node.is_leaf {
                return Ok(None);
            }
            number = node.child(index)?;
        }
        Err(too_deep())
    }

    /// Returns the first column of the first entry that is not less than the blob `key`.
    pub fn first_from(&mut self, root: u32, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        let mut number = root;
        let mut payload = Vec::new();
        // The nearest greater entry on the way down: what follows the last one of a leaf.
        let mut follower = None;
        for depth in 0..DEEPEST {
            let node = self.node(number, depth)?;
            let (index, _) = position(&node, |cell| {
                Ok(match record::first(self.payload(&node, cell, &mut payload)?)? {
                    Column::Blob(found) => found.cmp(key),
                    _ => Ordering::Less,
                })
            })?;
            if index < node.cells {
                let cell = node.cell(index)?;
                if let Column::Blob(found) = record::first(self.payload(&node, &cell, &mut payload)?)? {
                    follower = Some(found.to_vec());
                }
            }
            if node.is_leaf || follower.as_deref() == Some(key) {
                return Ok(follower);
            }
            number = node.child(index)?;
        }
        Err(too_deep())
    }

    /// Returns the payload of a cell, from the page itself or put together in `buffer`.
    pub fn payload<'b>(
        &mut self,
        node: &'b Node,
        cell: &Cell,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], PageFault> {
        if cell.overflow == 0 {
            return Ok(node.bytes(cell.local.clone()));
        }
        self.collect(node, cell, buffer)?;
        Ok(buffer)
    }

    /// Puts the payload of a cell together. What is allocated follows what was read, never what a
    /// length claims.
    fn collect(&mut self, node: &Node, cell: &Cell, buffer: &mut Vec<u8>) -> Result<(), PageFault> {
        buffer.clear();
        buffer.extend_from_slice(node.bytes(cell.local.clone()));
        let (page_size, usable) = (self.source.header().page_size, self.source.header().usable);
        let mut rest = cell.length - buffer.len();
        let mut next = cell.overflow;
        // A chain mostly lies in one piece, so each neighbour that was met doubles what is read.
        let mut ahead = 1;
        while rest > 0 {
            let needed = rest.div_ceil(usable - 4);
            if needed > self.pages_left as usize {
                return Err(PageFault::corrupt("a payload longer than the file"));
            }
            self.source.run(next, ahead.min(needed), &mut self.run)?;
            ahead = (ahead * 2).min(LONGEST_RUN);
            for page in self.run.chunks_exact(page_size) {
                let (link, content) = page.split_at(4);
                let content = content.get(..rest.min(usable - 4)).unwrap_or_default();
                buffer.extend_from_slice(content);
                rest -= content.len();
                self.pages_left = self.pages_left.saturating_sub(1);
                let follower = link.try_into().map_or(0, u32::from_be_bytes);
                let is_neighbour = follower == next.wrapping_add(1);
                next = follower;
                if !is_neighbour {
                    ahead = 1;
                    break;
                }
            }
        }
        if next == 0 { Ok(()) } else { Err(PageFault::corrupt("an overflow chain that does not end")) }
    }

    fn node(&mut self, number: u32, depth: usize) -> Result<Node, PageFault> {
        if depth >= DEEPEST {
            return Err(too_deep());
        }
        self.pages_left = self
            .pages_left
            .checked_sub(1)
            .ok_or_else(|| PageFault::corrupt("a b-tree that goes in circles"))?;
        let node = Node::parse(number, self.source.page(number)?, self.source.header().usable, self.form)?;
        // Only a root may be empty; above the leaves only that of the schema, whose page is fixed.
        if node.cells == 0 && (depth > 0 || !(node.is_leaf || number == 1)) {
            return Err(PageFault::corrupt(format!("page {number} is empty")));
        }
        Ok(node)
    }
}

/// Sums up the cells of a page: those of a sound page do not overlap, and without that a page could
/// make a reader work for as long as it has cells times bytes.
struct Room(usize);

impl Room {
    fn of(source: &Source) -> Self {
        Self(source.header().usable)
    }

    fn take(&mut self, cell: &Cell) -> Result<(), PageFault> {
        self.0 = self.0.checked_sub(cell.size).ok_or_else(|| PageFault::corrupt("cells that overlap"))?;
        Ok(())
    }
}

/// Returns where in a page the search goes on: at the cell itself, or before the first greater one.
fn position(
    node: &Node,
    mut compare: impl FnMut(&Cell) -> Result<Ordering, PageFault>,
) -> Result<(usize, bool), PageFault> {
    let (mut low, mut high) = (0, node.cells);
    while low < high {
        // The middle as SQLite takes it, lest the two disagree on a page out of order.
        let middle = usize::midpoint(low, high - 1);
        match compare(&node.cell(middle)?)? {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok((middle, true)),
            Ordering::Greater => high = middle,
        }
    }
    Ok((low, false))
}

fn too_deep() -> PageFault {
    PageFault::corrupt("a b-tree deeper than any can be")
}

//! Which row a block was cut from, and what it is called.

use crate::db::schema::{Table, has_table};
use crate::model::{EVENT_MARK, MESSAGE_MARK, parse_numbered};
use rusqlite::Connection;

/// Where blocks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The log.
    Events,
    /// The messages of channels.
    Channels,
    /// Events that were handed to a search without being part of the log.
    Given,
}

impl Origin {
    pub(super) const ALL: [Self; 3] = [Self::Events, Self::Channels, Self::Given];

    /// The table of its rows.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Channels => "channels",
            Self::Given => "amber_given",
        }
    }

    pub(super) const fn number(self) -> i64 {
        self as i64
    }

    fn of(number: i64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at).copied())
    }

    /// The first of the numbers that its blocks may have.
    pub(super) const fn first(self) -> i64 {
        self.number() << ORIGIN
    }

    /// The peer's table, for rows that it has as well.
    pub(super) const fn shared(self) -> Option<Table> {
        match self {
            Self::Events => Some(Table::Events),
            Self::Channels => Some(Table::Channels),
            Self::Given => None,
        }
    }

    /// How far the index has got with these rows.
    pub(super) const fn mark(self) -> super::Mark {
        match self {
            Self::Events => super::Mark::OurEvents,
            Self::Channels => super::Mark::OurChannels,
            Self::Given => super::Mark::OurGiven,
        }
    }

    /// The owner and the number in the key of a row.
    pub(super) fn parse(self, key: &[u8]) -> Option<(&str, u64)> {
        parse_numbered(key, if self == Self::Channels { MESSAGE_MARK } else { EVENT_MARK })
    }

    /// Rows after a rowid, in their order.
    pub(super) const fn after(self) -> &'static str {
        match self {
            Self::Events => Table::Events.sql().after,
            Self::Channels => Table::Channels.sql().after,
            Self::Given => {
                "SELECT rowid, key, value FROM amber_given WHERE rowid > ?1 ORDER BY rowid LIMIT ?2"
            }
        }
    }

    /// One row.
    pub(super) const fn row(self) -> &'static str {
        match self {
            Self::Events => "SELECT key, value FROM events WHERE rowid = ?1",
            Self::Channels => "SELECT key, value FROM channels WHERE rowid = ?1",
            Self::Given => "SELECT key, value FROM amber_given WHERE rowid = ?1",
        }
    }

    /// The row of a key.
    pub(super) const fn find(self) -> &'static str {
        match self {
            Self::Events => "SELECT rowid FROM events WHERE key = ?1",
            Self::Channels => "SELECT rowid FROM channels WHERE key = ?1",
            Self::Given => "SELECT rowid FROM amber_given WHERE key = ?1",
        }
    }

    const fn last(self) -> &'static str {
        match self {
            Self::Events => "SELECT coalesce(max(rowid), 0) FROM events",
            Self::Channels => "SELECT coalesce(max(rowid), 0) FROM channels",
            Self::Given => "SELECT coalesce(max(rowid), 0) FROM amber_given",
        }
    }

    /// The last of its rows; 0 where there is none.
    pub(super) fn last_row(self, connection: &Connection) -> rusqlite::Result<i64> {
        if !has_table(connection, self.table())? {
            return Ok(0);
        }
        connection.prepare_cached(self.last())?.query_row([], |row| row.get(0))
    }
}

/// A block's place: the row that it was cut from, and which of its pieces it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BlockId {
    pub(super) origin: Origin,
    pub(super) row: i64,
    pub(super) part: usize,
}

const ORIGIN: u32 = 58;
/// Set for a piece whose number does not fit beside its row.
const FAR: i64 = 1 << 57;
/// Most events have few pieces, and the index keeps the distance from one block to the next.
const NEAR_BITS: u32 = 4;
const FAR_BITS: u32 = 16;

impl BlockId {
    /// The number that an index keeps.
    pub(super) fn number(self) -> i64 {
        let part = i64::try_from(self.part).unwrap_or(i64::MAX);
        let low = if part < 1 << NEAR_BITS {
            self.row << NEAR_BITS | part
        } else {
            FAR | self.row << FAR_BITS | part
        };
        self.origin.number() << ORIGIN | low
    }

    /// Reads such a number back; `None` for one that stands for no block.
    pub(super) fn of(number: i64) -> Option<Self> {
        let origin = Origin::of(number >> ORIGIN).filter(|_| number > 0)?;
        let low = number & ((1 << ORIGIN) - 1);
        let bits = if low & FAR == 0 { NEAR_BITS } else { FAR_BITS };
        let low = low & !FAR;
        Some(Self { origin, row: low >> bits, part: usize::try_from(low & ((1 << bits) - 1)).ok()? })
    }

    /// The two spans of numbers that blocks of rows from one on have.
    pub(super) fn spans_from(origin: Origin, row: i64) -> [(i64, i64); 2] {
        let base = origin.number() << ORIGIN;
        [(base | row << NEAR_BITS, base | (FAR - 1)), (base | FAR | row << FAR_BITS, base | FAR | (FAR - 1))]
    }

    /// The two spans of numbers that the blocks of one row have.
    pub(super) fn spans_of(origin: Origin, row: i64) -> [(i64, i64); 2] {
        let [(near, _), (far, _)] = Self::spans_from(origin, row);
        [(near, near | ((1 << NEAR_BITS) - 1)), (far, far | ((1 << FAR_BITS) - 1))]
    }

    /// The name of a block of that owner.
    pub(super) fn name(self, owner: &str, number: u64) -> String {
        match self.origin {
            Origin::Events => format!("{owner}{EVENT_MARK}{number}:p{}", self.part),
            Origin::Channels => format!("{owner}{MESSAGE_MARK}{number}:p{}", self.part),
            Origin::Given => format!("{owner}:g{number}:p{}", self.part),
        }
    }

    /// The origin, the key of the row and the number of the piece that a name stands for.
    pub(super) fn parse_name(name: &str) -> Option<(Origin, Vec<u8>, usize)> {
        let (row, part) = name.rsplit_once(":p")?;
        let part = part.parse().ok()?;
        let (mark, origin) =
            [(EVENT_MARK, Origin::Events), (MESSAGE_MARK, Origin::Channels), (":g", Origin::Given)]
                .into_iter()
                .filter_map(|(mark, origin)| Some((row.rfind(mark)?, (mark, origin))))
                .max_by_key(|(at, _)| *at)?
                .1;
        let (owner, number) = row.rsplit_once(mark)?;
        let number = number.parse().ok()?;
        let key = match origin {
            Origin::Channels => crate::model::channel_key(owner, number),
            Origin::Events | Origin::Given => crate::model::event_key(owner, number),
        };
        Some((origin, key, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_row_and_piece() {
        for origin in Origin::ALL {
            for (row, part) in [(1, 0), (1, 15), (1, 16), (9_000_000, 65_535), (1 << 40, 3)] {
                let id = BlockId { origin, row, part };
                assert_eq!(BlockId::of(id.number()), Some(id));
            }
        }
        assert_eq!(BlockId::of(-5), None);
        assert_eq!(BlockId::of(i64::MAX), None);
    }

    #[test]
    fn spans_hold_the_blocks_of_later_rows_alone() {
        let spans = BlockId::spans_from(Origin::Events, 10);
        let within = |row, part| {
            let number = BlockId { origin: Origin::Events, row, part }.number();
            spans.iter().any(|(first, last)| (*first..=*last).contains(&number))
        };

        assert!(within(10, 0) && within(11, 700) && !within(9, 0) && !within(9, 700));
    }

    #[test]
    fn a_name_leads_back_to_its_row() {
        let id = BlockId { origin: Origin::Events, row: 7, part: 2 };
        let name = id.name("a:e5:b", 12);

        assert_eq!(name, "a:e5:b:e12:p2");
        assert_eq!(BlockId::parse_name(&name), Some((Origin::Events, b"a:e5:b:e000012".to_vec(), 2)));
        assert_eq!(BlockId::parse_name("ops:m3:p0"), Some((Origin::Channels, b"ops:m000003".to_vec(), 0)));
        assert_eq!(BlockId::parse_name("nothing"), None);
    }
}

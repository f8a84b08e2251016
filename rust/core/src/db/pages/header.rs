//! The first hundred bytes of a database file.

use super::PageFault;

/// The length of the header, which takes the place of the first page's first bytes.
pub(super) const LENGTH: usize = 100;

/// What a reader must know before it can cut the file into pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// Bytes of a page.
    pub page_size: usize,
    /// Bytes of a page that the b-trees use; an extension may reserve the rest.
    pub usable: usize,
    /// Pages that belong to the database; the file may be longer.
    pub page_count: u32,
    /// The page that holds the bytes which SQLite locks, and never content.
    pub lock_page: u32,
    pub user_version: u32,
    pub application_id: u32,
}

impl Header {
    /// Reads the header of a file of `size` bytes.
    pub fn parse(bytes: &[u8; LENGTH], size: u64) -> Result<Self, PageFault> {
        if !bytes.starts_with(b"SQLite format 3\0") {
            return Err(PageFault::corrupt("it does not begin like a database"));
        }
        let page_size = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => u32::from(size),
            _ => return Err(PageFault::corrupt("an impossible page size")),
        };
        let usable = page_size - u32::from(bytes[20]);
        if usable < 480 {
            return Err(PageFault::corrupt("too little room in a page"));
        }
        if !matches!(bytes[18], 1 | 2) || !matches!(bytes[19], 1 | 2) {
            return Err(PageFault::unsupported("a newer file format"));
        }
        if bytes[21..24] != [64, 32, 32] {
            return Err(PageFault::corrupt("impossible payload fractions"));
        }
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if !(1..=4).contains(&word(44)) {
            return Err(PageFault::unsupported("an unknown schema format"));
        }
        if word(56) != 1 {
            return Err(PageFault::unsupported("a text encoding other than UTF-8"));
        }
        let whole = u32::try_from(size / u64::from(page_size))
            .map_err(|_| PageFault::unsupported("more pages than SQLite can number"))?;
        // The count in the header is stale when an old version of SQLite was the last to write.
        let is_count_valid = word(28) > 0 && word(24) == word(92);
        let page_count = if is_count_valid { word(28) } else { whole };
        if page_count == 0
            || page_count > whole
            || (!is_count_valid && !size.is_multiple_of(u64::from(page_size)))
        {
            return Err(PageFault::corrupt("the file is shorter than its pages"));
        }
        Ok(Self {
            page_size: page_size as usize,
            usable: usable as usize,
            page_count,
            lock_page: 0x4000_0000 / page_size + 1,
            user_version: word(60),
            application_id: word(68),
        })
    }
}

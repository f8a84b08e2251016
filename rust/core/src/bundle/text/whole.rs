//! A log whose branches no single event tells apart, read as a whole.

use rusqlite::{Connection, params};

use super::content::Content;
use super::id::{BlockId, Origin};
use super::lane::Lane;
use crate::codec::Value;
use crate::lineage::{Log, View};
use crate::recall::blocks::{Cutter, Kind, Standing};

const PLACE: &str = "\
UPDATE amber_block SET live = ?2, kind = ?3, place = ?4, round = ?5, block = ?6
WHERE id = ?1 AND (live, kind, place, round, block) IS NOT (?2, ?3, ?4, ?5, ?6)";

/// Sets where all blocks of an agent stand, by the rule of the whole log. Linear in it.
pub(super) fn place_again(
    source: &Connection,
    target: &Connection,
    origin: Origin,
    agent: &str,
    lane: &mut Lane,
) -> rusqlite::Result<()> {
    let (rows, events) = events_of(source, origin, agent, lane.row)?;
    let log = Log::read(&events, &View::new());
    let mut cutter = Cutter::default();
    let mut place = 0;
    let mut blocks = Vec::new();
    let mut update = target.prepare_cached(PLACE)?;
    for ((row, event), (live, repeats)) in rows.iter().zip(&events).zip(log.standings()) {
        blocks.clear();
        cutter.cut(event, Standing { live, repeats }, &mut blocks);
        for block in &blocks {
            let is_told = block.kind != Kind::Other;
            place += i64::from(is_told && block.live);
            let id = BlockId { origin, row: *row, part: block.part };
            update.execute(params![
                id.number(),
                block.live,
                block.kind as i64,
                if is_told { place } else { 0 },
                block.round,
                block.block
            ])?;
        }
    }
    (lane.cutter, lane.place) = (cutter, place);
    Ok(())
}

/// The events of an agent up to a row, in the order of their rows.
fn events_of(
    source: &Connection,
    origin: Origin,
    agent: &str,
    last: i64,
) -> rusqlite::Result<(Vec<i64>, Vec<Value>)> {
    let mut select = source.prepare_cached(origin.after())?;
    let mut rows = select.query((0, i64::MAX))?;
    let (mut numbers, mut events) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let (rowid, key): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        if rowid > last {
            break;
        }
        if origin.parse(&key).is_none_or(|(owner, _)| owner != agent) {
            continue;
        }
        if let Some(content) = Content::open(origin.table(), &key, row.get_ref(2)?.as_blob()?) {
            numbers.push(rowid);
            events.push(content.into_value());
        }
    }
    Ok((numbers, events))
}

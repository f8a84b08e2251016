//! Where the index has got with the events of one agent, and which of them are live.
//!
//! What the rule of `lineage` says of a whole log is said here of the next event: it goes on, it begins
//! a turn, or it begins a turn anew, and then all that came after the first try is not live any more.
//! Anything beyond that makes the lane tangled: from then on it is read as a whole each time.

use rusqlite::{Connection, OptionalExtension};

use super::id::Origin;
use crate::codec::Value;
use crate::lineage::{pairs_of, stamp_of};
use crate::recall::blocks::{Cutter, Place};

const LOAD: &str = "\
SELECT row, place, round, block, in_round, is_said, asked, turn, branch, top, loose, form
FROM amber_lane WHERE owner = ?1 AND origin = ?2";
const SAVE: &str = "\
INSERT OR REPLACE INTO amber_lane
(owner, origin, row, place, round, block, in_round, is_said, asked, turn, branch, top, loose, form)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const TURN: &str = "\
SELECT branch, highest, row, place, round, block, in_round FROM amber_turn
WHERE owner = ?1 AND origin = ?2 AND turn = ?3";
const NOTE: &str = "\
INSERT OR REPLACE INTO amber_turn (owner, origin, turn, branch, highest, row, place, round, block, in_round)
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9)";
const LEAVE: &str = "UPDATE amber_turn SET branch = 0 WHERE owner = ?1 AND origin = ?2 AND turn > ?3";
const EARLIER: &str = "\
SELECT count(*) FROM amber_turn WHERE owner = ?1 AND origin = ?2 AND turn < ?3 AND branch > 0";

const TANGLED: i64 = 1;
const PARTIAL: i64 = 2;

/// What an event does to the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is live, and nothing else changes.
    Live,
    /// It begins a turn anew: blocks of this and later turns, from a row on, are not live any more.
    Anew {
        /// The turn.
        turn: i64,
        /// The row of the turn's first event.
        row: i64,
    },
    /// Only the whole log tells.
    Tangled,
}

/// The state of one agent's events.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) owner: i64,
    pub(super) origin: Origin,
    pub(super) cutter: Cutter,
    /// The row of the last event.
    pub(super) row: i64,
    /// How many live blocks there are.
    pub(super) place: i64,
    /// The last event, for the one that may repeat it.
    pub(super) previous: Option<Value>,
    pub(super) is_tangled: bool,
    /// The last turn that is live, and its branch.
    turn: Option<i64>,
    branch: i64,
    /// The highest turn that there ever was.
    top: Option<i64>,
    /// The last row whose place in the count of rounds no turn tells.
    loose: i64,
    /// Whether a path was stated that leaves turns out.
    is_partial: bool,
    /// What the last stated path says.
    path: Option<(i64, u64)>,
}

/// What is known of a turn.
struct Turn {
    branch: i64,
    highest: i64,
    row: i64,
    place: i64,
    start: Place,
}

impl Lane {
    /// Reads the state of an agent's events, or begins it.
    pub(super) fn load(target: &Connection, owner: i64, origin: Origin) -> rusqlite::Result<Self> {
        let mut lane = Self {
            owner,
            origin,
            cutter: Cutter::default(),
            row: 0,
            place: 0,
            previous: None,
            is_tangled: false,
            turn: None,
            branch: 0,
            top: None,
            loose: 0,
            is_partial: false,
            path: None,
        };
        let mut select = target.prepare_cached(LOAD)?;
        let mut rows = select.query((owner, origin.number()))?;
        if let Some(row) = rows.next()? {
            (lane.row, lane.place) = (row.get(0)?, row.get(1)?);
            lane.cutter.place = Place { round: row.get(2)?, block: row.get(3)?, in_round: row.get(4)? };
            lane.cutter.is_said = row.get(5)?;
            lane.cutter.asked = row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned);
            (lane.turn, lane.branch, lane.top, lane.loose) =
                (row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?);
            let form: i64 = row.get(11)?;
            (lane.is_tangled, lane.is_partial) = (form & TANGLED != 0, form & PARTIAL != 0);
        }
        Ok(lane)
    }

    /// Keeps the state.
    pub(super) fn save(&self, target: &Connection) -> rusqlite::Result<()> {
        let Place { round, block, in_round } = self.cutter.place;
        let form = (i64::from(self.is_tangled) * TANGLED) | (i64::from(self.is_partial) * PARTIAL);
        target.prepare_cached(SAVE)?.execute(rusqlite::params![
            self.owner,
            self.origin.number(),
            self.row,
            self.place,
            round,
            block,
            in_round,
            self.cutter.is_said,
            self.cutter.asked.map(u64::cast_signed),
            self.turn,
            self.branch,
            self.top,
            self.loose,
            form,
        ])?;
        Ok(())
    }

    /// Says how the next event stands; a turn that it begins is noted with where the count has got.
    pub(super) fn step(&mut self, target: &Connection, event: &Value, row: i64) -> rusqlite::Result<Step> {
        if self.is_tangled {
            return Ok(Step::Tangled);
        }
        let Some((turn, branch)) = stamp_of(event) else { return Ok(Step::Live) };
        let step = if branch < 1 || event.get("event_id").and_then(Value::as_i64).is_none() {
            Step::Tangled
        } else if self.turn == Some(turn) && self.branch == branch {
            self.on_path(target, event, turn, Step::Live)?
        } else if self.turn.is_none_or(|last| turn > last) {
            self.begin(target, event, (turn, branch), row)?
        } else {
            self.reach_back(target, event, (turn, branch), row)?
        };
        self.is_tangled = step == Step::Tangled;
        Ok(step)
    }

    /// Notes that an event stands outside the order of turns.
    pub(super) fn note_loose(&mut self, row: i64) {
        self.loose = row;
    }

    fn begin(
        &mut self,
        target: &Connection,
        event: &Value,
        (turn, branch): (i64, i64),
        row: i64,
    ) -> rusqlite::Result<Step> {
        let is_new = self.top.is_none_or(|top| turn > top)
            || self.known(target, turn)?.is_none_or(|known| branch > known.highest);
        if !is_new || self.on_path(target, event, turn, Step::Live)? == Step::Tangled {
            return Ok(Step::Tangled);
        }
        self.note(target, (turn, branch), row)?;
        Ok(Step::Live)
    }

    fn reach_back(
        &mut self,
        target: &Connection,
        event: &Value,
        (turn, branch): (i64, i64),
        row: i64,
    ) -> rusqlite::Result<Step> {
        let Some(known) = self.known(target, turn)? else { return Ok(Step::Tangled) };
        if branch == known.branch {
            self.loose = row;
            return self.on_path(target, event, turn, Step::Live);
        }
        let anew = Step::Anew { turn, row: known.row };
        let is_plain =
            branch > known.highest && known.branch > 0 && self.loose < known.row && !self.is_partial;
        if !is_plain || self.on_path(target, event, turn, anew)? != anew {
            return Ok(Step::Tangled);
        }
        (self.cutter.place, self.place) = (known.start, known.place);
        target.prepare_cached(LEAVE)?.execute((self.owner, self.origin.number(), turn))?;
        self.note(target, (turn, branch), row)?;
        Ok(anew)
    }

    fn note(&mut self, target: &Connection, (turn, branch): (i64, i64), row: i64) -> rusqlite::Result<()> {
        let Place { round, block, in_round } = self.cutter.place;
        target.prepare_cached(NOTE)?.execute((
            self.owner,
            self.origin.number(),
            turn,
            branch,
            row,
            self.place,
            round,
            block,
            in_round,
        ))?;
        (self.turn, self.branch, self.top) = (Some(turn), branch, self.top.max(Some(turn)));
        Ok(())
    }

    fn known(&self, target: &Connection, turn: i64) -> rusqlite::Result<Option<Turn>> {
        target
            .prepare_cached(TURN)?
            .query_row((self.owner, self.origin.number(), turn), |row| {
                Ok(Turn {
                    branch: row.get(0)?,
                    highest: row.get(1)?,
                    row: row.get(2)?,
                    place: row.get(3)?,
                    start: Place { round: row.get(4)?, block: row.get(5)?, in_round: row.get(6)? },
                })
            })
            .optional()
    }

    /// Returns `step` where the path of an event agrees with the branches that are live.
    ///
    /// A path that is not stated does: it is that of the highest branches, and those are live here.
    fn on_path(
        &mut self,
        target: &Connection,
        event: &Value,
        turn: i64,
        step: Step,
    ) -> rusqlite::Result<Step> {
        let path: Vec<(i64, i64)> = pairs_of(event).filter(|(earlier, _)| *earlier < turn).collect();
        if path.is_empty() {
            return Ok(step);
        }
        let said = (turn, print_of(&path));
        if self.path == Some(said) {
            return Ok(step);
        }
        // A new turn mostly states the path of the one before, and that one.
        let goes_on = path.split_last().is_some_and(|(last, before)| {
            Some(last.0) == self.turn
                && last.1 == self.branch
                && self.path == Some((last.0, print_of(before)))
        });
        if !goes_on {
            let mut live = 0_i64;
            for (earlier, branch) in &path {
                match self.known(target, *earlier)?.filter(|known| known.branch > 0) {
                    Some(known) if known.branch == *branch => live += 1,
                    Some(_) => return Ok(Step::Tangled),
                    None => {}
                }
            }
            let all: i64 = target
                .prepare_cached(EARLIER)?
                .query_row((self.owner, self.origin.number(), turn), |row| row.get(0))?;
            self.is_partial |= live < all;
        }
        self.path = Some(said);
        Ok(step)
    }
}

fn print_of(path: &[(i64, i64)]) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let numbers = path.iter().flat_map(|(turn, branch)| [turn.cast_unsigned(), branch.cast_unsigned()]);
    numbers.fold(path.len() as u64, |print, number| (print.rotate_left(5) ^ number).wrapping_mul(SPREAD))
}

//! The blocks of a whole log, as its latest branches show it.

use crate::codec::Value;
use crate::lineage::{Log, View};
use crate::recall::blocks::{Block, Cutter, Standing};

/// Cuts the events of one agent, in the order of the log, into blocks; those of branches that were left
/// come too, and say so. Linear in the log.
pub fn cut_log(events: &[Value]) -> Vec<Block> {
    let log = Log::read(events, &View::new());
    let mut cutter = Cutter::default();
    let mut blocks = Vec::new();
    for (event, (live, repeats)) in events.iter().zip(log.standings()) {
        cutter.cut(event, Standing { live, repeats }, &mut blocks);
    }
    blocks
}

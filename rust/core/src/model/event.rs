//! An event on its way into the log: everything but the numbers that the log gives it.

/// The stamps that a caller passes beside the payload.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Stamps {
    /// The turn that the event belongs to.
    pub turn_index: Option<i64>,
    /// The turn that started the work behind the event; the turn itself when not given.
    pub spawned_in_turn: Option<i64>,
    /// The branch of that turn.
    pub branch_id: Option<i64>,
    /// `(turn, branch)` of every earlier turn of the lineage.
    pub parent_branch_path: Option<Vec<(i64, i64)>>,
}

impl Stamps {
    /// The fields that these stamps write, which the payload's own fields of that name give way to.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        [
            self.turn_index.map(|_| "turn_index"),
            self.spawned_in_turn.map(|_| "spawned_in_turn"),
            self.branch_id.map(|_| "branch_id"),
            self.parent_branch_path.as_ref().map(|_| "parent_branch_path"),
        ]
        .into_iter()
        .flatten()
    }
}

/// An event before the log has numbered it.
#[derive(Debug, Default, Clone)]
pub struct Draft {
    /// The kind of event: `user_message`, `tool_call`, …
    pub event_type: String,
    /// The payload's keys and values as `MessagePack`, one after the other, without the fields that are stamped.
    pub pairs: Vec<u8>,
    /// How many pairs there are.
    pub count: usize,
    /// A positive id that the payload brought: kept as it is (mirrors of another session do this).
    pub given_id: Option<i64>,
    /// Whether the payload has a `ts` of its own.
    pub has_ts: bool,
    /// Whether the payload has a `spawned_in_turn` of its own.
    pub has_spawned: bool,
    /// The turn that the payload itself names, where `stamps` do not.
    pub own_turn: Option<i64>,
    /// The branch that the payload itself names, where `stamps` do not.
    pub own_branch: Option<i64>,
    /// What the caller passed beside the payload.
    pub stamps: Stamps,
    /// Whether the parent path may be left out where the order of the log implies it.
    pub may_omit_path: bool,
}

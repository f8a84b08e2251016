//! Cutting the events of one agent into blocks: the pieces that a search finds.
//!
//! Events come in the order of the log. A round begins with what someone asked; the pieces that follow
//! count from it. What pieces there are and what they say depends on the log up to the event, never on
//! which branch is shown: a branch that is left takes nothing out of an index, its blocks are only not
//! live any more.

mod pieces;
mod spelling;
#[cfg(test)]
mod tests;

use xxhash_rust::xxh3::xxh3_64;

pub use self::pieces::{Piece, pieces};
use self::pieces::{flat, of_message, text_of};
use crate::codec::Value;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What a person said.
    User,
    /// What the agent said.
    Text,
    /// A call of a tool, or its result.
    Tool,
    /// A message that started a round.
    Trigger,
    /// What a sub-agent answered.
    Subagent,
    /// A message of a channel.
    Channel,
    /// A summary that stands in for older messages.
    Summary,
    /// Whatever else has text: found among events, not among blocks.
    Other,
}

impl Kind {
    /// All of them; the place of one is the number that an index keeps.
    pub const ALL: [Self; 8] = [
        Self::User,
        Self::Text,
        Self::Tool,
        Self::Trigger,
        Self::Subagent,
        Self::Channel,
        Self::Summary,
        Self::Other,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Text => "text",
            Self::Tool => "tool",
            Self::Trigger => "trigger",
            Self::Subagent => "subagent",
            Self::Channel => "channel",
            Self::Summary => "summary",
            Self::Other => "other",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether blocks of this kind are counted within their round. The others share the number of the
    /// block after them, so that the numbers are those of an index that does not have them.
    const fn is_counted(self) -> bool {
        matches!(self, Self::User | Self::Text | Self::Tool | Self::Trigger)
    }
}

/// A piece of an event, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The round of the agent, from 1; 0 before the first one.
    pub round: i64,
    /// The place within the round, from 0.
    pub block: i64,
    /// The number of the piece within its event, from 0.
    pub part: usize,
    /// What it is.
    pub kind: Kind,
    /// The turn of the event.
    pub turn: Option<i64>,
    /// When it happened, in seconds since 1970; 0 when that is not known.
    pub ts: f64,
    /// The id of the event; 0 for a message of a channel.
    pub event_id: i64,
    /// The tool that was called.
    pub tool_name: String,
    /// The channel of a message or of what a message started.
    pub channel: String,
    /// The text.
    pub text: String,
    /// Whether the branch that is shown holds it.
    pub live: bool,
}

/// How an event stands in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether the branch that is shown holds it.
    pub live: bool,
    /// Whether it says only what the event before it said.
    pub repeats: bool,
}

impl Standing {
    /// An event of a log without branches that says something new.
    pub const PLAIN: Self = Self { live: true, repeats: false };
}

/// Where a round has got: what the numbers of the next block depend on. Only live events move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The round, 0 before the first one.
    pub round: i64,
    /// The number of the next block.
    pub block: i64,
    /// Whether the round goes on.
    pub in_round: bool,
}

/// Cuts the events of one agent, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cutter {
    /// Where the round that is shown has got.
    pub place: Place,
    /// Whether text came piece by piece since the last message of the agent, which says it again.
    pub is_said: bool,
    /// What the last event asked, so that the message that says it again starts no round of its own.
    pub asked: Option<u64>,
}

impl Cutter {
    /// Adds the blocks of the next event.
    pub fn cut(&mut self, event: &Value, standing: Standing, out: &mut Vec<Block>) {
        let kind = text_of(event, "type");
        let role = self.role(kind, event);
        if standing.live && !standing.repeats {
            self.advance(kind, role);
        }
        if role == Role::Silent {
            return;
        }
        let turn = event.get("turn_index").and_then(Value::as_i64);
        let ts = event.get("ts").and_then(Value::as_f64).filter(|ts| ts.is_finite()).unwrap_or(0.0);
        let event_id = event.get("event_id").and_then(Value::as_i64).unwrap_or(0);
        for (part, piece) in pieces(event).into_iter().enumerate() {
            let kind = self.kind_here(piece.kind, role, standing);
            let named = |wanted: Kind, field: &str| {
                if kind == wanted { text_of(event, field).to_owned() } else { String::new() }
            };
            out.push(Block {
                round: self.place.round,
                block: self.place.block,
                part,
                kind,
                turn,
                ts,
                event_id,
                tool_name: named(Kind::Tool, "name"),
                channel: named(Kind::Trigger, "channel"),
                text: piece.text,
                live: standing.live,
            });
            if standing.live && kind.is_counted() && role != Role::Aside {
                self.place.block += 1;
            }
        }
    }

    /// What an event is to what came before it. Whether it is shown does not matter here.
    fn role(&mut self, kind: &str, event: &Value) -> Role {
        let asked = self.asked.take();
        match kind {
            "user_input" => {
                self.is_said = false;
                self.asked = Some(asked_of(event));
                Role::Opens
            }
            "user_message" if asked == Some(asked_of(event)) => Role::Again,
            "user_message" | "trigger_fired" => {
                self.is_said = false;
                Role::Opens
            }
            "assistant_round_start" => {
                self.is_said = false;
                Role::Silent
            }
            "text" | "text_chunk" => {
                self.is_said = true;
                Role::Within
            }
            "assistant_message" if std::mem::take(&mut self.is_said) => Role::Silent,
            "assistant_tool_calls" if self.is_said => Role::Again,
            "tool_call" | "tool_result" => Role::Within,
            _ => Role::Aside,
        }
    }

    fn advance(&mut self, kind: &str, role: Role) {
        match role {
            Role::Opens => {
                self.place = Place { round: self.place.round.saturating_add(1), block: 0, in_round: true };
            }
            Role::Aside if kind == "processing_end" => self.place.in_round = false,
            _ => {}
        }
    }

    fn kind_here(&self, kind: Kind, role: Role, standing: Standing) -> Kind {
        let is_told = match role {
            Role::Again | Role::Silent => false,
            // What was said on a branch that was left has no round any more.
            Role::Within => self.place.in_round || !standing.live,
            Role::Opens | Role::Aside => true,
        };
        if is_told && !standing.repeats { kind } else { Kind::Other }
    }
}

/// Returns the block of a channel's message; `number` is its place in the channel.
pub fn cut_message(channel: &str, number: i64, message: &Value) -> Option<Block> {
    let piece = of_message(channel, message)?;
    Some(Block {
        round: 0,
        block: number,
        part: 0,
        kind: piece.kind,
        turn: None,
        ts: message.get("ts").and_then(Value::as_f64).filter(|ts| ts.is_finite()).unwrap_or(0.0),
        event_id: 0,
        tool_name: String::new(),
        channel: channel.to_owned(),
        text: piece.text,
        live: true,
    })
}

/// What an event is to the round around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Begins a round.
    Opens,
    /// Is part of a round, and told only there.
    Within,
    /// Stands beside the count of the round.
    Aside,
    /// Says again what is told elsewhere.
    Again,
    /// Has no text that is not told elsewhere.
    Silent,
}

fn asked_of(event: &Value) -> u64 {
    xxh3_64(event.get("content").map(flat).unwrap_or_default().as_bytes())
}

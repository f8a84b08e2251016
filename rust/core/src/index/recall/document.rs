//! A block as a document of the index: its words, and what queries filter and sort by. The text itself is
//! not kept: it stands in the session.

use std::sync::Arc;

use tantivy::schema::document::CompactDocValue;
use tantivy::schema::{
    Document, FAST, Field, IndexRecordOption, NumericOptions, Schema, TantivyDocument, TextFieldIndexing,
    TextOptions,
};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::permits::Permit;
use crate::recall::blocks::{Block, Kind};
use crate::recall::{Words, analyse};

/// The name under which [`Spaced`] is known to an index.
const TOKENS: &str = "amberlog-tokens";

/// The columns that are read by name.
pub(super) mod column {
    pub const SESSION: &str = "session";
    pub const SOURCE: &str = "source";
    pub const PLACE: &str = "place";
    pub const TS: &str = "ts";
    pub const TURN: &str = "turn";
    pub const KIND: &str = "kind";
    pub const AGENT: &str = "agent";
    pub const TOOL: &str = "tool";
    pub const SAME: &str = "same";
}

/// The fields of a document.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// The words in their order, as [`crate::recall::words`] has them.
    pub body: Field,
    /// Joined and spoken forms.
    pub whole: Field,
    /// The number of the session.
    pub session: Field,
    numbers: [Field; 7],
    ts: Field,
}

/// Where the row of a block stands, and which piece of it the block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The row's number in its table.
    pub rowid: i64,
    /// Whether it is a message of a channel, and not an event.
    pub is_message: bool,
    /// The number of the piece within the row.
    pub part: usize,
}

impl Origin {
    const PARTS: i64 = 1 << 16;

    /// The number that stands for it; those of later rows are higher.
    pub fn id(self) -> i64 {
        let part = i64::try_from(self.part).unwrap_or(0).min(Self::PARTS - 1);
        (self.rowid.saturating_mul(Self::PARTS).saturating_add(part))
            .saturating_mul(2)
            .saturating_add(i64::from(self.is_message))
    }

    /// What a number stands for.
    pub fn of(id: i64) -> Self {
        let place = id.div_euclid(2);
        Self {
            rowid: place.div_euclid(Self::PARTS),
            is_message: id.rem_euclid(2) == 1,
            part: usize::try_from(place.rem_euclid(Self::PARTS)).unwrap_or(0),
        }
    }
}

/// A block, ready to be indexed.
#[derive(Debug)]
pub(super) struct Ready {
    words: Words,
    origin: Origin,
    place: u64,
    ts: f64,
    turn: i64,
    kind: u64,
    agent: u64,
    tool: u64,
    /// What the same block has in a fork or a copy of the session, and no other block.
    pub same: u64,
}

impl Ready {
    /// Analyses a block of an agent.
    pub fn of(agent: &str, origin: Origin, block: &Block) -> Self {
        let mut words = Words::default();
        analyse(&block.text, &mut words);
        let mut same = Xxh3::new();
        for part in [agent, block.kind.name(), &block.tool_name, &block.channel, &block.text] {
            same.update(&part.len().to_le_bytes());
            same.update(part.as_bytes());
        }
        for part in [block.event_id.to_le_bytes(), block.ts.to_bits().to_le_bytes()] {
            same.update(&part);
        }
        same.update(&block.part.to_le_bytes());
        Self {
            words,
            origin,
            place: place(block.round, block.block),
            ts: block.ts,
            turn: block.turn.unwrap_or(NO_TURN),
            kind: kind_number(block.kind),
            agent: name_hash(agent),
            tool: name_hash(&block.tool_name),
            same: same.digest(),
        }
    }

    /// Bytes that it keeps in memory, about.
    pub fn size(&self) -> usize {
        self.words.body.len() + self.words.whole.len() + 256
    }

    /// A hash of all that the index holds of it.
    pub fn digest(&self) -> u64 {
        let parts = [self.same, self.place, self.origin.id().cast_unsigned(), self.turn.cast_unsigned()];
        xxh3_64(&parts.map(u64::to_le_bytes).concat())
    }

    /// The document of the block, in the session of that number.
    pub fn document(self, fields: &Fields, session: u64) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(fields.body, &self.words.body);
        if !self.words.whole.is_empty() {
            document.add_text(fields.whole, &self.words.whole);
        }
        document.add_u64(fields.session, session);
        let [source, place, turn, kind, agent, tool, same] = fields.numbers;
        document.add_i64(source, self.origin.id());
        document.add_u64(place, self.place);
        document.add_i64(turn, self.turn);
        document.add_u64(kind, self.kind);
        document.add_u64(agent, self.agent);
        document.add_u64(tool, self.tool);
        document.add_u64(same, self.same);
        document.add_f64(fields.ts, self.ts);
        document
    }
}

/// What stands for an event without a turn.
pub(super) const NO_TURN: i64 = i64::MIN;

/// What stands for a name; nobody looks for one by half of it.
pub(super) fn name_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// The number that an index keeps for a kind.
pub(super) fn kind_number(kind: Kind) -> u64 {
    Kind::ALL.iter().position(|known| *known == kind).unwrap_or_default() as u64
}

/// The kind of a number.
pub(super) fn kind_of(number: u64) -> Kind {
    usize::try_from(number).ok().and_then(|at| Kind::ALL.get(at)).copied().unwrap_or(Kind::Other)
}

fn place(round: i64, block: i64) -> u64 {
    let half = |number: i64| u64::from(u32::try_from(number.max(0)).unwrap_or(u32::MAX));
    half(round) << 32 | half(block)
}

/// Round and block that [`Ready::of`] packed.
pub(super) fn round_and_block(place: u64) -> (i64, i64) {
    let half = |number: u64| i64::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    (half(place >> 32), half(place))
}

/// A document on its way to the index, with its share of the memory for such.
#[derive(Debug)]
pub(super) struct Sent {
    pub document: TantivyDocument,
    pub _permit: Permit,
}

impl Document for Sent {
    type Value<'a> = CompactDocValue<'a>;
    type FieldsValuesIter<'a> = <TantivyDocument as Document>::FieldsValuesIter<'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.document.iter_fields_and_values()
    }

    fn into_tantivy_document(self) -> TantivyDocument {
        self.document
    }
}

impl Fields {
    /// The schema, and its fields.
    pub fn schema() -> (Schema, Self) {
        let mut builder = Schema::builder();
        let text = || {
            let indexing = TextFieldIndexing::default()
                .set_tokenizer(TOKENS)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions);
            TextOptions::default().set_indexing_options(indexing)
        };
        let body = builder.add_text_field("body", text());
        let whole = builder.add_text_field("whole", text());
        let numbered = NumericOptions::default().set_indexed().set_fieldnorm().set_fast();
        let session = builder.add_u64_field(column::SESSION, numbered);
        let numbers = [
            builder.add_i64_field(column::SOURCE, FAST),
            builder.add_u64_field(column::PLACE, FAST),
            builder.add_i64_field(column::TURN, FAST),
            builder.add_u64_field(column::KIND, FAST),
            builder.add_u64_field(column::AGENT, FAST),
            builder.add_u64_field(column::TOOL, FAST),
            builder.add_u64_field(column::SAME, FAST),
        ];
        let ts = builder.add_f64_field(column::TS, FAST);
        (builder.build(), Self { body, whole, session, numbers, ts })
    }

    /// Teaches an index how its words are cut, which is at spaces.
    pub fn teach(index: &tantivy::Index) {
        index.tokenizers().register(TOKENS, TextAnalyzer::from(Spaced::default()));
    }
}

/// Cuts text at single spaces: the words were made by [`crate::recall::words`].
#[derive(Debug, Clone, Default)]
struct Spaced {
    token: Token,
}

struct Pieces<'a> {
    rest: &'a str,
    token: &'a mut Token,
}

impl Tokenizer for Spaced {
    type TokenStream<'a> = Pieces<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Pieces<'a> {
        self.token.reset();
        Pieces { rest: text, token: &mut self.token }
    }
}

impl TokenStream for Pieces<'_> {
    fn advance(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let end = memchr::memchr(b' ', self.rest.as_bytes()).unwrap_or(self.rest.len());
        self.token.text.clear();
        self.token.text.push_str(&self.rest[..end]);
        self.token.position = self.token.position.wrapping_add(1);
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// The fields of an index, shared.
pub(super) type SharedFields = Arc<Fields>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_block_leads_back_to_its_row() {
        for rowid in [1, 2, 1 << 40] {
            for is_message in [false, true] {
                for part in [0, 1, 65_535] {
                    let origin = Origin { rowid, is_message, part };

                    assert_eq!(Origin::of(origin.id()), origin);
                }
            }
        }
    }

    #[test]
    fn words_are_cut_at_spaces_and_counted() {
        let mut spaced = Spaced::default();

        let mut stream = spaced.token_stream("重 gen itgc");
        let mut found = Vec::new();
        stream.process(&mut |token| found.push((token.text.clone(), token.position)));

        assert_eq!(found, [("重".to_owned(), 0), ("gen".to_owned(), 1), ("itgc".to_owned(), 2)]);
    }
}

//! How a table stores its rows, read from its `CREATE TABLE`.
//!
//! SQLite keeps the statement as text only. What changes how a record is read must be found in it:
//! the column that is the rowid, columns that turn integers into floating-point numbers, the order
//! of columns `WITHOUT ROWID`. A statement that is not understood is refused, never guessed at.

use super::PageFault;
use super::record::{self, Column};

/// How rows are stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    columns: Vec<Spec>,
    /// The column that stands for the rowid and is not stored.
    rowid_alias: Option<usize>,
    pub without_rowid: bool,
    /// Which column each stored value belongs to.
    stored: Vec<usize>,
    /// Whether the first column alone is the key and its index is the first automatic one, in the
    /// order of bytes.
    pub plain_key: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Spec {
    name: String,
    /// The declared type, in capitals, with `(` for a length behind it.
    of_type: String,
}

impl Spec {
    /// Whether the column has the affinity that reads stored integers as floating-point numbers.
    fn is_real(&self) -> bool {
        let has = |part: &&str| self.of_type.contains(part);
        !["INT", "CHAR", "CLOB", "TEXT", "BLOB"].iter().any(has) && ["REAL", "FLOA", "DOUB"].iter().any(has)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Quoted(String),
    Mark(char),
}

impl Token<'_> {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Quoted(text) => Some(text),
            Self::Mark(_) => None,
        }
    }
}

const COLUMN_CONSTRAINTS: [&str; 12] = [
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
    "AS",
    "DEFERRABLE",
];
const TABLE_CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

/// What is known of a statement so far.
#[derive(Default)]
struct Reading {
    columns: Vec<Spec>,
    primary: Option<Vec<usize>>,
    /// The key has an order, a collation or a position of its own.
    is_primary_special: bool,
    has_other_unique: bool,
}

impl Layout {
    /// Reads the statement; an error says what was not understood.
    pub fn parse(sql: &str) -> Result<Self, &'static str> {
        let tokens = tokens(sql)?;
        let [create, table, _, Token::Mark('('), rest @ ..] = tokens.as_slice() else {
            return Err("not a plain CREATE TABLE");
        };
        if !(create.is("CREATE") && table.is("TABLE")) {
            return Err("not a plain CREATE TABLE");
        }
        let close = closing(rest).ok_or("a list that does not end")?;
        let (body, options) = rest.split_at(close);
        let mut reading = Reading::default();
        for definition in split(body) {
            reading.definition(definition)?;
        }
        let without_rowid = is_without_rowid(options.get(1..).unwrap_or_default())?;
        reading.finish(without_rowid)
    }

    /// Whether the columns are `key` and `value`.
    pub fn is_key_value(&self) -> bool {
        matches!(self.columns.as_slice(), [key, value]
            if key.name.eq_ignore_ascii_case("key") && value.name.eq_ignore_ascii_case("value"))
    }

    /// Returns the columns of a stored row, in the order of the statement.
    pub fn row<'a>(&self, rowid: i64, payload: &'a [u8]) -> Result<Vec<Column<'a>>, PageFault> {
        let mut row = record::columns(payload)?;
        if row.len() != self.columns.len() {
            // Fewer: the row is older than the column, whose default would have to be worked out.
            return Err(PageFault::unsupported("a row with other columns than its table"));
        }
        if !self.stored.is_sorted() {
            for (value, &column) in row.clone().iter().zip(&self.stored) {
                if let Some(place) = row.get_mut(column) {
                    *place = *value;
                }
            }
        }
        for (index, (value, spec)) in row.iter_mut().zip(&self.columns).enumerate() {
            match value {
                _ if self.rowid_alias == Some(index) => *value = Column::Int(rowid),
                #[expect(clippy::cast_precision_loss, reason = "SQLite reads such a column as a double")]
                Column::Int(int) if spec.is_real() => *value = Column::Real(*int as f64),
                _ => {}
            }
        }
        Ok(row)
    }
}

impl Reading {
    fn definition(&mut self, tokens: &[Token<'_>]) -> Result<(), &'static str> {
        match tokens.first() {
            None => Err("an empty definition"),
            Some(first) if !self.columns.is_empty() && first.is_any(&TABLE_CONSTRAINTS) => {
                self.constraint(tokens)
            }
            Some(first) => {
                let name = first.name().ok_or("a column without a name")?;
                self.column(name.to_owned(), tokens.get(1..).unwrap_or_default())
            }
        }
    }

    fn column(&mut self, name: String, tokens: &[Token<'_>]) -> Result<(), &'static str> {
        let end = tokens.iter().position(|token| token.is_any(&COLUMN_CONSTRAINTS)).unwrap_or(tokens.len());
        let (of_type, constraints) = tokens.split_at(end);
        let mut text = String::new();
        for token in of_type {
            match token {
                Token::Word(word) => text.push_str(&word.to_ascii_uppercase()),
                Token::Mark('(') => text.push('('),
                Token::Mark(')' | ',' | '+' | '-') => {}
                Token::Quoted(_) | Token::Mark(_) => return Err("a type of unknown form"),
            }
            text.push(' ');
        }
        let of_type = text.trim_end().to_owned();
        let own = self.columns.len();
        let is_integer = of_type == "INTEGER";
        self.columns.push(Spec { name, of_type });
        let top = top_level(constraints);
        for (at, token) in top.iter().enumerate() {
            let next = |offset: usize| top.get(at + offset);
            if token.is("PRIMARY") && next(1).is_some_and(|next| next.is("KEY")) {
                if next(2).is_some_and(|next| next.is("DESC")) {
                    // Such a column is not the rowid, by an old mistake that SQLite keeps.
                    if is_integer {
                        return Err("an INTEGER PRIMARY KEY DESC");
                    }
                    self.is_primary_special = true;
                }
                self.set_primary(vec![own])?;
            } else if token.is("UNIQUE") {
                self.has_other_unique = true;
            } else if token.is("COLLATE") {
                self.is_primary_special = true;
            } else if token.is_any(&["GENERATED", "AS"]) {
                return Err("a generated column");
            }
        }
        Ok(())
    }

    fn constraint(&mut self, tokens: &[Token<'_>]) -> Result<(), &'static str> {
        let tokens = match tokens {
            [first, _, rest @ ..] if first.is("CONSTRAINT") => rest,
            _ => tokens,
        };
        // SQLite lets the comma between two constraints be left out.
        if top_level(tokens).iter().skip(1).any(|token| token.is_any(&TABLE_CONSTRAINTS)) {
            return Err("constraints without a comma");
        }
        match tokens {
            [first, key, Token::Mark('('), rest @ ..] if first.is("PRIMARY") && key.is("KEY") => {
                let close = closing(rest).ok_or("a list that does not end")?;
                let mut primary = Vec::new();
                for part in split(rest.get(..close).unwrap_or_default()) {
                    let name = part.first().and_then(Token::name).ok_or("a key of unknown form")?;
                    let column = self.columns.iter().position(|spec| spec.name.eq_ignore_ascii_case(name));
                    primary.push(column.ok_or("a key of an unknown column")?);
                    self.is_primary_special |= part.len() > 1;
                }
                self.set_primary(primary)
            }
            [first, ..] if first.is("UNIQUE") => {
                self.has_other_unique = true;
                Ok(())
            }
            [first, ..] if first.is_any(&["CHECK", "FOREIGN"]) => Ok(()),
            _ => Err("a constraint of unknown form"),
        }
    }

    fn set_primary(&mut self, primary: Vec<usize>) -> Result<(), &'static str> {
        if self.primary.replace(primary).is_some() { Err("two primary keys") } else { Ok(()) }
    }

    fn finish(self, without_rowid: bool) -> Result<Layout, &'static str> {
        let primary = self.primary.unwrap_or_default();
        let is_integer =
            |column: &usize| self.columns.get(*column).is_some_and(|spec| spec.of_type == "INTEGER");
        let rowid_alias = match primary.as_slice() {
            [column] if !without_rowid && is_integer(column) => Some(*column),
            _ => None,
        };
        if rowid_alias.is_some() && self.is_primary_special {
            return Err("an integer key with an order or a collation");
        }
        let mut stored: Vec<usize> = (0..self.columns.len()).collect();
        if without_rowid {
            if primary.is_empty() {
                return Err("WITHOUT ROWID and no primary key");
            }
            stored.retain(|column| !primary.contains(column));
            stored.splice(0..0, primary.iter().copied());
            if stored.len() != self.columns.len() {
                return Err("a column twice in the primary key");
            }
        }
        let is_first_alone = primary == [0] && rowid_alias.is_none();
        let plain_key = is_first_alone && !self.is_primary_special && !self.has_other_unique;
        Ok(Layout { columns: self.columns, rowid_alias, without_rowid, stored, plain_key })
    }
}

fn is_without_rowid(options: &[Token<'_>]) -> Result<bool, &'static str> {
    let mut without_rowid = false;
    for option in split(options) {
        match option {
            [] if options.is_empty() => {}
            [one, two] if one.is("WITHOUT") && two.is("ROWID") => without_rowid = true,
            [one] if one.is("STRICT") => {}
            _ => return Err("an unknown table option"),
        }
    }
    Ok(without_rowid)
}

/// Returns where the parenthesis that was opened before `tokens` is closed.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') if depth == 0 => return true,
            Token::Mark(')') => depth -= 1,
            _ => {}
        }
        false
    })
}

/// Cuts a list at its own commas, not at those inside parentheses.
fn split<'t, 'a>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t [Token<'a>]> {
    let mut depth = 0_usize;
    tokens.split(move |token| {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Mark(',')
    })
}

/// Returns the tokens outside parentheses.
fn top_level<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    let mut depth = 0_usize;
    tokens
        .iter()
        .filter(|token| {
            let outer = depth;
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            outer == 0
        })
        .collect()
}

fn tokens(sql: &str) -> Result<Vec<Token<'_>>, &'static str> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        rest = if first.is_ascii_whitespace() {
            rest.trim_ascii_start()
        } else if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if matches!(first, '"' | '\'' | '`' | '[') {
            let (text, after) = quoted(rest, first).ok_or("a quotation that does not end")?;
            found.push(Token::Quoted(text));
            after
        } else if is_in_word(first) {
            let end = rest.find(|next| !is_in_word(next)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            found.push(Token::Word(word));
            after
        } else {
            found.push(Token::Mark(first));
            rest.get(first.len_utf8()..).unwrap_or_default()
        };
    }
    Ok(found)
}

/// Numbers count as words: where the difference matters they are not allowed.
fn is_in_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$') || !letter.is_ascii()
}

/// Returns the text between quotation marks, where a doubled mark stands for itself.
fn quoted(sql: &str, open: char) -> Option<(String, &str)> {
    let close = if open == '[' { ']' } else { open };
    let mut text = String::new();
    let mut rest = sql.get(1..)?;
    loop {
        let (piece, after) = rest.split_once(close)?;
        text.push_str(piece);
        match after.strip_prefix(close) {
            Some(after) if close != ']' => {
                text.push(close);
                rest = after;
            }
            _ => return Some((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(columns: &str) -> Result<Layout, &'static str> {
        Layout::parse(&format!("CREATE TABLE t {columns}"))
    }

    #[test]
    fn only_an_integer_primary_key_is_the_rowid() {
        for (columns, alias) in [
            ("(id INTEGER PRIMARY KEY AUTOINCREMENT, v)", Some(0)),
            ("(v, \"id\" integer NOT NULL PRIMARY KEY)", Some(1)),
            ("(v TEXT, id INTEGER, CONSTRAINT c PRIMARY KEY ([ID]))", Some(1)),
            ("(id INT PRIMARY KEY)", None),
            ("(id INTEGER(8) PRIMARY KEY)", None),
            ("(id INTEGER, v, PRIMARY KEY (id, v))", None),
            ("(id INTEGER PRIMARY KEY) WITHOUT ROWID", None),
            ("(id INTEGER DEFAULT 'PRIMARY KEY')", None),
        ] {
            assert_eq!(layout(columns).map(|layout| layout.rowid_alias), Ok(alias), "{columns}");
        }
    }

    #[test]
    fn stored_columns_begin_with_the_key_without_a_rowid() {
        let ordered = layout("(a, b TEXT, c, d, PRIMARY KEY (d, B DESC)) STRICT, WITHOUT ROWID");

        assert_eq!(ordered.map(|layout| layout.stored), Ok(vec![3, 1, 0, 2]));
    }

    #[test]
    fn the_affinity_is_that_of_the_first_rule_that_fits() {
        for (of_type, is_real) in [
            ("REAL", true),
            ("double precision", true),
            ("FLOAT(3, -1)", true),
            ("FLOATING POINT", false),
            ("REAL TEXT", false),
            ("BLOB REAL", false),
            ("NUMERIC", false),
            ("", false),
        ] {
            let columns = format!("(v {of_type} NOT NULL)");

            let found = layout(&columns).map(|layout| layout.columns.iter().all(Spec::is_real));

            assert_eq!(found, Ok(is_real), "{columns}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for columns in [
            "(a, b AS (a))",
            "(a, b INT GENERATED ALWAYS AS (a) VIRTUAL)",
            "(id INTEGER PRIMARY KEY DESC)",
            "(a, b, PRIMARY KEY (a) UNIQUE (b))",
            "(a PRIMARY KEY, b PRIMARY KEY)",
            "(a, PRIMARY KEY (a, a)) WITHOUT ROWID",
            "(a) WITHOUT ROWID",
            "(a) WITHOUT OIDS",
            "(a, PRIMARY KEY (z))",
            "(a",
            "(a 'b",
            "AS SELECT 1",
            "",
        ] {
            assert!(layout(columns).is_err(), "{columns}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(CREATE TABLE t ?)?[-(),'\"`\\[\\]*/ aé1]{0,20}( PRIMARY KEY| INTEGER|UNIQUE)*\\PC{0,9}") {
            drop(Layout::parse(&text));
        }
    }
}

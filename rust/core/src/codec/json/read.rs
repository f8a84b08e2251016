//! Reading a document, all of it or nothing.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Json, MAX_DEPTH};

/// Objects of more keys are searched by a table for keys that occur twice.
const FEW_KEYS: usize = 12;

/// Why bytes are no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The byte that cannot be understood.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Returns the value that `bytes` spell, with nothing but space around it.
pub fn parse(bytes: &[u8]) -> Result<Json, Fault> {
    let mut reader = Reader::of(bytes)?;
    let value = reader.value(0)?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.fault("more after the end of the document"));
    }
    Ok(value)
}

/// Returns the values of some keys of the object that `bytes` spell, each where the object has it, and
/// builds nothing of the others. Of equal keys the last counts.
pub fn parse_parts<const N: usize>(bytes: &[u8], keys: [&str; N]) -> Result<[Option<Json>; N], Fault> {
    let mut reader = Reader::of(bytes)?;
    let mut parts = [const { None }; N];
    reader.pairs(0, |reader, depth, key| {
        let value = reader.value(depth)?;
        if let Some(slot) = keys.iter().position(|wanted| *wanted == key).and_then(|at| parts.get_mut(at)) {
            *slot = Some(value);
        }
        Ok(())
    })?;
    Ok(parts)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first byte that is no space.
    fn of(bytes: &'a [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Fault { offset: error.valid_up_to(), what: "bytes that are no UTF-8" })?;
        let mut reader = Self { text, bytes, at: 0 };
        reader.space();
        Ok(reader)
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault { offset: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    // Recursion, bounded by `MAX_DEPTH`.
    fn value(&mut self, depth: usize) -> Result<Json, Fault> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b't') if self.takes("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.takes("false") => Ok(Json::Bool(false)),
            Some(b'n') if self.takes("null") => Ok(Json::Null),
            Some(b'N') if self.takes("NaN") => Ok(Json::Number("NaN".into())),
            Some(b'I') if self.takes("Infinity") => Ok(Json::Number("Infinity".into())),
            Some(b'-') if self.takes("-Infinity") => Ok(Json::Number("-Infinity".into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.fault("no value begins here")),
            None => Err(self.fault("the document ends here")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(self.fault("nested too deeply")) }
    }

    fn list(&mut self, depth: usize) -> Result<Json, Fault> {
        let depth = self.deeper(depth)?;
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.takes("]") {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            if self.takes("]") {
                return Ok(Json::List(items));
            }
            if !self.takes(",") {
                return Err(self.fault("`,` or `]` is missing"));
            }
            self.space();
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, Fault> {
        let mut pairs = Vec::new();
        self.pairs(depth, |reader, depth, key| {
            pairs.push((key.into(), reader.value(depth)?));
            Ok(())
        })?;
        Ok(Json::Map(once(pairs)))
    }

    /// Goes through an object; `take` reads the value of each key.
    fn pairs(
        &mut self,
        depth: usize,
        mut take: impl FnMut(&mut Self, usize, &str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let depth = self.deeper(depth)?;
        if !self.takes("{") {
            return Err(self.fault("no object begins here"));
        }
        self.space();
        if self.takes("}") {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.space();
            if !self.takes(":") {
                return Err(self.fault("`:` is missing"));
            }
            self.space();
            take(self, depth, &key)?;
            self.space();
            if self.takes("}") {
                return Ok(());
            }
            if !self.takes(",") {
                return Err(self.fault("`,` or `}` is missing"));
            }
            self.space();
        }
    }

    /// Reads a key; most are spelled as they are.
    fn key(&mut self) -> Result<Cow<'a, str>, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("a key is missing"));
        }
        let begin = self.at + 1;
        self.at = begin;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(self.text.get(begin..self.at - 1).unwrap_or_default()));
        }
        self.at = begin - 1;
        match self.string()? {
            Json::Text(key) => Ok(Cow::Owned(key.into())),
            _ => Err(self.fault("a key with a lone surrogate")),
        }
    }

    fn number(&mut self) -> Result<Json, Fault> {
        let start = self.at;
        self.takes("-");
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.fault("a digit is missing")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.need_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.need_digits()?;
        }
        Ok(Json::Number(self.slice(start).into()))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn need_digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.digits();
        if self.at > start { Ok(()) } else { Err(self.fault("a digit is missing")) }
    }

    fn slice(&self, start: usize) -> &str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn string(&mut self) -> Result<Json, Fault> {
        let start = self.at;
        self.at += 1;
        let mut decoded = String::new();
        let mut is_odd = false;
        loop {
            let plain = self.at;
            self.skip_plain();
            let run = self.slice(plain);
            match self.peek() {
                Some(b'"') if decoded.is_empty() && !is_odd && plain == start + 1 => {
                    let text = Json::text(run);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'"') => {
                    decoded.push_str(run);
                    self.at += 1;
                    let odd = is_odd.then(|| Json::Odd(self.slice(start).into()));
                    return Ok(odd.unwrap_or(Json::Text(decoded.into())));
                }
                Some(b'\\') => {
                    decoded.push_str(run);
                    match self.escape()? {
                        Some(letter) => decoded.push(letter),
                        None => is_odd = true,
                    }
                }
                Some(_) => return Err(self.fault("a control character within a text")),
                None => return Err(self.fault("the document ends within a text")),
            }
        }
    }

    /// Passes over what stands for itself within a text.
    fn skip_plain(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let run = memchr::memchr2(b'"', b'\\', rest).and_then(|end| rest.get(..end)).unwrap_or(rest);
        // A control character is a fault: hardly ever there, and looked for in a pass without branches.
        let least = run.iter().copied().fold(u8::MAX, u8::min);
        let control = if least < 0x20 { run.iter().position(|&byte| byte < 0x20) } else { None };
        self.at += control.unwrap_or(run.len());
    }

    /// Reads one escape; a surrogate without its other half is `None`.
    fn escape(&mut self) -> Result<Option<char>, Fault> {
        let fault = self.fault("no such escape");
        let letter = self.bytes.get(self.at + 1).copied();
        self.at += 2;
        Ok(Some(match letter {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let unit = self.unit().ok_or_else(|| fault.clone())?;
                return self.letter(unit, &fault);
            }
            _ => return Err(fault),
        }))
    }

    fn letter(&mut self, unit: u32, fault: &Fault) -> Result<Option<char>, Fault> {
        if !(0xd800..0xdc00).contains(&unit) {
            return Ok(char::from_u32(unit));
        }
        let before = self.at;
        if self.takes("\\u") {
            let low = self.unit().ok_or_else(|| fault.clone())?;
            if (0xdc00..0xe000).contains(&low) {
                return Ok(char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00)));
            }
            self.at = before;
        }
        Ok(None)
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(self.text.get(self.at - 4..self.at)?, 16).ok()
    }
}

/// Keeps of equal keys the last value, in the place of the first.
fn once(pairs: Vec<(Box<str>, Json)>) -> Vec<(Box<str>, Json)> {
    let is_plain = pairs.len() <= FEW_KEYS
        && pairs
            .iter()
            .enumerate()
            .all(|(at, (key, _))| pairs.iter().take(at).all(|(earlier, _)| earlier != key));
    if is_plain {
        return pairs;
    }
    let mut places: HashMap<Box<str>, usize> = HashMap::with_capacity(pairs.len());
    let mut kept: Vec<(Box<str>, Json)> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        if let Some(slot) = places.get(&key).and_then(|&at| kept.get_mut(at)) {
            slot.1 = value;
        } else {
            places.insert(key.clone(), kept.len());
            kept.push((key, value));
        }
    }
    kept
}

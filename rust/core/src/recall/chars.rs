//! What one character is to the analysis, and how it is written so that `SQLite` keeps it.

use std::fmt::Write as _;

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// What a character does to the words around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Lower,
    Upper,
    Digit,
    /// A letter without case.
    Letter,
    /// A mark that carries meaning, such as a vowel sign: part of the word it stands in.
    Mark,
    /// A character of a script that writes no spaces (or, in Korean, glues particles to its words).
    Cut,
    /// An emoji or another sign that someone may look for.
    Sign,
    /// Joins two signs to one picture.
    Joiner,
    /// `_`, `-` or an apostrophe: joins parts to a word that may also be written in one.
    Connector,
    Dot,
    /// May be part of an operator such as `->`; cuts words.
    Operator,
    /// Cuts words, but the pieces still belong together: `path/to`, `user@host`.
    Soft,
    /// Cuts words and sentences.
    Hard,
    /// Not there at all.
    Ignored,
}

impl Class {
    /// Tells whether characters of this class make up words.
    pub(super) fn is_word(self) -> bool {
        matches!(self, Class::Lower | Class::Upper | Class::Digit | Class::Letter | Class::Mark)
    }
}

const fn ascii_classes() -> [Class; 128] {
    let mut table = [Class::Hard; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            b'_' | b'-' | b'\'' => Class::Connector,
            b'.' => Class::Dot,
            b'/' | b'\\' => Class::Soft,
            b'+' | b'*' | b'=' | b'<' | b'>' | b'!' | b'&' | b'|' | b'^' | b'~' | b'%' | b'?' | b':'
            | b'@' | b'#' | b'$' => Class::Operator,
            _ => Class::Hard,
        };
        byte += 1;
    }
    table
}

static ASCII: [Class; 128] = ascii_classes();

/// Returns the class of a character of NFKC text.
pub(super) fn class_of(c: char) -> Class {
    match ASCII.get(c as usize) {
        Some(class) => *class,
        None if is_plain_cut(c) => Class::Cut,
        None => class_beyond_ascii(c),
    }
}

/// The bulk of what is cut: characters without marks, case or diacritics, found without a table.
pub(super) fn is_plain_cut(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}')
}

fn class_beyond_ascii(c: char) -> Class {
    if is_ignored(c) {
        return Class::Ignored;
    }
    match c {
        '\u{200D}' => Class::Joiner,
        '\u{2018}' | '\u{2019}' | '\u{2010}' | '\u{2011}' => Class::Connector,
        _ if is_sign(c) => Class::Sign,
        _ if is_combining_mark(c) => Class::Mark,
        _ if is_cut(c) => Class::Cut,
        _ if decimal(c).is_some() => Class::Digit,
        _ if c.is_uppercase() => Class::Upper,
        _ if c.is_lowercase() => Class::Lower,
        _ if c.is_alphanumeric() => Class::Letter,
        _ => Class::Hard,
    }
}

/// Characters that format or decorate: two spellings that differ by them alone are one word.
fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{640}' | '\u{180B}'..='\u{180F}' | '\u{200C}' | '\u{200E}'
        | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206F}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}'
        // Marks of Latin, Greek, Cyrillic and of symbols, but for the keycap at U+20E3.
        | '\u{300}'..='\u{36F}' | '\u{483}'..='\u{489}' | '\u{1AB0}'..='\u{1AFF}'
        | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20E2}' | '\u{20E4}'..='\u{20FF}'
        | '\u{FE20}'..='\u{FE2F}'
        // Vowel points of Hebrew and Arabic, which everyday text leaves out.
        | '\u{591}'..='\u{5BD}' | '\u{5BF}' | '\u{5C1}' | '\u{5C2}' | '\u{5C4}' | '\u{5C5}' | '\u{5C7}'
        | '\u{610}'..='\u{61A}' | '\u{64B}'..='\u{65F}' | '\u{670}' | '\u{6D6}'..='\u{6DC}'
        | '\u{6DF}'..='\u{6E4}' | '\u{6E7}' | '\u{6E8}' | '\u{6EA}'..='\u{6ED}')
}

/// Signs worth a word of their own. Box drawing, blocks and Braille are left out: in the sessions of
/// agents they are frames and progress bars.
fn is_sign(c: char) -> bool {
    matches!(c,
        '\u{A2}'..='\u{A7}' | '\u{A9}' | '\u{AC}' | '\u{AE}' | '\u{B0}' | '\u{B1}' | '\u{D7}' | '\u{F7}'
        | '\u{203C}' | '\u{2049}' | '\u{20A0}'..='\u{20CF}' | '\u{20E3}' | '\u{2190}'..='\u{23FF}'
        | '\u{25A0}'..='\u{27E5}' | '\u{27F0}'..='\u{27FF}' | '\u{2900}'..='\u{2982}'
        | '\u{2999}'..='\u{29D7}' | '\u{29DC}'..='\u{29FB}' | '\u{29FE}'..='\u{2BFF}' | '\u{3030}'
        | '\u{303D}' | '\u{1F000}'..='\u{1F0FF}' | '\u{1F10D}'..='\u{1F10F}'
        | '\u{1F150}'..='\u{1FAFF}')
}

fn is_cut(c: char) -> bool {
    matches!(c,
        // Han, Kana, Bopomofo, Hangul.
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}'
        | '\u{3031}'..='\u{3035}' | '\u{3038}'..='\u{303C}' | '\u{3041}'..='\u{309F}'
        | '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{312F}' | '\u{3131}'..='\u{318E}'
        | '\u{31A0}'..='\u{31BF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{1100}'..='\u{11FF}'
        | '\u{A960}'..='\u{A97C}' | '\u{AC00}'..='\u{D7FB}' | '\u{1AFF0}'..='\u{1B2FB}'
        | '\u{20000}'..='\u{3FFFD}'
        // Thai, Lao, Myanmar, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Javanese, Cham, Tai Viet.
        | '\u{E01}'..='\u{E4E}' | '\u{E81}'..='\u{ECE}' | '\u{EDC}'..='\u{EDF}'
        | '\u{1000}'..='\u{103F}' | '\u{1050}'..='\u{108F}' | '\u{109A}'..='\u{109F}'
        | '\u{1780}'..='\u{17D3}' | '\u{17D7}' | '\u{17DC}' | '\u{17DD}' | '\u{1950}'..='\u{19C9}'
        | '\u{1A20}'..='\u{1A7C}' | '\u{1B00}'..='\u{1B4C}' | '\u{A980}'..='\u{A9C0}'
        | '\u{A9E0}'..='\u{A9EF}' | '\u{A9FA}'..='\u{A9FE}' | '\u{AA00}'..='\u{AA4D}'
        | '\u{AA60}'..='\u{AA7F}' | '\u{AA80}'..='\u{AADD}')
        && (c.is_alphanumeric() || matches!(c, '\u{3005}'..='\u{3007}'))
}

/// Returns the ASCII digit that a decimal digit of another script stands for.
fn decimal(c: char) -> Option<char> {
    const ZEROS: [u32; 15] = [
        0x660, 0x6F0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0, 0x1040,
        0x17E0,
    ];
    let code = c as u32;
    let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

/// Hands on the lower case of a character of NFKC text, without its diacritics.
pub(super) fn fold(c: char, emit: &mut impl FnMut(char)) {
    if c.is_ascii() {
        return emit(c.to_ascii_lowercase());
    }
    if let Some(digit) = decimal(c) {
        return emit(digit);
    }
    for lower in c.to_lowercase() {
        match lower {
            'ß' => ['s', 's'].into_iter().for_each(&mut *emit),
            'æ' => ['a', 'e'].into_iter().for_each(&mut *emit),
            'œ' => ['o', 'e'].into_iter().for_each(&mut *emit),
            'ı' => emit('i'),
            'ø' => emit('o'),
            'ł' => emit('l'),
            'đ' | 'ð' => emit('d'),
            'ħ' => emit('h'),
            'ŧ' => emit('t'),
            'ς' => emit('σ'),
            'ё' => emit('е'),
            // Letters that Persian and Arabic keyboards write with different code points.
            'ی' | 'ى' => emit('ي'),
            'ک' => emit('ك'),
            // Beyond these scripts a decomposition is another letter (й, が, 각), not a diacritic.
            '\u{C0}'..='\u{24F}'
            | '\u{370}'..='\u{3FF}'
            | '\u{1E00}'..='\u{1FFF}'
            | '\u{622}'..='\u{6D3}' => {
                decompose_canonical(lower, |piece| {
                    if !is_ignored(piece) {
                        emit(piece);
                    }
                });
            }
            _ if is_ignored(lower) => {}
            _ => emit(lower),
        }
    }
}

/// Writes a folded character as letters and digits that the tokenizer `unicode61` leaves alone.
///
/// A mark up to U+18FF becomes a private-use character, of which there are exactly enough; what else
/// the tokenizer would drop is spelt in hexadecimal. Text never brings private-use characters of its
/// own: they cut words.
pub(super) fn push_kept(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || is_plain_cut(c) || is_kept(c) {
        return out.push(c);
    }
    match char::from_u32(0xE000 + c as u32) {
        Some(private) if (c as u32) < 0x1900 && !c.is_ascii() => out.push(private),
        _ => push_hex(c, out),
    }
}

/// Writes a character by its code point: `u1f680x`.
pub(super) fn push_hex(c: char, out: &mut String) {
    // Writing to a string cannot fail.
    if write!(out, "u{:x}x", c as u32).is_err() {
        out.push('x');
    }
}

/// Letters and numbers as `unicode61` counts them; a test compares every code point.
fn is_kept(c: char) -> bool {
    c.is_alphanumeric()
        && !is_combining_mark(c)
        && !is_sign(c)
        && !matches!(c, '\u{19B0}'..='\u{19C9}' | '\u{1CF2}' | '\u{1CF3}')
}

/// A regional indicator: two of them are a flag.
pub(super) fn is_regional(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}

/// A skin tone, which says nothing about what the sign before it is.
pub(super) fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1F3FB}'..='\u{1F3FF}')
}

/// Which of the scripts without spaces a character belongs to, as far as queries ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Han,
    Hiragana,
    Katakana,
    Hangul,
    Other,
}

/// Returns the script of a character that stands for a word by itself.
pub(super) fn script_of(c: char) -> Script {
    match c {
        '\u{3041}'..='\u{309F}' => Script::Hiragana,
        '\u{30A0}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' => Script::Katakana,
        '\u{AC00}'..='\u{D7FB}' | '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97C}' => Script::Hangul,
        '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFD}' => Script::Han,
        _ => Script::Other,
    }
}

//! The JSON text of a tool call's arguments, as providers expect it.

use std::fmt::{self, Display, Formatter, Write};

use crate::codec::Value;

/// Returns the arguments of a call as JSON text; a string is taken for such text already.
///
/// The spelling is that of Python's `json.dumps`, so that an announcement which is rebuilt here equals
/// the one that another reader of the same log rebuilds.
pub(crate) fn arguments(args: Option<&Value>) -> String {
    match args {
        None | Some(Value::Nil) => "{}".to_owned(),
        Some(Value::Str(text)) => text.clone(),
        Some(value) => json(value),
    }
}

/// Returns a value as JSON text.
pub(super) fn json(value: &Value) -> String {
    Json(value).to_string()
}

struct Json<'v>(&'v Value);

impl Display for Json<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Nil => out.write_str("null"),
            Value::Bool(flag) => write!(out, "{flag}"),
            Value::Int(number) => write!(out, "{number}"),
            Value::UInt(number) => write!(out, "{number}"),
            Value::Float(number) => write_float(out, *number),
            Value::Str(text) => write_string(out, text),
            Value::List(items) => {
                out.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    write!(out, "{}{}", if at == 0 { "" } else { ", " }, Json(item))?;
                }
                out.write_char(']')
            }
            Value::Map(pairs) => {
                out.write_char('{')?;
                for (at, (key, item)) in pairs.iter().enumerate() {
                    out.write_str(if at == 0 { "" } else { ", " })?;
                    write_string(out, key)?;
                    write!(out, ": {}", Json(item))?;
                }
                out.write_char('}')
            }
        }
    }
}

fn write_string(out: &mut Formatter<'_>, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            ' '..='~' => out.write_char(c)?,
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.write_char('"')
}

/// Writes the shortest digits that read back as the same number: with an exponent below `1e-4` and from
/// `1e16` on, as Python has it.
fn write_float(out: &mut Formatter<'_>, number: f64) -> fmt::Result {
    let scientific = format!("{number:e}");
    let Some((digits, power)) = scientific.split_once('e') else {
        return out.write_str(&scientific);
    };
    let power: i32 = power.parse().unwrap_or_default();
    if (-4..16).contains(&power) {
        let plain = number.to_string();
        out.write_str(&plain)?;
        return out.write_str(if plain.contains('.') { "" } else { ".0" });
    }
    let sign = if power < 0 { '-' } else { '+' };
    write!(out, "{digits}e{sign}{:02}", power.abs())
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::*;

    #[test]
    fn arguments_are_spelled_as_python_spells_them() {
        let args = record([
            ("q", string("é\"\\\n\u{7f}😀")),
            ("n", Value::List(vec![Value::Int(-1), Value::Bool(true), Value::Nil])),
            ("f", Value::List([1.0, 0.1, 1e16, 1.5e-5, 1e22, 123_456.75].map(Value::Float).to_vec())),
        ]);

        let text = arguments(Some(&args));

        assert_eq!(
            text,
            "{\"q\": \"\\u00e9\\\"\\\\\\n\\u007f\\ud83d\\ude00\", \"n\": [-1, true, null], \
             \"f\": [1.0, 0.1, 1e+16, 1.5e-05, 1e+22, 123456.75]}"
        );
    }

    #[test]
    fn text_stays_as_it_is_and_nothing_is_an_empty_object() {
        assert_eq!(arguments(Some(&string("{\"a\":1}"))), "{\"a\":1}");
        assert_eq!(arguments(None), "{}");
        assert_eq!(arguments(Some(&Value::Nil)), "{}");
    }
}

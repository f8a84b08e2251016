//! Values as a person reads them, in the spelling of Python's `str`.

use std::fmt::{self, Display, Formatter};

use crate::codec::Value;

/// A value that writes itself as Python's `str` would, but for escapes: a text within a list keeps its
/// line breaks and backslashes, for escaped ones would run into the words beside them.
pub(super) struct Spelt<'v>(pub(super) &'v Value);

impl Display for Spelt<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Str(text) => out.write_str(text),
            value => write_inner(out, value),
        }
    }
}

fn write_inner(out: &mut Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Nil => out.write_str("None"),
        Value::Bool(true) => out.write_str("True"),
        Value::Bool(false) => out.write_str("False"),
        Value::Int(number) => write!(out, "{number}"),
        Value::UInt(number) => write!(out, "{number}"),
        Value::Float(number) => write_float(out, *number),
        Value::Str(text) => write_quoted(out, text),
        Value::List(items) => {
            out.write_str("[")?;
            for (at, item) in items.iter().enumerate() {
                out.write_str(if at == 0 { "" } else { ", " })?;
                write_inner(out, item)?;
            }
            out.write_str("]")
        }
        Value::Map(pairs) => {
            out.write_str("{")?;
            for (at, (key, item)) in pairs.iter().enumerate() {
                out.write_str(if at == 0 { "" } else { ", " })?;
                write_quoted(out, key)?;
                out.write_str(": ")?;
                write_inner(out, item)?;
            }
            out.write_str("}")
        }
    }
}

fn write_quoted(out: &mut Formatter<'_>, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    write!(out, "{quote}{text}{quote}")
}

/// Python writes an exponent with its sign and at least two digits.
fn write_float(out: &mut Formatter<'_>, number: f64) -> fmt::Result {
    if number.is_nan() {
        return out.write_str("nan");
    }
    let plain = format!("{number:?}");
    let Some((mantissa, exponent)) = plain.split_once('e') else { return out.write_str(&plain) };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    write!(out, "{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spelt_as_python_spells_them() {
        let list = Value::List(vec![
            Value::Nil,
            true.into(),
            Value::Float(1e16),
            Value::Float(0.00005),
            Value::Float(2.0),
            "it's".into(),
            "plain".into(),
        ]);
        let map = Value::Map(vec![("a".into(), list), ("b".into(), Value::UInt(u64::MAX))]);

        let spelt = Spelt(&map).to_string();

        assert_eq!(
            spelt,
            "{'a': [None, True, 1e+16, 5e-05, 2.0, \"it's\", 'plain'], 'b': 18446744073709551615}"
        );
        assert_eq!(Spelt(&"as it is".into()).to_string(), "as it is");
        assert_eq!(Spelt(&Value::Float(f64::INFINITY)).to_string(), "inf");
    }
}

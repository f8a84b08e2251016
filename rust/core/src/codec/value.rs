//! One decoded value: what JSON can say, with integers and floats kept apart.

use super::key::{Key, Sought};

/// A decoded value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Python's `None`.
    #[default]
    Nil,
    /// A truth value.
    Bool(bool),
    /// Every integer from `i64::MIN` to `i64::MAX`.
    Int(i64),
    /// An integer above `i64::MAX`; smaller ones are [`Value::Int`].
    UInt(u64),
    /// A double, NaN and the infinities included where a peer wrote them.
    Float(f64),
    /// A text.
    Str(String),
    /// A list.
    List(Vec<Value>),
    /// A map in the order of insertion; of two equal keys the last counts.
    Map(Vec<(Key, Value)>),
}

impl Value {
    /// Returns the value under `key` when this is a map that has it; linear in the number of keys.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let sought = Sought::of(key);
        self.as_map()?.iter().rev().find_map(|(name, value)| sought.is(name).then_some(value))
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer that an `i64` can hold; a float or a bool is none.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns a number as a double, rounded to the nearest beyond 2⁵³; a bool is none.
    #[expect(clippy::cast_precision_loss, reason = "the caller asks for a double")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            Self::Int(number) => Some(*number as f64),
            Self::UInt(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// Returns a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the entries of a map in their order.
    pub fn as_map(&self) -> Option<&[(Key, Value)]> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns what Python's `bool()` says of this value.
    pub fn truthy(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::UInt(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Map(entries) => !entries.is_empty(),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::UInt(number), Self::Int)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn truth_is_pythons() {
        let empty =
            [Value::Nil, false.into(), 0_i64.into(), (-0.0).into(), "".into(), Value::List(Vec::new())];
        let full = [true.into(), Value::UInt(u64::MAX), f64::NAN.into(), "0".into()];

        let (no, yes) = (empty.iter().any(Value::truthy), full.iter().all(Value::truthy));

        assert!(!no && yes);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let map = Value::Map(vec![("a".into(), 1_i64.into()), ("a".into(), 2_i64.into())]);

        let found = map.get("a");

        assert_eq!(found.and_then(Value::as_i64), Some(2));
    }
}

//! Why a value was refused, and where in it: `$.args.x[3]`.

use std::fmt::Write as _;

use amberlog_core::Error;

/// A longer key is cut in a message.
const KEY_CHARS: usize = 64;
/// Of a longer path a message shows the two ends.
const STEPS_AT_AN_END: usize = 16;

/// One step into a value.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Why a value is refused; where is found out when it is.
pub(super) struct Refusal {
    what: String,
    by_type: bool,
    by_container: bool,
}

impl Refusal {
    /// The type of the value at hand cannot be stored.
    #[cold]
    pub(super) fn of_type(what: String) -> Self {
        Self { what, by_type: true, by_container: false }
    }

    /// The value at hand cannot be stored.
    #[cold]
    pub(super) fn of_value(what: impl Into<String>) -> Self {
        Self { what: what.into(), by_type: false, by_container: false }
    }

    /// Not the value at hand is refused but the container that it stands in.
    #[cold]
    pub(super) fn by_container(self) -> Self {
        Self { by_container: true, ..self }
    }

    /// Adds the place: the steps to the value at hand, from the outside.
    pub(super) fn at(self, mut steps: Vec<Step<'_>>) -> Error {
        if self.by_container {
            steps.pop();
        }
        Error::Unstorable { at: path(&steps), what: self.what, by_type: self.by_type }
    }
}

fn path(steps: &[Step<'_>]) -> String {
    let left_out = STEPS_AT_AN_END..steps.len().saturating_sub(STEPS_AT_AN_END);
    let mut path = "$".to_owned();
    for (number, step) in steps.iter().enumerate() {
        if number == left_out.start && !left_out.is_empty() {
            path.push('…');
        }
        if !left_out.contains(&number) {
            step.write(&mut path);
        }
    }
    path
}

impl Step<'_> {
    fn write(self, path: &mut String) {
        // Writing to a string cannot fail.
        let (Ok(()) | Err(_)) = match self {
            Self::Index(index) => write!(path, "[{index}]"),
            Self::Key(key) if is_identifier(key) => write!(path, ".{key}"),
            Self::Key(key) => match key.char_indices().nth(KEY_CHARS) {
                Some((end, _)) => write!(path, "[{:?}…]", key.get(..end).unwrap_or_default()),
                None => write!(path, "[{key:?}]"),
            },
        };
    }
}

fn is_identifier(key: &str) -> bool {
    key.len() <= KEY_CHARS
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && !key.is_empty()
        && key.chars().all(|c| c == '_' || c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{Refusal, Step};

    #[test]
    fn a_path_names_keys_and_indexes_from_the_outside() {
        let steps = [Step::Key("args"), Step::Key("größe"), Step::Key("a \"b\"\n"), Step::Index(3)];

        let value = Refusal::of_value("x").at(steps.to_vec()).to_string();
        let container = Refusal::of_value("x").by_container().at(steps.to_vec()).to_string();

        assert_eq!(value, r#"$.args.größe["a \"b\"\n"][3]: x"#);
        assert_eq!(container, r#"$.args.größe["a \"b\"\n"]: x"#);
    }

    #[test]
    fn a_long_path_and_a_long_key_are_cut() {
        let key = "k".repeat(200);
        let steps = [Step::Key(&key)].into_iter().chain((0..40).map(Step::Index)).collect();

        let text = Refusal::of_value("x").at(steps).to_string();

        assert!(text.starts_with(&format!("$[\"{}\"…][0]", "k".repeat(64))), "{text}");
        assert!(
            text.ends_with("[13][14]…[24][25][26][27][28][29][30][31][32][33][34][35][36][37][38][39]: x")
        );
    }
}

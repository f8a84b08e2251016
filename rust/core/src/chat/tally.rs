//! What the summary of an archive counts: who spoke, which tools ran, which files were named.

use std::collections::BTreeSet;

use super::document::Message;
use crate::codec::json::Json;

/// How many file names a summary lists; of the rest it gives the number.
const FILES_LISTED: usize = 5;
/// How many letters the ending of a file name has at most.
const ENDING: usize = 4;
/// More names are not remembered: a summary only counts them.
const NAMES: usize = 1000;

/// Counts over many messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    roles: Vec<(Box<str>, usize)>,
    tools: BTreeSet<Box<str>>,
    files: BTreeSet<Box<str>>,
}

impl Tally {
    /// Counts the messages of an archive.
    pub fn of(archive: &[Message]) -> Self {
        let roles = ["user", "assistant", "tool", "system"].map(|role| (role.into(), 0)).to_vec();
        let mut tally = Self { roles, ..Self::default() };
        for message in archive {
            tally.add(&message.json());
        }
        tally
    }

    /// Counts one more.
    pub fn add(&mut self, message: &Json) {
        let role = message.get("role").and_then(Json::as_str).unwrap_or("user");
        let has_room = self.roles.len() < NAMES;
        match self.roles.iter_mut().find(|(name, _)| **name == *role) {
            Some((_, count)) => *count += 1,
            None if has_room => self.roles.push((role.into(), 1)),
            None => {}
        }
        if role != "tool" {
            return;
        }
        if let Some(name) = message.get("metadata").and_then(|found| found.get("name")).and_then(Json::as_str)
            && self.tools.len() < NAMES
        {
            self.tools.insert(name.into());
        }
        for name in message.get("content").and_then(Json::as_str).map(file_names).unwrap_or_default() {
            if self.files.len() < NAMES {
                self.files.insert(name.into());
            }
        }
    }

    /// Returns the lines of the summary of `count` messages.
    pub fn text(&self, count: i64) -> String {
        let roles: Vec<String> =
            self.roles.iter().map(|(name, count)| format!("'{name}': {count}")).collect();
        let mut text =
            format!("Previous conversation: {count} messages\nMessage breakdown: {{{}}}", roles.join(", "));
        let list =
            |names: Vec<&Box<str>>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !self.tools.is_empty() {
            text.push_str("\nTools used: ");
            text.push_str(&list(self.tools.iter().collect()));
        }
        if !self.files.is_empty() {
            text.push_str("\nFiles referenced: ");
            text.push_str(&list(self.files.iter().take(FILES_LISTED).collect()));
            if self.files.len() > FILES_LISTED {
                text.extend([" (+", &(self.files.len() - FILES_LISTED).to_string(), " more)"]);
            }
        }
        text
    }
}

/// The parts of a text that look like names of files: something, a dot, one to four letters.
fn file_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for mut word in text.split_whitespace() {
        while let Some(end) = end_of_name(word) {
            let (name, rest) = word.split_at(end);
            names.push(name);
            word = rest;
        }
    }
    names
}

fn end_of_name(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    let dot = (1..bytes.len())
        .rev()
        .find(|&at| bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic))?;
    let letters =
        bytes.iter().skip(dot + 1).take(ENDING).take_while(|byte| byte.is_ascii_alphabetic()).count();
    Some(dot + 1 + letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_end_in_a_dot_and_up_to_four_letters() {
        assert_eq!(file_names("read a/b.py, x.python .rs 1.5 é.md"), ["a/b.py", "x.pyth", "é.md"]);
    }

    #[test]
    fn a_summary_counts_roles_and_lists_tools_and_files() {
        let message = |text: &str| Message::new(&crate::codec::json::parse(text.as_bytes()).unwrap());
        let archive = [
            message(r#"{"role": "user", "content": "x"}"#),
            message(r#"{"role": "tool", "content": "wrote a.py", "metadata": {"name": "write"}}"#),
        ];

        let text = Tally::of(&archive).text(2);

        assert_eq!(
            text,
            "Previous conversation: 2 messages\nMessage breakdown: {'user': 1, 'assistant': 0, 'tool': 1, \
             'system': 0}\nTools used: write\nFiles referenced: a.py"
        );
    }
}

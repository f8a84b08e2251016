//! The name of a tool, from an event that may only hold its label.

use super::field::{JOB, identity, truthy};
use crate::codec::Value;

/// Returns the name that a provider knows the tool by.
///
/// Logs hold the label `bash[ab12cd]` in places, or no name at all: then the id of the job begins with it.
pub(super) fn tool_name(event: &Value) -> String {
    let name = truthy(event, "tool_name").or_else(|| event.get("name"));
    if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
        return unlabelled(name).to_owned();
    }
    let job = identity(event, JOB);
    job.rsplit_once('_').map_or(&*job, |(name, _)| name).to_owned()
}

fn unlabelled(name: &str) -> &str {
    let plain = |text: &str| !text.is_empty() && !text.contains(['[', ']', '\r', '\n']);
    let suffix = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.strip_suffix(']').and_then(|open| open.split_once('[')) {
        Some((tool, digits)) if plain(tool) && suffix(digits) => tool,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::{record, string};
    use super::*;

    #[test]
    fn a_label_loses_its_suffix_and_other_brackets_stay() {
        for (name, tool) in
            [("bash[ab12CD]", "bash"), ("a[b]", "a[b]"), ("x[12345g]", "x[12345g]"), ("[abcdef]", "[abcdef]")]
        {
            assert_eq!(tool_name(&record([("name", string(name))])), tool);
        }
    }

    #[test]
    fn a_missing_name_is_read_from_the_job() {
        assert_eq!(
            tool_name(&record([("name", string("")), ("call_id", string("web_fetch_ff01"))])),
            "web_fetch"
        );
        assert_eq!(tool_name(&record([("job_id", string("plain"))])), "plain");
        assert_eq!(tool_name(&record([("tool_name", string("grep")), ("name", string("x"))])), "grep");
    }
}

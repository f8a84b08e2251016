//! Cutting a session from another at a message.

use super::document::Document;
use super::name::Name;
use super::store::{Change, Store};
use crate::codec::json::Json;
use crate::{Error, Result};

impl Store {
    /// Makes the session `child` of the messages of `parent` up to and with the one at `at`, or of
    /// all, and notes it in the parent.
    ///
    /// The archive and a checkpoint of the copied messages go with them; routes do not. Killed
    /// between its two writes, it leaves a child that its parent does not know.
    /// [`Error::NotFound`] without a parent, [`Error::Invalid`] where there is no such message.
    pub fn fork(
        &self,
        parent: &Name,
        child: &Name,
        at: Option<i64>,
        title: Option<&str>,
        change: Change,
    ) -> Result<()> {
        let Some(original) = self.document(parent)? else {
            return Err(Error::NotFound { path: self.file_of(parent)? });
        };
        let kept = match at {
            None => original.messages.len(),
            Some(at) => usize::try_from(at)
                .ok()
                .filter(|&at| at < original.messages.len())
                .map(|at| at + 1)
                .ok_or_else(|| Error::invalid(format!("there is no message {at} to fork at")))?,
        };
        let title = title.map_or_else(|| format!("Fork of {}", name_of(&original, parent)), str::to_owned);
        let new = Change { only_new: true, ..change };
        self.change(child, new, |document| {
            copy(&original, document, kept);
            document.set("parent_id", Json::text(parent.id()));
            let place = at.map_or(Json::Null, |at| Json::text(&at.to_string()));
            document.set("forked_from_message_id", place);
            document.set("children_ids", Json::List(Vec::new()));
            document.set("is_shared", Json::Bool(false));
            document.set("title", Json::text(&title));
            document.set("snapshots", Json::List(Vec::new()));
            Ok(true)
        })?;
        self.adopt(parent, child, change)
    }

    /// Notes a child in its parent. [`Error::NotFound`] without a parent.
    pub fn adopt(&self, parent: &Name, child: &Name, change: Change) -> Result<()> {
        if !self.exists(parent)? {
            return Err(Error::NotFound { path: self.file_of(parent)? });
        }
        let adopted = self.change(parent, Change { only_new: false, ..change }, |document| {
            let mut children = match document.get("children_ids") {
                Some(Json::List(children)) => children.clone(),
                _ => Vec::new(),
            };
            let id = Json::text(child.id());
            let is_new = !children.contains(&id);
            if is_new {
                children.push(id);
                document.set("children_ids", Json::List(children));
            }
            Ok(is_new)
        });
        adopted.map(drop)
    }
}

fn name_of(original: &Document, name: &Name) -> String {
    let title = original.get("title").and_then(Json::as_str).filter(|title| !title.is_empty());
    title.unwrap_or(name.id()).to_owned()
}

fn copy(original: &Document, document: &mut Document, kept: usize) {
    document.messages.clone_from(&original.messages);
    document.archive.clone_from(&original.archive);
    for key in ["agent_name", "metadata", "last_compaction"] {
        if let Some(value) = original.get(key) {
            document.set(key, value.clone());
        }
    }
    document.cut(kept);
}

//! What a list shows of a session, and by what it is found.

use super::document::Document;
use crate::codec::json::Json;

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name of the file.
    pub file: String,
    /// The id, or the file's stem where the document says none.
    pub session_id: Json,
    /// The row as JSON, with the keys of the peer.
    pub row: Box<str>,
    /// When the session was last written, as the document has it.
    pub updated: Box<str>,
    /// The agent that talked.
    pub agent_name: Json,
    /// The id outside that leads to the session.
    pub gateway_session_id: Json,
    /// The gateway's agent.
    pub agent_id: Json,
}

impl Entry {
    /// Returns the entry of a document.
    pub(super) fn of(file: &str, document: &Document) -> Self {
        let plain = |key: &str| document.get(key).cloned().unwrap_or_default();
        let either = |key: &str| document.get_or_metadata(key).cloned().unwrap_or_default();
        let any = |keys: [&str; 2]| {
            let set = |key: &&str| document.get(key).filter(|value| value.is_truthy());
            let inner = || document.get("metadata").and_then(|found| found.get(keys[0]));
            keys.iter().find_map(set).or_else(inner).cloned().unwrap_or_default()
        };
        let session_id = id_of(file, document);
        let title =
            document.get("metadata").and_then(|found| found.get("title")).cloned().unwrap_or_default();
        let row = Json::Map(
            [
                ("session_id", session_id.clone()),
                ("id", session_id.clone()),
                ("agent_name", plain("agent_name")),
                ("title", title),
                ("agent_id", either("agent_id")),
                ("source", either("source")),
                ("parent_id", either("parent_id")),
                ("parent_session_id", either("parent_session_id")),
                ("agent_key", either("agent_key")),
                ("created_at", plain("created_at")),
                ("updated_at", plain("updated_at")),
                ("message_count", Json::int(document.message_count())),
                ("model", any(["model", "llm"])),
                ("total_tokens", any(["total_tokens", "token_count"])),
                ("cost", either("cost")),
            ]
            .map(|(key, value)| (key.into(), value))
            .into(),
        );
        Self {
            file: file.to_owned(),
            row: row.to_text().into(),
            updated: document.get("updated_at").and_then(Json::as_str).unwrap_or_default().into(),
            agent_name: plain("agent_name"),
            gateway_session_id: plain("gateway_session_id"),
            agent_id: plain("agent_id"),
            session_id,
        }
    }
}

/// The id of a document, or the stem of its file where it says none.
pub(super) fn id_of(file: &str, document: &Document) -> Json {
    let stem = || Json::text(file.strip_suffix(super::name::ENDING).unwrap_or(file));
    document.get("session_id").cloned().unwrap_or_else(stem)
}

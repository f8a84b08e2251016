//! A session's row in the sidecar: what a listing says about it.

use std::borrow::Cow;

use crate::codec::Value;
use crate::codec::msgpack::{
    Reader, Token, put_bool, put_f64, put_i64, put_list_header, put_map_header, put_nil, put_str, put_value,
};
use crate::db::sidecar::SEARCH_COLUMNS;

/// The field that leads from an entry to its row in the peer's text index; no part of a listing.
pub const SEARCH_ROWID: &str = "_search_rowid";

/// How many fields the peer's entry has, [`SEARCH_ROWID`] among them.
const FIELDS: usize = 30;

/// What is listed of one session. The first group are the peer's fields, under its names.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key of the session: the name of its file, with `mirror/` before it where the same name
    /// is taken in the directory itself.
    pub filename: String,
    /// The name without `.kohakutr`, its version or `.kt`.
    pub name: String,
    /// When file or log were last written, in seconds since 1970.
    pub file_mtime: f64,
    /// Bytes of the file.
    pub file_size: i64,
    /// The newest message of the user to the first agent.
    pub preview: String,
    /// Where the session's configuration is.
    pub config_path: String,
    /// Its agents.
    pub agents: Vec<String>,
    /// Its working directory.
    pub pwd: String,
    /// `agent`, `terrarium`, or `unknown`.
    pub config_type: String,
    /// `running`, `paused`, `completed`, `crashed`.
    pub status: String,
    /// When something last happened in it, ISO 8601.
    pub last_active: String,
    /// When it was made, ISO 8601.
    pub created_at: String,
    /// The version of its format.
    pub format_version: i64,
    /// The node it runs on; empty for this one.
    pub node_id: String,
    /// The name of its terrarium.
    pub terrarium_name: String,
    /// Whether its conversation goes on.
    pub conversation_open: bool,
    /// The id of its conversation.
    pub conversation_id: Option<String>,
    /// Whether vectors were built for it.
    pub has_vector_index: bool,
    /// The session that it was forked from.
    pub parent_session_id: Option<String>,
    /// The event at which it was forked.
    pub fork_point: Option<i64>,
    /// The ids of its forks.
    pub forked_children: Vec<String>,
    /// The format version that it was migrated from.
    pub migrated_from_version: Option<i64>,
    /// Its title.
    pub title: String,
    /// Its summary.
    pub summary: String,
    /// Who wrote the summary.
    pub summary_source: String,
    /// What the user said last.
    pub last_user: String,
    /// What was last answered.
    pub last_reply: String,
    /// How often the user spoke.
    pub turn_count: i64,
    /// The peer's record of who runs it: a map.
    pub lifecycle: Value,
    /// What the peer's entry does not have.
    pub extra: Extra,
}

/// What is listed beyond the peer's fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extra {
    /// The file's path below the session directory.
    pub path: String,
    /// The session's id.
    pub session_id: String,
    /// How many events it holds.
    pub event_count: i64,
    /// The tokens that its agents have used, in and out.
    pub total_tokens: i64,
    /// Bytes of its write-ahead log.
    pub wal_size: i64,
    /// Bytes of its artifacts, as of when it was read.
    pub artifact_size: i64,
    /// What could not be read of it; empty when all could.
    pub damage: String,
}

impl Extra {
    /// The extra fields of the entry `file` as a list, which [`Extra::unpack`] reads.
    pub fn pack(&self, file: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        put_list_header(&mut out, 7);
        if self.path == file {
            put_nil(&mut out);
        } else {
            put_str(&mut out, &self.path);
        }
        put_str(&mut out, &self.session_id);
        for number in [self.event_count, self.total_tokens, self.wal_size, self.artifact_size] {
            put_i64(&mut out, number);
        }
        put_str(&mut out, &self.damage);
        out
    }

    /// Reads what [`Extra::pack`] wrote; what is missing is empty.
    pub fn unpack(file: &str, packed: &[u8]) -> Self {
        let mut reader = Reader::new(packed);
        let mut next = |is_there: bool| if is_there { reader.token().ok() } else { None };
        let is_list = matches!(next(true), Some(Token::List(_)));
        let mut text = |or: &str| match next(is_list) {
            Some(Token::Str(text)) => text.to_owned(),
            _ => or.to_owned(),
        };
        let (path, session_id) = (text(file), text(""));
        let mut number = || match next(is_list) {
            Some(Token::Int(number)) => number,
            Some(Token::UInt(number)) => i64::try_from(number).unwrap_or(i64::MAX),
            _ => 0,
        };
        let (event_count, total_tokens, wal_size, artifact_size) = (number(), number(), number(), number());
        let damage = match next(is_list) {
            Some(Token::Str(text)) => text.to_owned(),
            _ => String::new(),
        };
        Self { path, session_id, event_count, total_tokens, wal_size, artifact_size, damage }
    }

    /// How many extra fields there are.
    pub const COUNT: usize = 7;

    /// Writes the fields as pairs of a map.
    pub fn put_pairs(&self, out: &mut Vec<u8>) {
        for (key, text) in [("path", &self.path), ("session_id", &self.session_id), ("damage", &self.damage)]
        {
            put_str(out, key);
            put_str(out, text);
        }
        for (key, number) in [
            ("event_count", self.event_count),
            ("total_tokens", self.total_tokens),
            ("wal_size", self.wal_size),
            ("artifact_size", self.artifact_size),
        ] {
            put_str(out, key);
            put_i64(out, number);
        }
    }

    /// Reads the fields that a caller gives; what is missing is empty.
    pub fn of(value: &Value) -> Self {
        let number = |key: &str| value.get(key).and_then(Value::as_i64).unwrap_or(0);
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            path: text("path"),
            session_id: text("session_id"),
            event_count: number("event_count"),
            total_tokens: number("total_tokens"),
            wal_size: number("wal_size"),
            artifact_size: number("artifact_size"),
            damage: text("damage"),
        }
    }
}

impl Entry {
    /// An entry of which nothing is known but its file.
    pub fn empty(filename: &str) -> Self {
        Self {
            filename: filename.to_owned(),
            name: super::name::stem(filename.rsplit('/').next().unwrap_or(filename)).to_owned(),
            file_mtime: 0.0,
            file_size: 0,
            preview: String::new(),
            config_path: String::new(),
            agents: Vec::new(),
            pwd: String::new(),
            config_type: "unknown".to_owned(),
            status: String::new(),
            last_active: String::new(),
            created_at: String::new(),
            format_version: 1,
            node_id: String::new(),
            terrarium_name: String::new(),
            conversation_open: false,
            conversation_id: None,
            has_vector_index: false,
            parent_session_id: None,
            fork_point: None,
            forked_children: Vec::new(),
            migrated_from_version: None,
            title: String::new(),
            summary: String::new(),
            summary_source: String::new(),
            last_user: String::new(),
            last_reply: String::new(),
            turn_count: 0,
            lifecycle: Value::Map(Vec::new()),
            extra: Extra::default(),
        }
    }

    /// The entry as the peer stores it, keys in its order.
    pub fn pack(&self, search_rowid: i64) -> Vec<u8> {
        let mut out = Vec::with_capacity(800);
        put_map_header(&mut out, FIELDS);
        put_str(&mut out, SEARCH_ROWID);
        put_i64(&mut out, search_rowid);
        strings(&mut out, "agents", &self.agents);
        text(&mut out, "config_path", &self.config_path);
        text(&mut out, "config_type", &self.config_type);
        optional(&mut out, "conversation_id", self.conversation_id.as_deref(), put_str);
        truth(&mut out, "conversation_open", self.conversation_open);
        text(&mut out, "created_at", &self.created_at);
        put_str(&mut out, "file_mtime");
        put_f64(&mut out, self.file_mtime);
        number(&mut out, "file_size", self.file_size);
        text(&mut out, "filename", &self.filename);
        optional(&mut out, "fork_point", self.fork_point, put_i64);
        strings(&mut out, "forked_children", &self.forked_children);
        number(&mut out, "format_version", self.format_version);
        truth(&mut out, "has_vector_index", self.has_vector_index);
        text(&mut out, "last_active", &self.last_active);
        text(&mut out, "last_reply", &self.last_reply);
        text(&mut out, "last_user", &self.last_user);
        put_str(&mut out, "lifecycle");
        put_value(&mut out, &self.lifecycle);
        optional(&mut out, "migrated_from_version", self.migrated_from_version, put_i64);
        text(&mut out, "name", &self.name);
        text(&mut out, "node_id", &self.node_id);
        optional(&mut out, "parent_session_id", self.parent_session_id.as_deref(), put_str);
        text(&mut out, "preview", &self.preview);
        text(&mut out, "pwd", &self.pwd);
        text(&mut out, "status", &self.status);
        text(&mut out, "summary", &self.summary);
        text(&mut out, "summary_source", &self.summary_source);
        text(&mut out, "terrarium_name", &self.terrarium_name);
        text(&mut out, "title", &self.title);
        number(&mut out, "turn_count", self.turn_count);
        out
    }

    /// Reads an entry as the peer stores it, or as a caller gives it; what is missing is empty.
    pub fn of(filename: &str, value: &Value) -> Self {
        let blank = Self::empty(filename);
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| value.get(key).and_then(Value::as_i64);
        let truth = |key: &str| value.get(key).is_some_and(Value::truthy);
        let or = |found: String, other: String| if found.is_empty() { other } else { found };
        let words = |key: &str| -> Vec<String> {
            let items = value.get(key).and_then(Value::as_list).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            name: or(text("name"), blank.name),
            file_mtime: value.get("file_mtime").and_then(Value::as_f64).unwrap_or(0.0),
            file_size: number("file_size").unwrap_or(0),
            preview: text("preview"),
            config_path: text("config_path"),
            agents: words("agents"),
            pwd: text("pwd"),
            config_type: or(text("config_type"), blank.config_type),
            status: text("status"),
            last_active: text("last_active"),
            created_at: text("created_at"),
            format_version: number("format_version").unwrap_or(1),
            node_id: text("node_id"),
            terrarium_name: text("terrarium_name"),
            conversation_open: truth("conversation_open"),
            conversation_id: value.get("conversation_id").and_then(Value::as_str).map(str::to_owned),
            has_vector_index: truth("has_vector_index"),
            parent_session_id: value.get("parent_session_id").and_then(Value::as_str).map(str::to_owned),
            fork_point: number("fork_point"),
            forked_children: words("forked_children"),
            migrated_from_version: number("migrated_from_version"),
            title: text("title"),
            summary: text("summary"),
            summary_source: text("summary_source"),
            last_user: text("last_user"),
            last_reply: text("last_reply"),
            turn_count: number("turn_count").unwrap_or(0),
            lifecycle: value
                .get("lifecycle")
                .filter(|map| map.as_map().is_some())
                .cloned()
                .unwrap_or(blank.lifecycle),
            extra: Extra::of(value),
            filename: blank.filename,
        }
    }

    /// What the peer's text index is given of [`SEARCH_COLUMNS`]. It looks for a phrase in any column: what
    /// the preview and the user's last words both say, as they mostly do, is found by the latter.
    pub fn peer_columns(&self) -> [Cow<'_, str>; SEARCH_COLUMNS.len()] {
        let mut columns = self.search_columns();
        if self.preview == self.last_user {
            columns[1] = Cow::Borrowed("");
        }
        columns
    }

    /// The texts of [`SEARCH_COLUMNS`], in that order.
    pub fn search_columns(&self) -> [Cow<'_, str>; SEARCH_COLUMNS.len()] {
        let agents = match self.agents.as_slice() {
            [agent] => Cow::Borrowed(agent.as_str()),
            agents => Cow::Owned(agents.join(" ")),
        };
        [
            self.name.as_str().into(),
            self.preview.as_str().into(),
            self.config_path.as_str().into(),
            agents,
            self.pwd.as_str().into(),
            self.terrarium_name.as_str().into(),
            self.config_type.as_str().into(),
            self.title.as_str().into(),
            self.summary.as_str().into(),
            self.last_user.as_str().into(),
            self.last_reply.as_str().into(),
        ]
    }
}

fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    put_str(out, key);
    put_str(out, value);
}

fn number(out: &mut Vec<u8>, key: &str, value: i64) {
    put_str(out, key);
    put_i64(out, value);
}

fn truth(out: &mut Vec<u8>, key: &str, value: bool) {
    put_str(out, key);
    put_bool(out, value);
}

fn strings(out: &mut Vec<u8>, key: &str, values: &[String]) {
    put_str(out, key);
    put_list_header(out, values.len());
    for value in values {
        put_str(out, value);
    }
}

fn optional<T>(out: &mut Vec<u8>, key: &str, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_str(out, key);
    match value {
        Some(value) => put(out, value),
        None => put_nil(out),
    }
}

//! Holds the house up: which room may use which, where pragmas live, how long a file may be.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The rooms from low to high. A room uses the floors below its own.
const FLOORS: [&[&str]; 8] = [
    &["error"],
    &["clock"],
    &["model"],
    &["codec"],
    &["db", "files"],
    &["lineage", "recall"],
    &["bundle", "chat"],
    &["index"],
];

/// Sources that work on values alone: no connection, no file.
const PURE: [&str; 3] = ["lineage/", "recall/blocks/", "recall/vectors/"];

/// The first number of lines that is too many.
const TOO_LONG: usize = 500;

struct Source {
    /// The path below `src` or `rust`, with `/` between its parts.
    name: String,
    /// The text without its comments.
    code: String,
    lines: usize,
}

#[test]
fn a_room_uses_only_rooms_below_it() -> io::Result<()> {
    let sources = core_sources()?;

    let broken: Vec<String> = sources
        .iter()
        .flat_map(|source| used_rooms(source).into_iter().map(move |used| (source, used)))
        .filter(|(source, used)| !may_use(room_of(&source.name), used))
        .map(|(source, used)| format!("{} uses {used}", source.name))
        .collect();

    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

#[test]
fn what_works_on_values_opens_no_file_and_no_database() -> io::Result<()> {
    let sources = core_sources()?;

    let broken: Vec<String> = sources
        .iter()
        .filter(|source| PURE.iter().any(|pure| source.name.starts_with(pure)))
        .filter(|source| {
            let reaches = |room: &&str| *room == "db" || *room == "files";
            used_rooms(source).iter().any(reaches)
                || ["rusqlite", "std::fs", "rustix"].iter().any(|tool| source.code.contains(tool))
        })
        .map(|source| source.name.clone())
        .collect();

    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

#[test]
fn the_core_has_never_heard_of_python() -> io::Result<()> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let sources = core_sources()?;

    let broken: Vec<&str> = sources
        .iter()
        .filter(|source| source.code.contains("pyo3"))
        .map(|source| source.name.as_str())
        .collect();

    assert!(!manifest.contains("pyo3"), "rust/core/Cargo.toml names pyo3");
    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

#[test]
fn pragmas_live_in_db() -> io::Result<()> {
    let sources = core_sources()?;

    let broken: Vec<&str> = sources
        .iter()
        .filter(|source| room_of(&source.name) != "db")
        .filter(|source| source.code.to_lowercase().contains("pragma"))
        .map(|source| source.name.as_str())
        .collect();

    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

#[test]
fn a_file_stays_under_500_lines() -> io::Result<()> {
    let workspace = root().join("..");
    let sources = read_all(&workspace, &["core", "py"])?;

    let broken: Vec<String> = sources
        .iter()
        .filter(|source| source.lines >= TOO_LONG)
        .map(|source| format!("{}: {} lines", source.name, source.lines))
        .collect();

    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

#[test]
fn uses_are_read_from_every_form_of_path() {
    let source = |name: &str, code: &str| Source { name: name.into(), code: code.into(), lines: 1 };

    let found = [
        used_rooms(&source("db/open.rs", "use crate::files::Lock;")),
        used_rooms(&source("db/open.rs", "use crate::{\n  codec::{a, b},\n  model,\n};")),
        used_rooms(&source("db/open.rs", "let x = super::super::bundle::open();")),
        used_rooms(&source("db/mod.rs", "use super::clock::Clock;")),
        used_rooms(&source("db/open.rs", "use super::schema; use crate::Error;")),
    ];

    assert_eq!(found, [vec!["files"], vec!["model", "codec"], vec!["bundle"], vec!["clock"], vec![]]);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn core_sources() -> io::Result<Vec<Source>> {
    let mut sources = read_all(root(), &["src"])?;
    for source in &mut sources {
        source.name = source.name.trim_start_matches("src/").to_owned();
    }
    Ok(sources)
}

/// Reads every Rust file below some folders of a directory.
fn read_all(directory: &Path, folders: &[&str]) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| directory.join(folder)).collect();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let below = path.strip_prefix(directory).unwrap_or(&path);
                let name = below.to_string_lossy().replace('\\', "/");
                sources.push(Source { name, code: without_comments(&text), lines: text.lines().count() });
            }
        }
    }
    sources.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(sources)
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.find("//").map_or(line, |at| &line[..at])).collect::<Vec<_>>().join("\n")
}

fn room_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name).trim_end_matches(".rs")
}

fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

fn may_use(room: &str, used: &str) -> bool {
    match (floor_of(room), floor_of(used)) {
        // `lib.rs` and whatever stands outside of the rooms brings them together.
        (None, _) | (_, None) => true,
        (Some(own), Some(other)) => room == used || other < own,
    }
}

/// Returns the rooms that a source names in its paths, each once, in the order of the rooms.
fn used_rooms(source: &Source) -> Vec<&'static str> {
    let mut roots = vec!["crate::", "super::super::"];
    // One step up from a room's own file is the crate; from a file inside of it, the room.
    if source.name.ends_with("/mod.rs") || !source.name.contains('/') {
        roots.push("super::");
    }
    let heads: Vec<&str> = roots
        .iter()
        .flat_map(|root| source.code.match_indices(root).map(move |(at, _)| at + root.len()))
        .flat_map(|at| heads_of(&source.code[at..]))
        .collect();
    FLOORS.concat().into_iter().filter(|room| heads.contains(room)).collect()
}

/// Returns the first names of a path: one, or those of a group in braces.
fn heads_of(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![first_word(path)];
    };
    let mut depth = 0_usize;
    let mut begins = vec![0];
    let mut ends = group.len();
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                ends = at;
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => begins.push(at + 1),
            _ => {}
        }
    }
    begins.into_iter().filter(|at| *at < ends).map(|at| first_word(group[at..ends].trim_start())).collect()
}

fn first_word(path: &str) -> &str {
    let ends = path.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    &path[..ends.unwrap_or(path.len())]
}

//! Bringing the index level with the directory: only files that changed are read.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use super::build::Quickly;
use super::disk::Disk;
use super::read::{self, Task};
use super::rows;
use crate::chat::proof::Stamp;
use crate::chat::scan::{is_session, look};
use crate::db::fault::translate;
use crate::files::watch::{Changed, Watch};
use crate::{Error, Result};

/// So many segments of about one size become one.
const TIER: usize = 8;
/// Segments with more text stay as they are, unless most of their sessions have moved on.
const FULL: i64 = 8 << 20;
/// Of so many files it is looked up whether their bytes are known.
const FEW: usize = 1024;
/// So many are looked at before a transaction is begun.
const SEALED: usize = 16;

/// What a process knows of index and directory.
#[derive(Debug, Default)]
pub(super) struct Known {
    generation: Option<i64>,
    /// Which making of the tables that was.
    birth: i64,
    /// The hash of each file's print, by the hash of its name.
    prints: HashMap<u64, u64, Quickly>,
    /// The directory when it was last looked at, where no later change can look the same.
    directory: Option<Stamp>,
    /// Tells what changes, where the system does.
    watch: Option<Watch>,
    /// Whether all was looked at since the watch began.
    is_watched: bool,
}

impl Known {
    /// Forgets everything, so that all is looked at again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Which making of the tables is level.
    pub(super) fn birth(&self) -> i64 {
        self.birth
    }

    /// Reads what changed and writes it in one transaction; returns whether anything may have.
    pub(super) fn level(&mut self, disk: &Disk, directory: &Path, now: f64) -> Result<bool> {
        let failed = |error: std::io::Error| Error::io(directory, "list", &error);
        match self.watch.as_ref().map(Watch::changed) {
            Some(Changed::Names(names)) if self.is_watched => {
                let names: Vec<String> = names.into_iter().filter(|name| is_session(name)).collect();
                if names.is_empty() {
                    return Ok(false);
                }
                // What was told is told once: where this fails all is looked at.
                self.is_watched = false;
                self.level_names(disk, directory, &names, now)?;
                self.is_watched = true;
                return Ok(true);
            }
            Some(Changed::Names(_)) => {}
            Some(Changed::Unknown) | None => {
                // Begun before the look, so that nothing falls between the two.
                self.watch = Watch::on(directory);
                self.is_watched = false;
            }
        }
        let stamp = Stamp::look(directory).map_err(failed)?;
        if self.watch.is_none() && stamp.is_some() && self.directory == stamp {
            return Ok(false);
        }
        let files = look(directory).map_err(failed)?;
        self.reload(disk)?;
        self.level_files(disk, directory, files.clone(), None, now)?;
        let is_sure = files.iter().all(|(_, stamp)| !stamp.is_young(now));
        self.directory = stamp.filter(|stamp| is_sure && !stamp.is_young(now));
        self.is_watched = self.watch.is_some();
        Ok(true)
    }

    fn level_names(&mut self, disk: &Disk, directory: &Path, names: &[String], now: f64) -> Result<()> {
        let mut files = Vec::new();
        let mut gone = Vec::new();
        for name in names {
            let path = directory.join(name);
            match Stamp::look(&path).map_err(|error| Error::io(&path, "look at", &error))? {
                Some(stamp) => files.push((name.clone(), stamp)),
                None => gone.push(name.clone()),
            }
        }
        self.reload(disk)?;
        gone.retain(|file| self.prints.contains_key(&name_hash(file)));
        self.level_files(disk, directory, files, Some(gone), now)
    }

    /// Reads those of some files that changed; they are all there are, unless it is said which are gone.
    fn level_files(
        &mut self,
        disk: &Disk,
        directory: &Path,
        files: Vec<(String, Stamp)>,
        gone: Option<Vec<String>>,
        now: f64,
    ) -> Result<()> {
        let mut tasks = Vec::new();
        let mut met = 0_usize;
        for (file, stamp) in &files {
            let known = self.prints.get(&name_hash(file));
            met += usize::from(known.is_some());
            // What is noted as unsure is like no sure one: it is read again.
            if known != Some(&print_hash(&stamp.pack(true))) {
                tasks.push(Task { file: file.clone(), size: stamp.size(), known: None });
            }
        }
        let gone = match gone {
            Some(gone) => Gone::These(gone),
            None if met < self.prints.len() => {
                Gone::AllBut(files.into_iter().map(|(file, _)| file).collect())
            }
            None => Gone::These(Vec::new()),
        };
        let is_any_gone = !matches!(&gone, Gone::These(files) if files.is_empty());
        if is_any_gone || !self.seal(disk, directory, &mut tasks, now)? {
            self.write(disk, directory, gone, tasks, now)?;
        }
        Ok(())
    }

    /// Looks whether the few files that may have changed have not, and notes where that is sure now.
    fn seal(&mut self, disk: &Disk, directory: &Path, tasks: &mut [Task], now: f64) -> Result<bool> {
        if tasks.len() > FEW {
            return Ok(false);
        }
        let fault = |source: rusqlite::Error| translate(disk.path(), "write", &source);
        disk.read(|connection| note_known(connection, tasks))?;
        if tasks.len() > SEALED || tasks.iter().any(|task| task.known.is_none()) {
            return Ok(tasks.is_empty());
        }
        let mut same = Vec::new();
        let mut is_same = true;
        read::read_all(directory, tasks, now, |mut batch| {
            is_same &= batch.cards.is_empty() && batch.gone.is_empty();
            same.append(&mut batch.same);
            Ok(())
        })?;
        same.retain(|card| {
            is_same && self.prints.get(&name_hash(&card.file)) != Some(&print_hash(&card.print))
        });
        if !same.is_empty() {
            disk.write(|connection| rows::seal(connection, &same).map_err(fault))?;
            self.prints.extend(same.iter().map(|card| (name_hash(&card.file), print_hash(&card.print))));
        }
        Ok(is_same)
    }

    fn reload(&mut self, disk: &Disk) -> Result<()> {
        let known = self.generation;
        let read = disk.read(|connection| {
            let generation = rows::generation(connection)?;
            if known == Some(generation) {
                return Ok(None);
            }
            let mut all = connection.prepare_cached("SELECT file, print FROM amber_session")?;
            let pairs = all.query_map([], |row| {
                let (file, print) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_blob()?);
                Ok((name_hash(file), print_hash(print)))
            })?;
            Ok(Some((generation, pairs.collect::<rusqlite::Result<_>>()?)))
        })?;
        if let Some((generation, prints)) = read {
            self.generation = Some(generation);
            self.birth = rows::birth(generation);
            self.prints = prints;
        }
        Ok(())
    }

    fn write(
        &mut self,
        disk: &Disk,
        directory: &Path,
        gone: Gone,
        mut tasks: Vec<Task>,
        now: f64,
    ) -> Result<()> {
        // Where this fails, or another has written meanwhile, all is read again next time.
        let known = self.generation.take();
        let fault = |source: rusqlite::Error| translate(disk.path(), "write", &source);
        let full_text = disk.has_full_text();
        let mut prints = Vec::new();
        let mut forgotten = Vec::new();
        let generation = disk.write(|connection| {
            forgotten = gone.files(connection).map_err(fault)?;
            add_small_segments(connection, &mut tasks).map_err(fault)?;
            read::read_all(directory, &tasks, now, |mut batch| {
                forgotten.append(&mut batch.gone);
                let all = batch.same.iter().chain(&batch.cards);
                prints.extend(all.map(|card| (name_hash(&card.file), print_hash(&card.print))));
                rows::seal(connection, &batch.same).map_err(fault)?;
                if batch.cards.is_empty() {
                    return Ok(());
                }
                rows::put(connection, &batch.cards, &batch.segment, full_text).map_err(fault)
            })?;
            rows::forget(connection, &forgotten, full_text).map_err(fault)?;
            rows::sweep(connection).map_err(fault)?;
            rows::next(connection, "generation").map_err(fault)
        })?;
        if known.is_some_and(|known| known + 1 == generation) {
            self.generation = Some(generation);
            self.prints.extend(prints);
            for file in &forgotten {
                self.prints.remove(&name_hash(file));
            }
        }
        Ok(())
    }
}

/// Which files of the index are gone.
enum Gone {
    These(Vec<String>),
    AllBut(HashSet<String>),
}

impl Gone {
    fn files(self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let present = match self {
            Self::These(files) => return Ok(files),
            Self::AllBut(present) => present,
        };
        let mut all = connection.prepare_cached("SELECT file FROM amber_session")?;
        let mut found = all.query([])?;
        let mut gone = Vec::new();
        while let Some(row) = found.next()? {
            let file = row.get_ref(0)?.as_str()?;
            if !present.contains(file) {
                gone.push(file.to_owned());
            }
        }
        Ok(gone)
    }
}

fn note_known(connection: &Connection, tasks: &mut [Task]) -> rusqlite::Result<()> {
    let mut hash = connection.prepare_cached("SELECT hash FROM amber_session WHERE file = ?1")?;
    for task in tasks {
        task.known = hash.query_row([&task.file], |row| row.get(0)).optional()?;
    }
    Ok(())
}

/// Has the sessions of small segments read again, so that they become one: of each session that
/// happens a few times only, since a segment of them is several times as large.
fn add_small_segments(connection: &Connection, tasks: &mut Vec<Task>) -> rusqlite::Result<()> {
    const COUNTS: &str = "\
SELECT s.id, s.size, length(s.messages), (SELECT count(*) FROM amber_session WHERE segment = s.id) \
FROM amber_segment AS s";
    let mut tiers: HashMap<u32, Vec<(i64, u64)>> = HashMap::new();
    let mut chosen: Vec<(i64, u64)> = Vec::new();
    let mut all = connection.prepare_cached(COUNTS)?;
    let mut found = all.query([])?;
    while let Some(row) = found.next()? {
        let (id, size, places, live): (i64, i64, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let each = u64::try_from(size / places.max(1)).unwrap_or(0);
        if live * 2 < places {
            chosen.push((id, each));
        } else if size < FULL {
            tiers.entry(live.max(1).ilog2() / 3).or_default().push((id, each));
        }
    }
    chosen.extend(tiers.into_values().filter(|tier| tier.len() >= TIER).flatten());
    if chosen.is_empty() {
        return Ok(());
    }
    let mut planned: HashSet<String> = tasks.iter().map(|task| task.file.clone()).collect();
    let mut members = connection.prepare_cached("SELECT file FROM amber_session WHERE segment = ?1")?;
    for (segment, each) in chosen {
        for file in members.query_map([segment], |row| row.get::<_, String>(0))? {
            let file = file?;
            if planned.insert(file.clone()) {
                tasks.push(Task { file, size: each, known: None });
            }
        }
    }
    Ok(())
}

fn name_hash(file: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(file.as_bytes())
}

fn print_hash(print: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(print)
}

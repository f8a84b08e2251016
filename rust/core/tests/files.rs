//! Plain files beside a bundle: the writer lock across processes, artifacts, atomic replacement.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use amberlog_core::Error;
use amberlog_core::files::artifact::{artifacts_dir, resolve_artifact, write_artifact};
use amberlog_core::files::fingerprint::Fingerprint;
use amberlog_core::files::lock::{WriterLock, lock_path};
use amberlog_core::files::replace::replace_atomically;
use proptest::prelude::*;
use tempfile::TempDir;

fn bundle_in(directory: &TempDir) -> PathBuf {
    directory.path().join("chat.kohakutr")
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Asks as a stranger would, with the primitive that the peer uses.
fn another_process_may_lock(bundle: &Path) -> bool {
    let script = "import fcntl, sys\n\
                  with open(sys.argv[1], 'a+b') as file:\n    \
                      try:\n        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    \
                      except BlockingIOError:\n        sys.exit(75)\n";
    let status = Command::new("python3").arg("-c").arg(script).arg(lock_path(bundle)).status().unwrap();
    match status.code() {
        Some(0) => true,
        Some(75) => false,
        other => panic!("the other process ended with {other:?}"),
    }
}

fn descriptors_of(path: &Path) -> usize {
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter(|entry| fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|target| target == path))
        .count()
}

#[test]
fn another_process_is_refused_until_the_last_lock_is_dropped() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);

    let first = WriterLock::shared(&bundle).unwrap();
    let second = WriterLock::shared(&bundle).unwrap();

    assert!(!another_process_may_lock(&bundle));
    drop(first);
    assert!(!another_process_may_lock(&bundle));
    drop(second);
    assert!(another_process_may_lock(&bundle));
    assert!(lock_path(&bundle).exists());
}

#[test]
#[cfg(target_os = "linux")]
fn a_held_lock_costs_no_descriptor() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);

    let shared = WriterLock::shared(&bundle).unwrap();
    assert_eq!(descriptors_of(&lock_path(&bundle)), 0);
    assert_eq!(fs::metadata(lock_path(&bundle)).unwrap().len(), 0);
    drop(shared);
    let exclusive = WriterLock::exclusive(&bundle).unwrap();
    assert_eq!(descriptors_of(&lock_path(&bundle)), 0);

    assert!(!another_process_may_lock(&bundle));
    drop(exclusive);
    assert!(another_process_may_lock(&bundle));
}

#[test]
fn an_exclusive_holder_signs_the_file_and_is_named_to_others() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    fs::write(lock_path(&bundle), "\n123456789\n1700000000\nand a longer text of old\n").unwrap();

    let lock = WriterLock::exclusive(&bundle).unwrap();

    let text = fs::read_to_string(lock_path(&bundle)).unwrap();
    let lines: Vec<_> = text.split('\n').collect();
    assert!(matches!(lines.as_slice(), ["", pid, time, ""]
        if *pid == std::process::id().to_string() && time.parse::<u64>().unwrap() > 1_700_000_000));
    for refused in [WriterLock::shared(&bundle), WriterLock::exclusive(&bundle)] {
        assert!(matches!(refused, Err(Error::Locked { path, holder_pid: Some(pid) })
            if path == bundle && pid == std::process::id()));
    }
    drop(lock);
    WriterLock::exclusive(&bundle).unwrap();
}

#[test]
fn a_signature_of_old_is_not_taken_for_a_shared_holder() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    drop(WriterLock::exclusive(&bundle).unwrap());

    let _shared = WriterLock::shared(&bundle).unwrap();
    let refused = WriterLock::exclusive(&bundle);

    assert!(matches!(refused, Err(Error::Locked { holder_pid: None, .. })));
}

#[test]
fn a_planted_lock_file_is_neither_followed_nor_waited_for() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    let target = directory.path().join("target");
    symlink(&target, lock_path(&bundle)).unwrap();

    for refused in [WriterLock::shared(&bundle), WriterLock::exclusive(&bundle)] {
        assert!(matches!(refused, Err(Error::Io { .. })));
    }
    assert!(!target.exists());

    fs::remove_file(lock_path(&bundle)).unwrap();
    assert!(Command::new("mkfifo").arg(lock_path(&bundle)).status().unwrap().success());
    for refused in [WriterLock::shared(&bundle), WriterLock::exclusive(&bundle)] {
        assert!(matches!(refused, Err(Error::Io { .. })));
    }
}

#[test]
fn the_artifact_directory_has_the_stem_that_python_gives_it() {
    for (bundle, expected) in [
        ("s/x.kohakutr", "s/x.artifacts"),
        ("s/x.kohakutr.v2", "s/x.kohakutr.artifacts"),
        ("x.kt", "x.artifacts"),
        ("s/.hidden", "s/.hidden.artifacts"),
        ("s/.hidden.kt", "s/.hidden.artifacts"),
        ("s/x.", "s/x..artifacts"),
        ("s/plain", "s/plain.artifacts"),
        ("s/明日.kohakutr", "s/明日.artifacts"),
    ] {
        assert_eq!(artifacts_dir(Path::new(bundle)), Path::new(expected));
    }
}

#[test]
fn an_artifact_is_written_read_and_replaced() {
    let directory = TempDir::new().unwrap();
    let root = artifacts_dir(&bundle_in(&directory));

    write_artifact(&root, "nested/dir/note.txt", b"old").unwrap();
    let path = write_artifact(&root, "./nested/./dir/note.txt", b"new").unwrap();

    assert_eq!(path, root.join("nested/dir/note.txt"));
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(resolve_artifact(&root, "nested/dir/note.txt").unwrap(), path.canonicalize().unwrap());
    assert_eq!(names_in(&root.join("nested/dir")), ["note.txt"]);
    assert!(matches!(resolve_artifact(&root, "nested/none"), Err(Error::NotFound { .. })));
}

#[test]
fn a_name_that_could_lead_out_is_refused_and_named() {
    let directory = TempDir::new().unwrap();
    let root = artifacts_dir(&bundle_in(&directory));

    for name in [
        "",
        "/etc/passwd",
        "../x",
        "a/../../b",
        "a/..",
        "..",
        ".",
        "./.",
        "a//b",
        "a/",
        "a/.",
        "a\0b",
        "a\\b",
        "..\\x",
        "C:x",
        "c:/x",
        "a/C:x",
        "//host/x",
    ] {
        let refused = [write_artifact(&root, name, b"x"), resolve_artifact(&root, name)];

        for result in refused {
            assert!(
                matches!(&result, Err(Error::Invalid { what }) if name.is_empty() || what.contains(&format!("{name:?}"))),
                "{name:?}: {result:?}"
            );
        }
    }
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn a_link_leads_no_artifact_out_of_its_directory() {
    let directory = TempDir::new().unwrap();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "kept").unwrap();
    let root = directory.path().join("s.artifacts");
    fs::create_dir(&root).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    symlink(outside.join("victim"), root.join("file")).unwrap();
    let planted = directory.path().join("t.artifacts");
    symlink(&outside, &planted).unwrap();

    assert!(matches!(write_artifact(&root, "link/victim", b"x"), Err(Error::Invalid { .. })));
    assert!(matches!(write_artifact(&root, "link/new/x", b"x"), Err(Error::Invalid { .. })));
    assert!(matches!(write_artifact(&planted, "victim", b"x"), Err(Error::Invalid { .. })));
    assert!(matches!(resolve_artifact(&root, "link/victim"), Err(Error::Invalid { .. })));
    assert!(matches!(resolve_artifact(&root, "file"), Err(Error::Invalid { .. })));
    write_artifact(&root, "file", b"in place of the link").unwrap();

    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "kept");
    assert_eq!(names_in(&outside), ["victim"]);
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "in place of the link");
}

#[test]
fn a_replacement_keeps_the_permissions_and_leaves_nothing_else() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("chat.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

    replace_atomically(&path, b"new", true).unwrap();

    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names_in(directory.path()), ["chat.json"]);
}

#[test]
fn a_failed_replacement_leaves_no_temporary_file() {
    let directory = TempDir::new().unwrap();
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).unwrap();

    let refused = replace_atomically(&taken, b"new", false);

    assert!(matches!(refused, Err(Error::Io { path, action: "write", errno: Some(_), .. }) if path == taken));
    assert_eq!(names_in(directory.path()), ["taken"]);
    let missing = replace_atomically(&directory.path().join("none/x"), b"new", false);
    assert!(matches!(missing, Err(Error::Io { .. })));
}

#[test]
fn a_fingerprint_follows_the_content_and_the_log() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    assert!(matches!(Fingerprint::of(&bundle), Err(Error::NotFound { .. })));
    fs::write(&bundle, "one").unwrap();
    let wal = directory.path().join("chat.kohakutr-wal");
    fs::write(&wal, "").unwrap();
    let link = directory.path().join("link.kohakutr");
    symlink(&bundle, &link).unwrap();

    let first = Fingerprint::of(&bundle).unwrap();
    let through_link = Fingerprint::of(&link).unwrap();
    fs::write(&wal, "frame").unwrap();
    let live = Fingerprint::of(&link).unwrap();
    fs::write(&bundle, "three").unwrap();
    let grown = Fingerprint::of(&bundle).unwrap();

    assert_eq!(first.wal, None);
    assert_eq!(first, through_link);
    assert!(!first.same_content(&live));
    assert!(!live.same_content(&grown));
    assert_eq!((first.size, grown.size), (3, 5));
}

proptest! {
    #[test]
    fn no_name_whatever_reaches_outside(name in "[a./\\\\:C\u{0}é]{0,12}") {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("s.artifacts");

        let written = write_artifact(&root, &name, b"x");

        if let Ok(path) = written {
            prop_assert!(path.canonicalize().unwrap().starts_with(root.canonicalize().unwrap()));
            prop_assert_eq!(resolve_artifact(&root, &name).unwrap(), path.canonicalize().unwrap());
        }
        prop_assert!(names_in(directory.path()).iter().all(|name| name == "s.artifacts"));
    }
}

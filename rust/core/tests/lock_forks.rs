//! The lock of a bundle and children of a plain fork, which inherit what a started program does not.
//!
//! A binary of its own: a program that another test starts holds every descriptor between its fork
//! and its exec, which no handler of ours can see, and with it for a moment a lock just let go.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use amberlog_core::files::lock::WriterLock;
use tempfile::TempDir;

fn bundle_in(directory: &TempDir) -> PathBuf {
    directory.path().join("chat.kohakutr")
}

/// Children that do nothing but live until the value is dropped.
#[derive(Default)]
struct Children(Vec<libc::pid_t>);

impl Children {
    fn fork(&mut self) {
        // SAFETY: the child calls nothing but `alarm`, `pause` and `_exit`, which may be called
        // after a fork of a process with threads.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above. The alarm ends a child whose parent was killed.
            unsafe {
                libc::alarm(60);
                libc::pause();
                libc::_exit(0);
            }
        }
        assert!(child > 0);
        self.0.push(child);
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &self.0 {
            // SAFETY: the child is ours and not waited for yet; nobody asks for its status.
            unsafe {
                libc::kill(*child, libc::SIGKILL);
                libc::waitpid(*child, std::ptr::null_mut(), 0);
            }
        }
    }
}

#[test]
fn a_forked_child_does_not_keep_the_lock() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    let mut children = Children::default();

    let shared = WriterLock::shared(&bundle).unwrap();
    children.fork();
    drop(shared);
    let exclusive = WriterLock::exclusive(&bundle).unwrap();
    children.fork();
    drop(exclusive);

    assert!(WriterLock::exclusive(&bundle).is_ok());
}

#[test]
fn a_child_forked_while_the_lock_is_taken_does_not_keep_it() {
    let directory = TempDir::new().unwrap();
    let bundle = bundle_in(&directory);
    let is_done = AtomicBool::new(false);

    std::thread::scope(|scope| {
        let takes = scope.spawn(|| {
            let mut refused = 0;
            while !is_done.load(Ordering::Relaxed) {
                refused += usize::from(WriterLock::exclusive(&bundle).is_err());
            }
            refused
        });
        let mut children = Children::default();
        (0..100).for_each(|_| children.fork());
        is_done.store(true, Ordering::Relaxed);

        assert_eq!(takes.join().unwrap(), 0);
    });
}

//! What a look at a directory in which nothing changed costs, beside a bare loop that does no more
//! than ask the system for each file's state.
#![expect(clippy::unwrap_used, reason = "a bench that fails shall stop")]

use std::fs::File;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;

use amberlog_core::bundle::{Bundle, Options};
use amberlog_core::clock::SystemClock;
use amberlog_core::index::{self, Index, SIDECAR};
use amberlog_core::model::Draft;
use criterion::{Criterion, criterion_group, criterion_main};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags};

const SESSIONS: usize = 10_000;

/// Many copies of one session: neither look reads what is in them.
fn make(directory: &Path) {
    let first = directory.join("s000000.kohakutr");
    let bundle = Bundle::open(&first, Options::default(), Box::new(SystemClock)).unwrap();
    bundle.append("main", &[Draft { event_type: "user_input".to_owned(), ..Draft::default() }]).unwrap();
    bundle.close().unwrap();
    for number in 1..SESSIONS {
        std::fs::copy(&first, directory.join(format!("s{number:06}.kohakutr"))).unwrap();
    }
    // A file of this very moment is read again at every look.
    std::thread::sleep(std::time::Duration::from_secs(3));
}

fn bare(directory: &Path) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = File::from(rustix::fs::open(directory, flags, Mode::empty()).unwrap());
    let mut size = 0;
    for entry in Dir::read_from(&handle).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let found =
            rustix::fs::statx(&handle, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).unwrap();
        size += found.stx_size;
    }
    size
}

fn unchanged(criterion: &mut Criterion) {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path();
    make(directory);
    let sidecar = tempfile::tempdir().unwrap();
    let index = Index::open(&sidecar.path().join(SIDECAR)).unwrap();
    let look = |workers| {
        let options = index::Options { full: false, workers };
        index.reconcile(directory, options, &mut |_, _| ControlFlow::Continue(())).unwrap()
    };
    look(None);
    let mut group = criterion.benchmark_group(format!("{SESSIONS} sessions unchanged"));
    group.sample_size(20);
    group.bench_function("bare loop of statx", |bencher| bencher.iter(|| black_box(bare(directory))));
    group.bench_function("reconcile", |bencher| {
        bencher.iter(|| assert_eq!(look(None).unchanged, SESSIONS));
    });
    group.bench_function("reconcile in one thread", |bencher| {
        bencher.iter(|| assert_eq!(look(Some(1)).unchanged, SESSIONS));
    });
    group.finish();
}

criterion_group!(benches, unchanged);
criterion_main!(benches);

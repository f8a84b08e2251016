//! What the core's verbs cost without Python: one bench a verb, at a stated size.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench that fails shall stop")]
#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::path::Path;

use amberlog_core::bundle::{Bundle, Options, Save, Saved, Selection, Tag};
use amberlog_core::clock::SystemClock;
use amberlog_core::codec::{self, msgpack};
use amberlog_core::model::Draft;
use amberlog_core::recall::{Words, analyse};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const TEXT: &str = "The migration of the billing service failed since the server refused the connection; \
                    we try again with a longer timeout and look at what the log says about it. ";

fn open(path: &Path) -> Bundle {
    Bundle::open(path, Options::default(), Box::new(SystemClock)).unwrap()
}

fn draft() -> Draft {
    let mut pairs = Vec::new();
    msgpack::put_str(&mut pairs, "content");
    msgpack::put_str(&mut pairs, &TEXT.repeat(2));
    Draft { event_type: "text_chunk".to_owned(), pairs, count: 1, ..Draft::default() }
}

fn message(number: usize) -> Vec<u8> {
    let mut body = Vec::new();
    msgpack::put_map_header(&mut body, 2);
    msgpack::put_str(&mut body, "role");
    msgpack::put_str(&mut body, "user");
    msgpack::put_str(&mut body, "content");
    msgpack::put_str(&mut body, &format!("{number} {}", TEXT.repeat(6)));
    body
}

fn append(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let bundle = open(&directory.path().join("s.kohakutr"));
    let one = [draft()];
    let many = vec![draft(); 64];
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    group.bench_function("one event", |bencher| bencher.iter(|| bundle.append("main", &one).unwrap()));
    group.throughput(Throughput::Elements(64));
    group.bench_function("64 events", |bencher| bencher.iter(|| bundle.append("main", &many).unwrap()));
    group.finish();
}

fn page(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let bundle = open(&directory.path().join("s.kohakutr"));
    bundle.append("main", &vec![draft(); 2_048]).unwrap();
    let mut group = criterion.benchmark_group("page");
    group.throughput(Throughput::Elements(512));
    group.bench_function("512 events", |bencher| {
        bencher.iter(|| bundle.page("main", &Selection::default(), Some(1_024), 512).unwrap());
    });
    group.finish();
}

fn snapshot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("save_snapshot");
    for messages in [200, 2_000] {
        let directory = tempfile::tempdir().unwrap();
        let bundle = open(&directory.path().join("s.kohakutr"));
        let first: Vec<Vec<u8>> = (0..messages).map(message).collect();
        let (mut base, mut keep) = (save(&bundle, 0, 0, &first), messages);
        group.bench_function(format!("one turn at {messages} messages"), |bencher| {
            bencher.iter_batched(
                || vec![message(1), message(2), message(3), message(4)],
                |turn| {
                    base = save(&bundle, base, keep, &turn);
                    keep += turn.len();
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn save(bundle: &Bundle, base: i64, keep: usize, fresh: &[Vec<u8>]) -> i64 {
    match bundle.save_snapshot(&Save { agent: "main", keep, base, fresh, tag: &Tag::Plain }).unwrap() {
        Saved::As(id) => id,
        Saved::Outdated => panic!("nobody else saves"),
    }
}

fn values(criterion: &mut Criterion) {
    let body = message(7);
    let key = b"main:e000007";
    let stored = codec::seal("events", key, &body);
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("seal 1 KiB", |bencher| bencher.iter(|| codec::seal("events", key, &body)));
    group.bench_function("open 1 KiB", |bencher| {
        bencher.iter(|| codec::open("events", key, &stored).unwrap())
    });
    group.finish();
}

fn analysis(criterion: &mut Criterion) {
    let text = TEXT.repeat(6);
    let mut words = Words::default();
    let mut group = criterion.benchmark_group("analyse");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("1 KiB of text", |bencher| {
        bencher.iter(|| {
            words.clear();
            analyse(&text, &mut words);
        });
    });
    group.finish();
}

criterion_group!(benches, append, page, snapshot, values, analysis);
criterion_main!(benches);

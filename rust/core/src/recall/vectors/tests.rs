//! Every way to search against a comparison with every vector in double precision.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "bytes of a seed, and small numbers"
)]

use proptest::prelude::*;

use super::{All, BYTES, Engine, Near, PLAIN, Vectors, is_graph};

fn place(id: i64) -> usize {
    usize::try_from(id).unwrap()
}

/// Numbers without a pattern, the same each time.
fn rows(count: usize, dimensions: usize, mut seed: u64) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count * dimensions);
    for _ in 0..count * dimensions {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        numbers.push(f32::from(i16::from_ne_bytes([(seed >> 40) as u8, (seed >> 48) as u8])) / 32768.0);
    }
    numbers
}

/// The scores of all vectors, the nearest first.
fn exact(ids: &[i64], rows: &[f32], query: &[f32], keep: impl Fn(usize) -> bool) -> Vec<(i64, f64)> {
    let length = |row: &[f32]| row.iter().map(|n| f64::from(*n).powi(2)).sum::<f64>().sqrt();
    let mut found: Vec<(i64, f64)> = ids
        .iter()
        .zip(rows.chunks(query.len()))
        .enumerate()
        .filter(|(at, (_, row))| keep(*at) && length(row) > 0.0)
        .map(|(_, (id, row))| {
            let product: f64 = row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (*id, product / length(row) / length(query))
        })
        .collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found
}

/// Whether hits are the nearest, where vectors that are equally near but for rounding may change places.
fn assert_nearest(hits: &[Near], expected: &[(i64, f64)], k: usize) {
    assert_eq!(hits.len(), k.min(expected.len()));
    for (hit, (_, score)) in hits.iter().zip(expected) {
        assert!((f64::from(hit.score) - score).abs() < 1e-5, "{hit:?} instead of {score}");
        let own = expected.iter().find(|(id, _)| *id == hit.id).unwrap();
        assert!((own.1 - f64::from(hit.score)).abs() < 1e-5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_scan_finds_the_nearest(
        count in 0_usize..60,
        dimensions in 1_usize..40,
        k in 0_usize..20,
        seed in 1_u64..u64::MAX,
        gone in proptest::collection::vec(0_i64..60, 0..10),
        one_in in 1_usize..4,
    ) {
        let ids: Vec<i64> = (0..count as i64).collect();
        let rows = rows(count + 1, dimensions, seed);
        let (rows, query) = rows.split_at(count * dimensions);
        let mut vectors = Vectors::new(dimensions).unwrap();
        vectors.add(&ids, rows).unwrap();
        for id in &gone {
            vectors.remove(*id);
        }

        let hits = vectors.search(query, k, &|slot: usize| slot.is_multiple_of(one_in)).unwrap();

        // A slot is the place of adding here, since no row is all zeros.
        let expected = exact(&ids, rows, query, |at| at.is_multiple_of(one_in) && !gone.contains(&(at as i64)));
        assert_nearest(&hits, &expected, k);
    }
}

#[test]
fn bytes_miss_nothing() {
    let count = PLAIN + 3000;
    let ids: Vec<i64> = (0..count as i64).rev().collect();
    let numbers = rows(count + 20, 48, 99);
    let (rows, queries) = numbers.split_at(count * 48);
    let mut vectors = Vectors::new(48).unwrap();
    for (some, part) in ids.chunks(700).zip(rows.chunks(700 * 48)) {
        vectors.add(some, part).unwrap();
    }

    for query in queries.chunks(48) {
        let hits = vectors.search(query, 10, &All).unwrap();
        assert_nearest(&hits, &exact(&ids, rows, query, |_| true), 10);
        let some = vectors.search(query, 10, &|slot: usize| slot % 100 == 7).unwrap();
        assert_nearest(&some, &exact(&ids, rows, query, |at| at % 100 == 7), 10);
        let most = vectors.search(query, 10, &|slot: usize| slot % 10 != 7).unwrap();
        assert_nearest(&most, &exact(&ids, rows, query, |at| at % 10 != 7), 10);
    }
}

#[test]
fn signs_find_almost_all_and_a_narrow_filter_finds_all() {
    let count = BYTES + 2000;
    let ids: Vec<i64> = (0..count as i64).collect();
    let numbers = rows(count + 5, 32, 5);
    let (rows, queries) = numbers.split_at(count * 32);
    let mut vectors = Vectors::new(32).unwrap();
    vectors.add(&ids, rows).unwrap();

    let mut found = 0;
    for query in queries.chunks(32) {
        let expected = exact(&ids, rows, query, |_| true);
        let hits = vectors.search(query, 10, &All).unwrap();
        found += hits.iter().filter(|hit| expected[..10].iter().any(|(id, _)| *id == hit.id)).count();
        let some = vectors.search(query, 10, &|slot: usize| slot % 100 == 7).unwrap();
        assert_nearest(&some, &exact(&ids, rows, query, |at| at % 100 == 7), 10);
    }

    assert!(found >= 45, "{found} of 50");
}

#[test]
fn equally_near_vectors_come_in_the_order_of_their_ids() {
    let mut vectors = Vectors::new(3).unwrap();
    vectors.add(&[9, 4, 7, 5], &[1., 2., 2., 2., 4., 4., 0., 0., 1., 3., 6., 6.]).unwrap();

    let ids: Vec<i64> = vectors.search(&[1., 2., 2.], 3, &All).unwrap().iter().map(|hit| hit.id).collect();

    assert_eq!(ids, [4, 5, 9]);
}

#[test]
fn what_has_nothing_to_compare_is_never_found() {
    let mut vectors = Vectors::new(2).unwrap();
    vectors.add(&[1, 2], &[0., 0., 1., 0.]).unwrap();

    assert_eq!(vectors.len(), 1);
    assert_eq!(vectors.search(&[1., 1.], 10, &All).unwrap().len(), 1);
    assert!(vectors.search(&[0., 0.], 10, &All).unwrap().is_empty());
}

#[test]
fn a_vector_added_again_takes_the_place_of_the_first() {
    let mut vectors = Vectors::new(2).unwrap();
    vectors.add(&[1, 2], &[1., 0., 0., 1.]).unwrap();

    vectors.add(&[1], &[0., 1.]).unwrap();

    let hits = vectors.search(&[0., 1.], 10, &All).unwrap();
    assert_eq!(hits.iter().map(|hit| (hit.id, hit.score)).collect::<Vec<_>>(), [(1, 1.0), (2, 1.0)]);
    assert!(vectors.remove(2) && !vectors.remove(2));
    assert_eq!(vectors.search(&[0., 1.], 10, &All).unwrap().len(), 1);
}

#[test]
fn bad_numbers_and_other_sizes_are_refused_whole() {
    let mut vectors = Vectors::new(2).unwrap();

    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(vectors.add(&[1, 2], &[1., 0., 0., bad]).is_err());
        assert!(vectors.search(&[bad, 1.], 1, &All).is_err());
    }
    assert!(vectors.add(&[1], &[1., 0., 0.]).is_err());
    assert!(vectors.search(&[1., 0., 0.], 1, &All).is_err());
    assert!(vectors.is_empty() && Vectors::new(0).is_err() && Vectors::new(40_000).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_graph_agrees_with_a_plain_comparison_whatever_is_added_and_removed(
        steps in proptest::collection::vec((0_i64..80, any::<bool>()), 1..160),
        dimensions in 2_usize..24,
        k in 1_usize..12,
        seed in 1_u64..u64::MAX,
        one_in in 1_usize..3,
    ) {
        let numbers = rows(81, dimensions, seed);
        let row = |id: usize| &numbers[id * dimensions..(id + 1) * dimensions];
        let mut vectors = Vectors::new(dimensions).unwrap();
        vectors.link_some(9);
        let mut model = std::collections::BTreeMap::new();
        let mut slots = 0;

        for (id, is_added) in steps {
            if is_added {
                vectors.add(&[id], row(place(id))).unwrap();
                model.insert(id, slots);
                slots += 1;
            } else {
                prop_assert_eq!(vectors.remove(id), model.remove(&id).is_some());
            }
            if slots % 3 == 0 {
                vectors.link_some(2);
            }
        }

        let (ids, at): (Vec<i64>, Vec<usize>) = model.into_iter().unzip();
        let held: Vec<f32> = ids.iter().flat_map(|id| row(place(*id))).copied().collect();
        let keeps = |slot: usize| slot.is_multiple_of(one_in);
        let hits = vectors.search_by(Engine::Hnsw, row(80), k, &keeps).unwrap();
        assert_nearest(&hits, &exact(&ids, &held, row(80), |place| keeps(at[place])), k);
    }
}

#[test]
fn a_graph_of_many_finds_almost_all_and_a_narrow_filter_finds_all() {
    let count = 4_000;
    let ids: Vec<i64> = (0..count as i64).collect();
    let numbers = rows(count + 20, 24, 5);
    let (rows, queries) = numbers.split_at(count * 24);
    let mut vectors = Vectors::new(24).unwrap();
    vectors.add(&ids[..3_000], &rows[..3_000 * 24]).unwrap();
    while vectors.link_some(700) {}
    vectors.add(&ids[3_000..], &rows[3_000 * 24..]).unwrap();

    let mut found = 0;
    for query in queries.chunks(24) {
        let expected = exact(&ids, rows, query, |_| true);
        let hits = vectors.search_by(Engine::Hnsw, query, 10, &All).unwrap();
        assert_eq!(hits.len(), 10);
        found += hits.iter().filter(|hit| expected[..10].iter().any(|(id, _)| *id == hit.id)).count();
        let some = vectors.search_by(Engine::Hnsw, query, 10, &|slot: usize| slot % 100 == 7).unwrap();
        assert_nearest(&some, &exact(&ids, rows, query, |at| at % 100 == 7), 10);
        let all = vectors.search_by(Engine::Hnsw, query, count + 1, &All).unwrap();
        assert_eq!(all.len(), count);
    }

    assert!(found >= 190, "{found} of 200");
}

#[test]
fn a_kept_graph_serves_the_same_vectors_and_no_others() {
    let numbers = rows(500, 16, 3);
    let ids: Vec<i64> = (0..500).collect();
    let of = |ids: &[i64], numbers: &[f32]| {
        let mut vectors = Vectors::new(16).unwrap();
        vectors.add(ids, numbers).unwrap();
        vectors
    };
    let mut first = of(&ids[..400], &numbers[..400 * 16]);
    assert_eq!(first.graph_bytes(), None);
    assert!(!first.link_some(400));
    let bytes = first.graph_bytes().unwrap();

    let mut grown = of(&ids, &numbers);
    assert!(grown.load_graph(&bytes));
    assert_eq!(grown.linked(), Some(400));
    let query = &numbers[450 * 16..451 * 16];
    assert_eq!(grown.search_by(Engine::Hnsw, query, 1, &All).unwrap()[0].id, 450);

    let turned: Vec<i64> = ids.iter().rev().copied().collect();
    for mut other in
        [of(&turned, &numbers), of(&ids[..299], &numbers[..299 * 16]), of(&ids, &rows(500, 16, 4))]
    {
        assert!(!other.load_graph(&bytes) && other.linked().is_none());
    }
    assert!(!grown.load_graph(&bytes[..7]) && is_graph(&bytes));
    for at in (0..bytes.len()).step_by(97) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert!(!grown.load_graph(&bad) && !is_graph(&bad));
    }
}

#[test]
fn a_kept_graph_serves_where_some_vectors_are_gone() {
    let numbers = rows(600, 16, 3);
    let ids: Vec<i64> = (0..600).collect();
    let mut first = Vectors::new(16).unwrap();
    first.add(&ids, &numbers).unwrap();
    first.remove(17);
    first.add(&[30], &numbers[..16]).unwrap();
    while first.link_some(256) {}
    let bytes = first.graph_bytes().unwrap();
    let left: Vec<i64> = (0..600).filter(|id| ![17, 30].contains(id) && id % 7 != 1).collect();
    let held: Vec<f32> = left.iter().flat_map(|id| &numbers[place(*id) * 16..][..16]).copied().collect();
    let mut second = Vectors::new(16).unwrap();
    second.add(&left, &held).unwrap();
    second.add(&[30, 700], &[&numbers[..16], &numbers[..16]].concat()).unwrap();

    assert!(second.load_graph(&bytes));

    assert_eq!(second.linked(), Some(left.len() + 1));
    let hits = second.search_by(Engine::Hnsw, &numbers[..16], 3, &All).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<i64>>(), [0, 30, 700]);
}

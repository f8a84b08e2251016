use super::*;

const SIZE: usize = 24;

/// Rows of length 1 around some centres, the same each time.
fn rows(count: usize, mut seed: u64) -> Vec<f32> {
    let mut draw = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(i16::from_ne_bytes([seed.to_le_bytes()[5], seed.to_le_bytes()[6]])) / 32768.0
    };
    let centres: Vec<f32> = (0..20 * SIZE).map(|_| draw()).collect();
    let mut out = Vec::new();
    for slot in 0..count {
        let centre = &centres[slot % 20 * SIZE..][..SIZE];
        let row: Vec<f32> = centre.iter().map(|number| number + 0.5 * draw()).collect();
        let length = row.iter().map(|number| number * number).sum::<f32>().sqrt();
        out.extend(row.iter().map(|number| number / length));
    }
    out
}

/// The nearest by plain arithmetic in f64.
fn exact(rows: &[f32], query: &[f32], k: usize, keeps: impl Fn(usize) -> bool) -> Vec<usize> {
    let product =
        |row: &[f32]| -> f64 { row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let mut all: Vec<(f64, usize)> = rows
        .chunks(SIZE)
        .map(product)
        .enumerate()
        .filter(|(slot, _)| keeps(*slot))
        .map(|(s, p)| (-p, s))
        .collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    all.into_iter().take(k).map(|(_, slot)| slot).collect()
}

fn recall(graph: &Graph, rows: &[f32], keeps: impl Fn(usize) -> bool + Copy) -> f64 {
    let queries = self::rows(50, 99);
    let mut met = 0_u32;
    for query in queries.chunks(SIZE) {
        let found = graph.search(rows, query, 10, None, keeps);
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|slot| keeps(*slot)));
        let wanted = exact(rows, query, 10, keeps);
        met += u32::try_from(found.iter().filter(|slot| wanted.contains(slot)).count()).unwrap();
    }
    f64::from(met) / 500.0
}

#[test]
fn a_graph_finds_what_plain_arithmetic_finds() {
    let rows = rows(3_000, 5);
    for threads in [1, 2, 4] {
        let mut graph = Graph::new(SIZE);

        graph.extend(&rows, threads);

        assert!(recall(&graph, &rows, |_| true) > 0.98);
        assert!(recall(&graph, &rows, |slot| slot % 7 != 3) > 0.98);
    }
}

#[test]
fn a_graph_that_grew_in_steps_is_as_good() {
    let rows = rows(3_000, 5);
    let mut graph = Graph::new(SIZE);

    for count in [0, 1, 2, 17, 600, 601, 2_400, 3_000] {
        graph.extend(&rows[..count * SIZE], 2);
        assert_eq!(graph.len(), count);
    }

    assert!(recall(&graph, &rows, |_| true) > 0.98);
}

#[test]
fn no_rows_and_few_rows_give_as_many_hits() {
    let rows = rows(5, 5);
    let mut graph = Graph::new(SIZE);

    assert!(graph.search(&[], &rows[..SIZE], 10, None, |_| true).is_empty());
    graph.extend(&rows, 1);

    let found = graph.search(&rows, &rows[..SIZE], 10, None, |_| true);
    assert_eq!(found, exact(&rows, &rows[..SIZE], 10, |_| true));
}

#[test]
fn equal_rows_come_in_the_order_of_their_slots() {
    let one = rows(1, 5);
    let same: Vec<f32> = one.iter().copied().cycle().take(100 * SIZE).collect();
    let mut graph = Graph::new(SIZE);

    graph.extend(&same, 1);

    let found = graph.search(&same, &one, 100, None, |_| true);
    assert!(found.is_sorted());
    assert!(found.len() >= 10);
}

#[test]
fn bytes_give_the_same_graph_and_damaged_bytes_none() {
    let rows = rows(800, 5);
    let mut graph = Graph::new(SIZE);
    graph.extend(&rows, 1);

    let bytes = graph.to_bytes();
    let again = Graph::from_bytes(&bytes, SIZE).unwrap();

    let query = &rows[..SIZE];
    assert_eq!(
        again.search(&rows, query, 20, None, |_| true),
        graph.search(&rows, query, 20, None, |_| true)
    );
    assert_eq!(again.to_bytes(), bytes);
    assert!(Graph::from_bytes(&bytes, SIZE + 1).is_none());
    assert!(Graph::from_bytes(&bytes[..bytes.len() - 1], SIZE).is_none());
    for at in (0..bytes.len()).step_by(101) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        assert!(Graph::from_bytes(&bad, SIZE).is_none(), "{at}");
    }
}

#[test]
fn a_graph_without_some_slots_finds_the_others() {
    let rows = rows(3_000, 5);
    let mut graph = Graph::new(SIZE);
    graph.extend(&rows, 2);
    let kept: Vec<bool> = (0..3_000).map(|slot| slot % 5 != 2).collect();

    let fewer = graph.without(&kept);

    let left: Vec<f32> =
        rows.chunks(SIZE).zip(&kept).filter(|(_, kept)| **kept).flat_map(|(row, _)| row).copied().collect();
    assert_eq!(fewer.len(), 2_400);
    assert!(recall(&fewer, &left, |_| true) > 0.97);
    let again = Graph::from_bytes(&fewer.to_bytes(), SIZE).unwrap();
    assert_eq!(again.to_bytes(), fewer.to_bytes());
}

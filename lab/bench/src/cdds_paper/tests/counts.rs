//! Lines and fences, beside what the NV-Tree's paper counted of its own CDDS (figure 1c), and beside
//! what the algorithms say.

use tembo_pmem::Counters;

use super::*;

fn cost<T>(act: impl FnOnce() -> T) -> Counters {
    let before = Counters::thread();
    act();
    Counters::thread() - before
}

fn lines_an_insert(node_size: u32) -> f64 {
    let mut tree = tree(LeafOrder::Sorted, node_size);
    let mut random = Random::new(3);
    let count = 20_000;
    for _ in 0..count {
        let key = random.next();
        tree.insert(key, key).unwrap();
    }
    let Flushed { sort_leaf, sort_inner, leaf, inner } = tree.flushed();
    let kept_apart = sort_leaf + sort_inner + leaf + inner;
    kept_apart as f64 / f64::from(count)
}

/// NV-Tree, figure 1c: 12.1, 19.0, 34.2 and 64.7 lines an insertion.
#[test]
fn insertions_flush_about_what_the_paper_counted() {
    for (node_size, document) in [(512, 12.1), (1024, 19.0), (2048, 34.2), (4096, 64.7)] {
        let lines = lines_an_insert(node_size);
        assert!((0.7..1.3).contains(&(lines / document)), "{node_size}: {lines}");
    }
}

/// Algorithm 2: a FLUSH for each entry that is shifted, one for the entry, one for the version.
#[test]
fn an_insertion_costs_its_shifts_an_entry_and_the_version() {
    for shifts in [0, 1, 7] {
        let mut tree = tree(LeafOrder::Sorted, 512);
        for key in 0..shifts {
            tree.insert(100 + key, 0).unwrap();
        }
        let cost = cost(|| tree.insert(1, 0).unwrap());
        assert_eq!((cost.fences, cost.lines), (shifts + 2, shifts + 2));
    }
    let mut tree = tree(LeafOrder::Unordered, 512);
    for key in 0..10 {
        let cost = cost(|| tree.insert(100 - key, 0).unwrap());
        assert_eq!((cost.fences, cost.lines), (2, 2));
    }
}

/// Algorithm 4: without underflow the end of the entry and the version; an update begins another entry.
#[test]
fn a_deletion_costs_the_end_and_the_version() {
    let mut tree = tree(LeafOrder::Sorted, 512);
    for key in 0..10 {
        tree.insert(key, 0).unwrap();
    }
    let removed = cost(|| assert!(tree.remove(5).unwrap()));
    assert_eq!((removed.fences, removed.lines), (2, 2));
    let updated = cost(|| assert!(tree.update(9, 1).unwrap()));
    assert_eq!((updated.fences, updated.lines), (3, 3));
    let absent = cost(|| assert!(!tree.remove(77).unwrap()));
    assert_eq!((absent.fences, absent.stores), (0, 0));
}

/// Algorithm 3: at most `4 m` live entries go on in one node, more in two; the old node only ends.
#[test]
fn a_full_node_is_copied_to_one_node_or_to_two() {
    // 14 entries, so that m is two, and more than eight live ones are split.
    for (live, nodes) in [(14, 2), (9, 2), (8, 1), (3, 1)] {
        let mut tree = tree(LeafOrder::Sorted, 512);
        for key in 0..14 {
            tree.insert(key, 0).unwrap();
        }
        // All in one version, which is too young to be used again.
        let version = tree.0.next_version().unwrap();
        let (leaf, _) = tree.0.leaf_of(0).unwrap();
        tree.0.end_all(&leaf, version, |key| key >= live);
        tree.0.commit(version).unwrap();
        let cost = cost(|| tree.insert(100, 0).unwrap());
        let root = tree.0.node(tree.0.root().unwrap()).unwrap();
        assert_eq!(root.live_count(), nodes, "{live}");
        // Each fresh node, the ends of the old one, the new root, its pointer, the version.
        assert_eq!(cost.fences, nodes as u64 + 4);
        let ends = live.div_ceil(2);
        assert_eq!(cost.lines, 8 * (nodes as u64 + 1) + ends + 2, "{live}");
    }
}

/// Algorithm 2, line 24: an entry that ended before the consistent version is used again. Of the two entries that are
/// dead when a key comes back, the older one is: no node is made, however often.
#[test]
fn dead_entries_are_used_again() {
    for order in ORDERS {
        let (mut tree, mut model) = (tree(order, 512), Map::new());
        for key in 0..14 {
            tree.insert(key, 0).unwrap();
            model.insert(key, 0);
        }
        assert!(tree.remove(13).unwrap());
        model.remove(&13);
        let root = tree.0.root().unwrap();
        let taken = tree.pool().usage().allocated_bytes;
        for step in 1..=200 {
            let key = step % 13;
            assert!(tree.remove(key).unwrap());
            tree.insert(key, step).unwrap();
            model.insert(key, step);
            assert!(tree.0.root().unwrap() == root, "{order:?}: a node was copied at step {step}");
        }
        assert_eq!(tree.pool().usage().allocated_bytes, taken, "{order:?}");
        assert_eq!(shown(&tree), model, "{order:?}");
    }
}

/// The same line: the consistent version itself still shows what ended with it, and a full node is copied.
#[test]
fn an_entry_that_ended_in_the_consistent_version_is_not_used_again() {
    for order in ORDERS {
        let mut tree = tree(order, 512);
        for key in 0..14 {
            tree.insert(key, 0).unwrap();
        }
        let root = tree.0.root().unwrap();
        assert!(tree.remove(3).unwrap());
        tree.insert(3, 1).unwrap();
        assert!(tree.0.root().unwrap() != root, "{order:?}");
        assert_eq!(tree.get(3).unwrap(), Some(1));
    }
}

/// Section 4.4.6: with `N` keys at most `5 N / k` leaves are alive, and the height is logarithmic.
#[test]
fn deletions_leave_few_nodes() {
    let mut tree = tree(LeafOrder::Sorted, 512);
    for key in 0..20_000 {
        tree.insert(key, 0).unwrap();
    }
    for key in (0..20_000).filter(|key| key % 20 != 0) {
        assert!(tree.remove(key).unwrap());
    }
    let mut nodes = 0;
    live_nodes(&tree.0, tree.0.root().unwrap(), (0, u64::MAX), &mut nodes);
    // 5 · 1,000 / 14 leaves, and their inner nodes: each has at least three children.
    assert!(nodes <= 5 * 1_000 / 14 * 3 / 2, "{nodes}");
    assert_eq!(shown(&tree).len(), 1_000);
}

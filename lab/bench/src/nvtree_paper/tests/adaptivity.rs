//! Section 5, on the whole tree.

use super::*;

fn sizes(tree: &NvTree) -> Vec<u64> {
    let (mut sizes, mut next) = (Vec::new(), tree.head().unwrap());
    while next != 0 {
        let leaf = Leaf::at(tree.pool.region(), next).unwrap();
        (next, _) = (leaf.header.next.load(), sizes.push(leaf.size()));
    }
    sizes
}

fn adaptive(strategy: Strategy) -> NvTree {
    NvTree::create(pool(), &Options { strategy: Some(strategy), ..TINY }).unwrap()
}

/// Nothing is read, so the model sets no limit and only the greatest size does.
#[test]
fn leaves_that_are_only_written_grow_to_the_limit() {
    // Doubling 768 would exceed it; the balanced strategy goes on by lines.
    for (strategy, last) in [(Strategy::Aggressive, 768), (Strategy::Balanced, 1024)] {
        let mut tree = adaptive(strategy);
        (0..20_000).for_each(|key| tree.insert(key, key).unwrap());
        let sizes = sizes(&tree);
        assert!(sizes.iter().all(|size| (192..=1024).contains(size)), "{sizes:?}");
        assert_eq!(sizes.last(), Some(&last), "{strategy:?}");
    }
}

#[test]
fn without_a_strategy_every_leaf_keeps_its_size() {
    let (tree, _) = run(3, 3000, 3000, &TINY);
    assert!(sizes(&tree).iter().all(|&size| size == 192));
}

/// The counters follow table 3 through everything that happens to leaves: those of the leaves never
/// add up to more than the tree's.
#[test]
fn what_leaves_have_counted_is_never_more_than_the_tree_has() {
    let (tree, _) = run(9, 400, 3000, &Options { strategy: Some(Strategy::Balanced), ..TINY });
    let (block, adaptivity) = (tree.block.unwrap(), tree.adaptivity.as_ref().unwrap());
    let (mut id, mut writes, mut reads) = (block.shape.first, 0, 0);
    while id < block.shape.first + block.shape.units {
        let pln = block.pln(tree.pool.region(), id).unwrap();
        for slot in 0..=pln.count {
            let load = adaptivity.profile.leaf(Place { pln: id, slot, leaf: 0 });
            (writes, reads) = (writes + load.writes, reads + load.reads);
        }
        id += pln.units;
    }
    let total = adaptivity.profile.total();
    assert!(writes <= total.writes && reads <= total.reads);
    assert!(writes > total.writes / 4 && reads > total.reads / 4, "{writes} {reads} {total:?}");
}

/// Section 5.5 and figure 9a: rebuilds of a sequential insertion become rare, for the last PLN, which
/// is where it writes, is larger after each. The leaves are of one size, so only PLNs matter.
#[test]
fn enlarged_plns_make_rebuilds_of_a_sequential_insertion_rare() {
    let rebuilds = |strategy| {
        let options = Options { leaf_size: 192, leaf_size_max: 192, strategy };
        let mut tree = NvTree::create(pool(), &options).unwrap();
        (0..5000).for_each(|key| tree.insert(key, key).unwrap());
        verify(&tree, &(0..5000).map(|key| (key, key)).collect());
        tree.rebuilds().count
    };
    let (without, with) = (rebuilds(None), rebuilds(Some(Strategy::Aggressive)));
    assert!(with * 5 < without, "{with} of {without}");
}

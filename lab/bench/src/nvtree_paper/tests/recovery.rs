//! Section 4.6.

use super::super::Recovery;
use super::*;

#[test]
fn the_leaves_alone_give_the_tree_back() {
    for (seed, keys) in [(1, 3), (2, 30), (3, 300), (4, 3000), (5, 100_000)] {
        let (tree, mut map) = run(seed, keys, 2500, &TINY);
        let image = image(&tree);
        let (mut tree, recovery) = NvTree::open(pool_of(&image), &TINY).unwrap();
        assert_eq!(recovery, Recovery::FromLeaves);
        verify(&tree, &map);
        tree.sweep().unwrap();
        verify(&tree, &map);
        let mut random = Random::new(seed);
        for at in 0..1000 {
            step(&mut tree, &mut map, &mut random, keys, at < 500);
        }
        verify(&tree, &map);
    }
}

#[test]
fn after_a_clean_stop_the_inner_nodes_are_taken_over_once() {
    let (tree, map) = run(7, 3000, 3000, &TINY);
    let (pool, shape) = (tree.pool().clone(), tree.block.unwrap().shape);
    tree.stop().unwrap();
    let image = pool.region().media_bytes(0, pool.region().size()).unwrap().to_vec();
    let (tree, recovery) = NvTree::open(pool_of(&image), &TINY).unwrap();
    assert_eq!(recovery, Recovery::Instant);
    assert_eq!(tree.block.unwrap().shape, shape);
    assert_eq!(tree.rebuilds().count, 0);
    verify(&tree, &map);
    tree.sweep().unwrap();
    verify(&tree, &map);
    // Killed after that, the block is worth nothing.
    let left = super::image(&tree);
    let (tree, recovery) = NvTree::open(pool_of(&left), &TINY).unwrap();
    assert_eq!(recovery, Recovery::FromLeaves);
    verify(&tree, &map);
}

#[test]
fn an_empty_tree_comes_back_empty() {
    let tree = NvTree::create(pool(), &TINY).unwrap();
    let (mut tree, recovery) = NvTree::open(pool_of(&image(&tree)), &TINY).unwrap();
    assert_eq!(recovery, Recovery::FromLeaves);
    tree.sweep().unwrap();
    tree.insert(1, 2).unwrap();
    verify(&tree, &Map::from([(1, 2)]));
}

/// Leaves that were emptied have no greatest key.
#[test]
fn emptied_leaves_are_unlinked_by_a_rebuild_from_leaves() {
    let mut tree = NvTree::create(pool(), &TINY).unwrap();
    (0..100).for_each(|key| tree.insert(key, key).unwrap());
    tree.rebuild().unwrap();
    for round in 0..10 {
        for key in 0..100 {
            tree.insert(key, round).unwrap();
            assert!(tree.remove(key).unwrap());
        }
    }
    verify(&tree, &Map::new());
    let (mut tree, _) = NvTree::open(pool_of(&image(&tree)), &TINY).unwrap();
    tree.sweep().unwrap();
    let mut map = Map::new();
    for key in 0..100 {
        tree.insert(key, key).unwrap();
        map.insert(key, key);
    }
    verify(&tree, &map);
}

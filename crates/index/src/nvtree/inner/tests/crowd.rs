//! Readers beside writers, by the protocol that the leaves have to keep.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::Duration;

use super::{Chance, SHAPES, Table, seed};
use crate::nvtree::inner::{Inner, LeafId, Lows};

const NONE: LeafId = LeafId::MAX;

/// What stands for a leaf beside other threads.
struct Leaf {
    sequence: AtomicU32,
    /// The next leaf, whose low key ends the range.
    next: AtomicU32,
    is_dead: AtomicBool,
}

struct Crowd {
    inner: Inner,
    table: Table,
    leaves: Vec<Leaf>,
    used: AtomicU32,
}

impl Crowd {
    fn new(leaves: usize) -> Crowd {
        let leaf = |_| Leaf {
            sequence: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            is_dead: AtomicBool::new(false),
        };
        Crowd {
            inner: Inner::new(0).unwrap(),
            table: Table::new(leaves),
            leaves: (0..leaves).map(leaf).collect(),
            used: AtomicU32::new(1),
        }
    }

    fn leaf(&self, leaf: LeafId) -> &Leaf {
        &self.leaves[leaf as usize]
    }

    fn lock(&self, leaf: LeafId, sequence: u32) -> bool {
        let (now, odd) = (Ordering::Acquire, sequence.wrapping_add(1));
        let locked = self
            .leaf(leaf)
            .sequence
            .compare_exchange(sequence, odd, now, Ordering::Relaxed)
            .is_ok();
        fence(Ordering::Release);
        locked
    }

    fn unlock(&self, leaf: LeafId) {
        self.leaf(leaf).sequence.fetch_add(1, Ordering::Release);
    }

    /// The leaf that covers `key` and its sequence: what a reader of the tree does.
    fn find(&self, key: &[u8]) -> (LeafId, u32) {
        loop {
            let (leaf, ticket) = self.inner.find(key, &self.table).unwrap();
            let sequence = self.leaf(leaf).sequence.load(Ordering::Acquire);
            if sequence & 1 == 0 && self.inner.still(ticket) {
                return (leaf, sequence);
            }
            std::hint::spin_loop();
        }
    }

    /// True if the reader has seen the leaf as it was.
    fn check(&self, key: &[u8]) -> bool {
        let (leaf, sequence) = self.find(key);
        let next = self.leaf(leaf).next.load(Ordering::Relaxed);
        let is_dead = self.leaf(leaf).is_dead.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if self.leaf(leaf).sequence.load(Ordering::Relaxed) != sequence {
            return false;
        }
        assert!(!is_dead, "leaf {leaf} is no more");
        assert!(self.table.low(leaf).unwrap() <= key, "leaf {leaf} begins above the key");
        assert!(next == NONE || self.table.low(next).unwrap() > key, "leaf {leaf} ends below");
        true
    }

    fn split(&self, key: &[u8]) {
        let (leaf, sequence) = self.find(key);
        if self.table.low(leaf).unwrap() == key || !self.lock(leaf, sequence) {
            return;
        }
        let right = self.used.fetch_add(1, Ordering::Relaxed);
        if (right as usize) < self.leaves.len() {
            let next = self.leaf(leaf).next.load(Ordering::Relaxed);
            self.table.set(right, key);
            self.leaf(right).next.store(next, Ordering::Relaxed);
            self.leaf(leaf).next.store(right, Ordering::Relaxed);
            self.inner.insert(key, right, &self.table).unwrap();
        }
        self.unlock(leaf);
    }

    /// Merges the next leaf into the one that covers `key`.
    fn merge(&self, key: &[u8]) {
        let (leaf, sequence) = self.find(key);
        if !self.lock(leaf, sequence) {
            return;
        }
        let right = self.leaf(leaf).next.load(Ordering::Relaxed);
        if right != NONE {
            let sequence = self.leaf(right).sequence.load(Ordering::Relaxed) & !1;
            if self.lock(right, sequence) {
                let next = self.leaf(right).next.load(Ordering::Relaxed);
                self.leaf(leaf).next.store(next, Ordering::Relaxed);
                self.leaf(right).is_dead.store(true, Ordering::Relaxed);
                self.inner.remove(self.table.low(right).unwrap(), right, &self.table).unwrap();
                self.unlock(right);
            }
        }
        self.unlock(leaf);
    }
}

#[test]
fn readers_beside_writers_never_get_a_leaf_that_does_not_cover_the_key() {
    let seed = seed();
    for (number, shape) in [SHAPES[0].1, SHAPES[1].1, SHAPES[5].1, SHAPES[7].1].iter().enumerate() {
        let crowd = Crowd::new(400_000);
        let (is_over, checked) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (crowd, is_over) = (&crowd, &is_over);
                scope.spawn(move || {
                    let mut chance = Chance(seed + 1 + writer + 10 * number as u64);
                    for turn in 0_u64.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        // It grows for a while and shrinks for a while.
                        let key = shape(&mut chance);
                        let shrinks = turn >> 12 & 1;
                        if chance.below(4) < 1 + 2 * shrinks {
                            crowd.merge(&key)
                        } else {
                            crowd.split(&key)
                        }
                    }
                });
            }
            for reader in 0..2_u64 {
                let (crowd, is_over, checked) = (&crowd, &is_over, &checked);
                scope.spawn(move || {
                    let mut chance = Chance(seed + 5 + reader);
                    while !is_over.load(Ordering::Relaxed) {
                        let right = crowd.check(&shape(&mut chance));
                        checked.fetch_add(u32::from(right), Ordering::Relaxed);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(700));
            is_over.store(true, Ordering::Relaxed);
        });
        let (checked, used) = (checked.into_inner(), crowd.used.into_inner());
        eprintln!("{checked} checks beside {used} splits, {} leaves", crowd.inner.leaf_count());
        assert!(checked > 1000 && used > 1000);
    }
}

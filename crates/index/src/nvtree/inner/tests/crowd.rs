//! Readers beside writers, by the protocol that the leaves have to keep.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use super::{Chance, SHAPES, Shape, Table, seed};
use crate::nvtree::inner::{Inner, LeafId, Lows};

const NONE: LeafId = LeafId::MAX;
/// The threads end when there were so many of both.
const CHECKS: u64 = 1_000_000;
const SPLITS: u32 = 200_000;
/// Many times what those take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(600);

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
    /// Checks of readers that were not in vain.
    checked: AtomicU64,
    is_over: AtomicBool,
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
            checked: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
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
        let mut began = None;
        loop {
            let (leaf, token) = self.inner.find(key, &self.table).unwrap();
            let sequence = self.leaf(leaf).sequence.load(Ordering::Acquire);
            if sequence & 1 == 0 && token.still() {
                return (leaf, sequence);
            }
            let began = began.get_or_insert_with(Instant::now);
            assert!(began.elapsed() < PATIENCE, "a leaf stays locked: its holder has panicked");
            std::thread::yield_now();
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
        assert!(
            self.table.low(leaf).unwrap().compare(key).is_le(),
            "leaf {leaf} begins above the key"
        );
        assert!(
            next == NONE || self.table.low(next).unwrap().compare(key).is_gt(),
            "leaf {leaf} ends below"
        );
        true
    }

    fn split(&self, key: &[u8]) {
        let (leaf, sequence) = self.find(key);
        if self.table.low(leaf).unwrap().is(key) || !self.lock(leaf, sequence) {
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
                self.inner
                    .remove(&self.table.low(right).unwrap().to_vec(), right, &self.table)
                    .unwrap();
                self.unlock(right);
            }
        }
        self.unlock(leaf);
    }
}

impl Crowd {
    /// Splits and merges: the tree grows for a while and shrinks for a while.
    fn write(&self, shape: Shape, mut chance: Chance) {
        for ticket in 0_u64.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let (key, shrinks) = (shape(&mut chance), ticket >> 12 & 1);
            if chance.below(4) < 1 + 2 * shrinks { self.merge(&key) } else { self.split(&key) }
        }
    }

    fn read(&self, shape: Shape, mut chance: Chance) {
        while !self.is_over.load(Ordering::Relaxed) {
            // A count of its own for each check would keep the threads in step.
            let checked = (0..100).filter(|_| self.check(&shape(&mut chance))).count();
            self.checked.fetch_add(checked as u64, Ordering::Relaxed);
        }
    }

    /// Checks and splits so far.
    fn counts(&self) -> (u64, u32) {
        (self.checked.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed))
    }
}

#[test]
fn readers_beside_writers_never_get_a_leaf_that_does_not_cover_the_key() {
    let seed = seed();
    for (name, shape) in [SHAPES[0], SHAPES[1], SHAPES[5], SHAPES[7]] {
        let crowd = &Crowd::new(2 * SPLITS as usize);
        let is_enough = |(checked, splits)| checked >= CHECKS && splits >= SPLITS;
        std::thread::scope(|scope| {
            let threads = [
                scope.spawn(move || crowd.write(shape, Chance(seed + 1))),
                scope.spawn(move || crowd.write(shape, Chance(seed + 2))),
                scope.spawn(move || crowd.read(shape, Chance(seed + 3))),
                scope.spawn(move || crowd.read(shape, Chance(seed + 4))),
            ];
            let began = Instant::now();
            // One that has ended has panicked.
            while !is_enough(crowd.counts()) && !threads.iter().any(|thread| thread.is_finished()) {
                if began.elapsed() > PATIENCE {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            crowd.is_over.store(true, Ordering::Relaxed);
        });
        let (checked, splits) = crowd.counts();
        eprintln!("{name}: {checked} checks beside {splits} splits");
        assert!(is_enough((checked, splits)), "{checked} checks beside {splits} splits");
    }
}

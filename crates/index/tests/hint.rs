//! The hint of an NV-Tree: it makes an open quick, and whatever has happened to it, it never makes an
//! answer wrong.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Direction, Error, Forest, Index, IndexKind, Op, Retained, Retired, Stamp,
    TreeMarker, Value, VersionedIndex, View, Writer,
};
use tembo_pool::{Geometry, Object, Pool, PoolOptions, Sweep};

/// Where in the cell the object of the directory stands.
const CELL_HINT: u64 = 16;
/// Where in a leaf the next one stands.
const LEAF_NEXT: u64 = 8;

struct House {
    pool: Arc<Pool>,
    tree: Index,
    cell: Object,
    clock: Clock,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
}

struct Unmarked;

impl TreeMarker for Unmarked {
    fn reachable(&mut self, _object: Object) -> Result<bool, Error> {
        Ok(true)
    }
    fn unclean(&mut self, _node: Object) {}
    fn live_entry(&mut self) {}
}

#[derive(Default)]
struct Marked(Vec<Object>);

impl TreeMarker for Marked {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        self.0.push(object);
        Ok(true)
    }
    fn unclean(&mut self, _node: Object) {}
    fn live_entry(&mut self) {}
}

/// Marks for a sweep, and gives up after so many objects.
struct Swept<'s> {
    sweep: &'s mut Sweep,
    left: u64,
}

impl TreeMarker for Swept<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        self.left = self.left.checked_sub(1).ok_or(Error::Stopped)?;
        // It marks the tree several times.
        Ok(object.offset() < self.sweep.limit() || self.sweep.mark(object)?)
    }
    fn unclean(&mut self, _node: Object) {}
    fn live_entry(&mut self) {}
}

fn random(number: u64) -> u64 {
    (number + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

type Style = fn(u64) -> Vec<u8>;

const STYLES: [Style; 3] = [
    |number| random(number).to_be_bytes().to_vec(),
    |number| format!("a-prefix-of-many-keys/{:010}", random(number) % 1_000_000_000).into_bytes(),
    |number| [vec![b'x'; random(number) as usize % 300], number.to_le_bytes().to_vec()].concat(),
];

impl House {
    fn new(node_size: u32) -> House {
        let geometry = Geometry { chunk_size: 4096, node_size };
        let options = PoolOptions { size: 16 << 20, geometry, ..PoolOptions::default() };
        let pool = Arc::new(Pool::volatile(&options).unwrap());
        let forest = Arc::new(Forest::new(pool.clone(), 1 << 30).unwrap());
        let (dead, retained) = (DeadIntervals::default(), Retained::default());
        let mut retired = Vec::new();
        let stamp = Stamp::grouped(1, 0);
        let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let (tree, cell) = Index::create(forest, IndexKind::Nvtree, &writer).unwrap();
        House { pool, tree, cell, clock: Clock::new(1), now: BTreeMap::new() }
    }

    /// Everything volatile is lost, but where space is free.
    fn reopen(&mut self) {
        let forest = Arc::new(Forest::new(self.pool.clone(), 1 << 30).unwrap());
        forest.set_retained(Arc::new(self.retained()));
        self.tree = Index::open(forest, self.cell, 1).unwrap();
    }

    fn retained(&self) -> Retained {
        Retained::new(self.clock.last(), Vec::new())
    }

    /// Does something as the writer; what it retires is free at once.
    fn write<T>(&self, does: impl FnOnce(&mut Writer<'_>) -> Result<T, Error>) -> T {
        let (dead, retained) = (DeadIntervals::default(), self.retained());
        let mut retired: Vec<Retired> = Vec::new();
        let stamp = Stamp::grouped(self.clock.last(), 0);
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let done = does(&mut writer).unwrap();
        retired.into_iter().for_each(|retired| self.pool.free(retired.object));
        done
    }

    fn put(&mut self, key: Vec<u8>, value: &[u8]) {
        let op = Op::Put { key: &key, value: &[value] };
        self.write(|writer| self.tree.apply_single(op, &self.clock.ticket(), writer));
        self.now.insert(key, value.to_vec());
    }

    fn remove(&mut self, key: &[u8]) {
        self.write(|writer| {
            self.tree.apply_single(Op::Remove { key }, &self.clock.ticket(), writer)
        });
        self.now.remove(key);
    }

    fn collect(&self) {
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            from = self.write(|writer| self.tree.collect(Some(&key), writer));
        }
    }

    fn write_hint(&self) {
        self.write(|writer| self.tree.write_hint(writer.stamp.version(), writer.retired));
    }

    fn mark(&self) -> Vec<Object> {
        let mut marked = Marked::default();
        self.tree.mark(&self.retained(), &DeadIntervals::default(), &mut marked).unwrap();
        marked.0
    }

    fn hint(&self) -> Object {
        let words = self.pool.region().words(self.cell.offset() + CELL_HINT, 1).unwrap();
        Object::from_bits(words[0].load())
    }

    /// Damages a byte of the pool; and undoes it.
    fn flip(&self, at: u64) {
        let _section = self.pool.reserve(0, 1).unwrap();
        let words = self.pool.region().words(at & !7, 1).unwrap();
        self.pool.region().store(&words[0], words[0].load() ^ 0x41 << (at % 8 * 8));
    }

    fn expect(&self, key: &[u8]) {
        let dead = DeadIntervals::default();
        let found = self.tree.get(key, View { version: self.clock.last(), dead: &dead }).unwrap();
        let found = found.map(|value| value.to_vec());
        assert_eq!(found.as_deref(), self.now.get(key).map(Vec::as_slice), "{key:?}");
    }

    fn range(&self, from: Bound<&[u8]>, direction: Direction, count: usize) {
        let dead = DeadIntervals::default();
        let view = View { version: self.clock.last(), dead: &dead };
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: Value<'_>| {
            found.push((key.to_vec(), value.to_vec()));
            found.len() < count
        };
        let (low, high) = match direction {
            Direction::Forward => (from, Bound::Unbounded),
            Direction::Backward => (Bound::Unbounded, from),
        };
        self.tree.range(low, high, direction, view, &mut visit).unwrap();
        let range = self.now.range::<[u8], _>((low, high));
        let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        let expected: Vec<_> = match direction {
            Direction::Forward => range.take(count).map(owned).collect(),
            Direction::Backward => range.rev().take(count).map(owned).collect(),
        };
        assert!(found == expected, "{from:?}, {direction:?}");
    }

    /// Every key, some that are not there, and ranges both ways, before and after the mark.
    fn expect_all(&self) {
        let keys: Vec<_> = self.now.keys().collect();
        for at in 0..keys.len() {
            // Far from each other, so that no search has its way paved by the one before.
            let key = keys[at * 7919 % keys.len()];
            self.expect(key);
            if at % 16 == 0 {
                self.expect(&[key.as_slice(), b"\0"].concat());
                self.range(Bound::Excluded(key), Direction::Forward, 9);
                self.range(Bound::Excluded(key), Direction::Backward, 9);
                self.range(Bound::Included(key), Direction::Backward, 2);
            }
        }
        self.range(Bound::Unbounded, Direction::Backward, 9);
    }

    fn check(&self) {
        let report = self.tree.check(&self.retained(), &DeadIntervals::default()).unwrap();
        assert_eq!(report.entry_count, self.now.len() as u64);
    }
}

/// A tree with a hint of so many keys.
fn hinted(style: Style, node_size: u32, keys: u64) -> House {
    let mut house = House::new(node_size);
    (0..keys).for_each(|number| house.put(style(number), &number.to_le_bytes()));
    house.write_hint();
    assert!(!house.hint().is_none());
    house
}

#[test]
fn a_hint_that_thousands_of_splits_have_outdated_answers_right() {
    for style in STYLES {
        let mut house = hinted(style, 192, 3000);
        let before = house.hint();
        (3000..15_000).for_each(|number| house.put(style(number), b"later"));
        assert_eq!(house.hint(), before);
        assert!(house.tree.wants_hint());
        house.reopen();
        house.expect_all();
        // While leaves are unknown, others are made.
        house.reopen();
        (15_000..17_000).for_each(|number| house.put(style(number), b"again"));
        house.expect_all();
        house.mark();
        house.expect_all();
        house.check();
    }
}

#[test]
fn the_last_search_and_the_first_are_right_at_once() {
    for style in STYLES {
        let mut house = hinted(style, 192, 5000);
        (5000..8000).for_each(|number| house.put(style(number), b"later"));
        let keys: Vec<Vec<u8>> = house.now.keys().step_by(397).cloned().collect();
        for key in &keys {
            for ask in 0..4 {
                house.reopen();
                match ask {
                    0 => house.expect(key),
                    1 => house.range(Bound::Excluded(key), Direction::Backward, 3),
                    2 => house.range(Bound::Unbounded, Direction::Backward, 3),
                    _ => house.put(key.clone(), b"put"),
                }
                house.expect(key);
            }
        }
        house.expect_all();
        house.check();
    }
}

#[test]
fn a_merge_withdraws_the_hint() {
    let mut house = hinted(STYLES[0], 192, 5000);
    let keys: Vec<Vec<u8>> = house.now.keys().cloned().collect();
    keys.iter().enumerate().filter(|(at, _)| at % 8 > 0).for_each(|(_, key)| house.remove(key));
    assert!(!house.hint().is_none());
    house.collect();
    assert!(house.hint().is_none());
    // The space of leaves that were unlinked becomes that of others.
    (0..3000).for_each(|number| house.put(STYLES[1](number), b"x"));
    house.reopen();
    house.expect_all();
    house.check();
    house.write_hint();
    house.reopen();
    house.expect_all();
    // Of a tree that has not looked at all of its leaves.
    house.reopen();
    let keys: Vec<Vec<u8>> = house.now.keys().cloned().collect();
    keys.iter().enumerate().filter(|(at, _)| at % 8 > 0).for_each(|(_, key)| house.remove(key));
    house.collect();
    assert!(house.hint().is_none());
    house.expect_all();
    house.check();
}

/// A pool so large that walks begin in many chunks, many of them in leaves that were unlinked.
fn thinned() -> House {
    let mut house = House::new(192);
    (0..40_000).for_each(|number| house.put(STYLES[0](number), &number.to_le_bytes()));
    let keys: Vec<Vec<u8>> = house.now.keys().cloned().collect();
    keys.iter().enumerate().filter(|(at, _)| at % 4 > 0).for_each(|(_, key)| house.remove(key));
    house.collect();
    assert!(house.hint().is_none() && house.pool.usage().frontier > 256 * 4096);
    house
}

#[test]
fn without_a_hint_no_leaf_is_believed_that_was_unlinked() {
    let mut house = thinned();
    house.reopen();
    house.expect_all();
    house.check();
    // The space of some becomes that of others.
    (0..2000).for_each(|number| house.put(STYLES[1](number), b"x"));
    house.reopen();
    house.expect_all();
    house.check();
}

#[test]
fn a_list_that_goes_round_is_damage() {
    let mut house = thinned();
    let pool = house.pool.clone();
    let is_leaf = |object: &&Object| {
        let words = pool.region().words(object.offset(), 1).unwrap();
        words[0].load() >> 32 == u64::from(u32::from_le_bytes(*b"NVTL"))
    };
    let leaves: Vec<Object> = house.mark().iter().filter(is_leaf).copied().collect();
    for (from, to) in [(leaves.len() - 1, 0), (700, 300), (900, 900)] {
        let next = &pool.region().words(leaves[from].offset() + 8, 1).unwrap()[0];
        let _section = pool.reserve(0, 1).unwrap();
        let before = next.load();
        pool.region().store(next, leaves[to].to_bits());
        house.reopen();
        let (key, dead) = (house.now.keys().next().unwrap(), DeadIntervals::default());
        let view = View { version: house.clock.last(), dead: &dead };
        assert!(matches!(house.tree.get(key, view), Err(Error::Damaged { .. })), "{from} to {to}");
        let next = &pool.region().words(leaves[from].offset() + 8, 1).unwrap()[0];
        pool.region().store(next, before);
    }
    house.reopen();
    house.expect_all();
}

#[test]
fn a_mark_reaches_the_hint_and_the_one_before_is_retired() {
    let mut house = hinted(STYLES[0], 192, 5000);
    let objects = house.mark();
    assert!(objects.contains(&house.hint()));
    let before = house.hint();
    (5000..9000).for_each(|number| house.put(STYLES[0](number), b"x"));
    let mut retired = Vec::new();
    house.tree.write_hint(house.clock.last(), &mut retired).unwrap();
    let after = house.mark();
    assert!(retired.iter().any(|retired| retired.object == before));
    assert!(retired.iter().all(|retired| !after.contains(&retired.object)));
    assert!(retired.iter().all(|retired| !house.retained().needs(retired.start, retired.end)));
    // One page knows at most 256 leaves of this style.
    assert!(retired.len() > 5000 / 6 / 256);
}

#[test]
fn whatever_byte_of_a_hint_is_damaged_answers_are_right() {
    let style = STYLES[1];
    let mut house = hinted(style, 192, 1500);
    (1500..2000).for_each(|number| house.put(style(number), b"later"));
    let leaf_size = 192;
    let mut bytes: Vec<u64> =
        (CELL_HINT..CELL_HINT + 16).map(|at| house.cell.offset() + at).collect();
    let directory = house.hint();
    let pages = house.mark().into_iter().filter(|object| object.size() > leaf_size);
    for object in pages.chain([directory]) {
        bytes.extend(object.offset()..object.offset() + object.size());
    }
    assert!(bytes.len() > 1000, "{}", bytes.len());
    let keys: Vec<Vec<u8>> = house.now.keys().step_by(61).cloned().collect();
    for (round, at) in bytes.into_iter().enumerate() {
        house.flip(at);
        house.reopen();
        for key in keys.iter().skip(round % 7).step_by(7) {
            house.expect(key);
        }
        house.range(Bound::Unbounded, Direction::Backward, 3);
        if round % 50 == 0 {
            house.tree.mark(&house.retained(), &DeadIntervals::default(), &mut Unmarked).unwrap();
            house.check();
        }
        house.flip(at);
    }
}

#[test]
fn readers_and_a_writer_are_right_while_the_inner_nodes_come_to_know() {
    let style = STYLES[0];
    let mut house = hinted(style, 192, 6000);
    for round in 0..20_u64 {
        let first = 6000 + 1000 * round;
        (first..first + 700).for_each(|number| house.put(style(number), b"later"));
        house.reopen();
        let before: Vec<(Vec<u8>, Vec<u8>)> =
            house.now.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let (tree, version, clock) = (&house.tree, house.clock.last(), &house.clock);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let before = &before;
                scope.spawn(move || {
                    let dead = DeadIntervals::default();
                    for at in 0..2000 {
                        let (key, value) = &before[(at + 7 * reader) * 7919 % before.len()];
                        let found = tree.get(key, View { version, dead: &dead }).unwrap();
                        let found = found.map(|value| value.to_vec());
                        assert_eq!(found.as_deref(), Some(value.as_slice()), "{key:?}");
                    }
                });
            }
            scope.spawn(move || {
                let (dead, retained) =
                    (DeadIntervals::default(), Retained::new(version, vec![version]));
                tree.mark(&retained, &dead, &mut Unmarked).unwrap();
                tree.write_hint(version, &mut Vec::new()).unwrap();
            });
            let (dead, retained) =
                (DeadIntervals::default(), Retained::new(version, vec![version]));
            for number in first + 700..first + 1000 {
                let (mut retired, stamp) = (Vec::new(), Stamp::grouped(version, 0));
                let mut writer =
                    Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
                let op = Op::Put { key: &style(number), value: &[b"beside"] };
                tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
            }
        });
        (first + 700..first + 1000).for_each(|number| {
            house.now.insert(style(number), b"beside".to_vec());
        });
        house.expect_all();
        house.check();
    }
}

#[test]
fn a_search_ends_whatever_byte_of_a_leaf_does_not_fit_the_hint() {
    for style in [STYLES[0], STYLES[1]] {
        let mut house = hinted(style, 192, 1500);
        (1500..1800).for_each(|number| house.put(style(number), b"later"));
        let leaves: Vec<Object> =
            house.mark().into_iter().filter(|object| object.size() == 192).collect();
        let keys: Vec<Vec<u8>> = house.now.keys().step_by(3).cloned().collect();
        let dead = DeadIntervals::default();
        let view = View { version: house.clock.last(), dead: &dead };
        let mut errors = 0;
        for (round, leaf) in leaves.iter().enumerate() {
            // A byte of the head: shape, next leaf, low key.
            let at = leaf.offset() + [0, 2, 8, 9, 10, 40, 41, 44, 47, 55][round % 10];
            house.flip(at);
            house.reopen();
            for key in &keys {
                errors += u32::from(house.tree.get(key, view).is_err());
            }
            let all = (Bound::Unbounded, Bound::Unbounded);
            let range = house.tree.range(all.0, all.1, Direction::Backward, view, &mut |_, _| true);
            errors += u32::from(range.is_err());
            let _ = house.tree.mark(&house.retained(), &dead, &mut Unmarked);
            let _ = house.tree.check(&house.retained(), &dead);
            house.flip(at);
        }
        assert!(errors > 0);
        house.reopen();
        house.expect_all();
    }
}

/// The leaves of a tree, in their order.
fn leaves(house: &House) -> Vec<Object> {
    let word = |at| Object::from_bits(house.pool.region().words(at, 1).unwrap()[0].load());
    let next = |leaf: &Object| Some(word(leaf.offset() + LEAF_NEXT)).filter(|next| !next.is_none());
    std::iter::successors(Some(word(house.cell.offset())), next).collect()
}

#[test]
fn a_ring_of_leaves_that_are_younger_than_a_sweep_is_damage() {
    for style in STYLES {
        let mut house = House::new(192);
        let mut sweep = house.pool.begin_sweep().unwrap();
        (0..2000).for_each(|number| house.put(style(number), b"value"));
        house.write_hint();
        let leaves = leaves(&house);
        let (objects, last) = (house.mark().len() as u64, leaves[leaves.len() - 1]);
        assert!(leaves.len() > 100);
        let (dead, retained) = (DeadIntervals::default(), house.retained());
        // The list goes back to its last leaf, to others, or ends.
        let targets = [1, 2, 3, leaves.len() / 2, leaves.len() - 1].map(|back| leaves.len() - back);
        for to in targets.map(|at| leaves[at].to_bits()).into_iter().chain([0]) {
            let section = house.pool.reserve(0, 1).unwrap();
            let words = house.pool.region().words(last.offset() + LEAF_NEXT, 1).unwrap();
            house.pool.region().store(&words[0], to);
            drop(section);
            house.reopen();
            let mut marker = Swept { sweep: &mut sweep, left: objects * 4 };
            let marked = house.tree.mark(&retained, &dead, &mut marker);
            let is_damaged = matches!(marked, Err(Error::Damaged { .. }));
            assert_eq!(is_damaged, to != 0, "{marked:?}");
        }
    }
}

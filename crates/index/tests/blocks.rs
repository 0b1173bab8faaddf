//! Values that fill an object exactly, under keys that stand in their elements: they take their own size and no
//! more, lie at a multiple of it, and are verified as records are.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Direction, Error, Forest, Index, IndexKind, Op, Records, Retained,
    Retired, Stamp, TreeMarker, Value, VersionedIndex, View, Writer,
};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, Pool};

const SIZE: u64 = 32 << 20;
const BLOCK: usize = 4096;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct House {
    forest: Arc<Forest>,
    tree: Index,
    cell: Object,
    clock: Clock,
    retired: Vec<Retired>,
}

#[derive(Default)]
struct Found(Vec<Object>);

impl TreeMarker for Found {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        let is_new = !self.0.contains(&object);
        self.0.push(object);
        Ok(is_new)
    }
    fn unclean(&mut self, _: Object) {}
    fn live_entry(&mut self) {}
}

impl House {
    fn new(geometry: Geometry, records: Records) -> House {
        let region = Region::volatile(SIZE, &RegionOptions::default()).unwrap();
        Pool::format(&region, geometry).unwrap();
        let pool = Arc::new(Pool::from_region(region).unwrap());
        let forest = Arc::new(Forest::new(pool, SIZE).unwrap());
        let section = forest.pool().reserve(8192, 64).unwrap();
        let stamp = Stamp::grouped(1, 0);
        let cell = Index::format(forest.pool(), IndexKind::Nvtree, records, stamp).unwrap();
        drop(section);
        let tree = Index::open(forest.clone(), cell, 1).unwrap();
        House { forest, tree, cell, clock: Clock::new(1), retired: Vec::new() }
    }

    fn opened(image: &[u8], cell: Object, version: u64) -> House {
        let region = Region::from_image(image, &RegionOptions::default()).unwrap();
        let pool = Arc::new(Pool::from_region(region).unwrap());
        let forest = Arc::new(Forest::new(pool, SIZE).unwrap());
        forest.set_retained(Arc::new(Retained::new(version, vec![])));
        let tree = Index::open(forest.clone(), cell, 1).unwrap();
        House { forest, tree, cell, clock: Clock::new(version), retired: Vec::new() }
    }

    fn image(&self) -> Vec<u8> {
        self.forest.pool().region().media_bytes(0, SIZE).unwrap().to_vec()
    }

    fn retained(&self) -> Retained {
        Retained::new(self.clock.last(), vec![])
    }

    /// One change, by itself or in a group of one.
    fn change(&mut self, op: Op<'_>, is_single: bool) -> bool {
        let (dead, retained) = (DeadIntervals::NONE, self.retained());
        let stamp = Stamp::grouped(self.clock.last() + 1, 0);
        let retired = &mut self.retired;
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired };
        let done = match is_single {
            true => self.tree.apply_single(op, &self.clock.ticket(), &mut writer).unwrap(),
            false => None,
        };
        let existed = done.unwrap_or_else(|| {
            assert_eq!(self.clock.draw(), stamp.version());
            writer.stamp = stamp;
            self.tree.apply(op, &mut writer).unwrap()
        });
        let retained = Arc::new(self.retained());
        self.forest.set_retained(retained.clone());
        let pool = self.forest.pool();
        self.retired.retain(|retired| {
            let is_needed = retained.needs(retired.start, retired.end);
            if !is_needed {
                pool.free(retired.object);
            }
            is_needed
        });
        existed
    }

    fn put(&mut self, key: &[u8], value: &[u8], is_single: bool) -> bool {
        let (front, back) = value.split_at(value.len() / 3);
        self.change(Op::Put { key, value: &[front, back] }, is_single)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let view = View { version: self.clock.last(), dead: &DeadIntervals::NONE };
        Ok(self.tree.get(key, view)?.map(|value| value.to_vec()))
    }

    fn all(&self) -> Map {
        let view = View { version: self.clock.last(), dead: &DeadIntervals::NONE };
        let (mut found, ends) = (Map::new(), Bound::Unbounded);
        let mut visit = |key: &[u8], value: Value<'_>| {
            found.insert(key.to_vec(), value.to_vec());
            true
        };
        self.tree.range(ends, ends, Direction::Forward, view, &mut visit).unwrap();
        found
    }

    fn objects(&self) -> Vec<Object> {
        let mut found = Found::default();
        self.tree.mark(&self.retained(), &DeadIntervals::NONE, &mut found).unwrap();
        found.0
    }

    fn check(&self) -> Result<(), Error> {
        self.tree.check(&self.retained(), &DeadIntervals::NONE).map(drop)
    }

    fn used(&self) -> u64 {
        self.forest.pool().usage().allocated_bytes
    }
}

fn block(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 37 + at * at / 5) as u8).collect()
}

#[test]
fn a_block_of_a_power_of_two_takes_that_and_lies_at_a_multiple_of_it() {
    for len in [512, 1024, 2048, BLOCK, 8192, 16_384, 65_536] {
        let count: u64 = if len > BLOCK { 200 } else { 1000 };
        let mut house = House::new(Geometry::default(), Records::Checked);
        let before = house.used();
        for number in 0..count {
            let key = (number * 7 % count).to_be_bytes();
            assert!(!house.put(&key, &block(number, len), number % 2 == 0));
        }
        let each = (house.used() - before) as f64 / count as f64;
        // What an element takes: a third of a line in a leaf that is half full at worst.
        assert!(each <= len as f64 + 64.0, "{each} bytes for a block of {len}");
        let blocks: Vec<Object> =
            house.objects().into_iter().filter(|object| object.size() == len as u64).collect();
        assert!(blocks.len() >= count as usize);
        assert!(blocks.iter().all(|block| block.offset().is_multiple_of(len as u64)));
        // A version later no leaf has more than one of the blocks that were overwritten.
        let before = house.used();
        for number in 0..count {
            assert!(house.put(&number.to_be_bytes(), &block(number + 9, len), number % 3 == 0));
        }
        let most = before + before / 20;
        assert!(house.used() <= most, "{} above {most}", house.used());
        house.check().unwrap();
    }
}

/// Of a large value no more is left in a leaf than the one that was removed last.
#[test]
fn a_removal_keeps_its_key_and_not_its_value() {
    const COUNT: u64 = 400;
    let short = |n: u64| n.to_be_bytes().to_vec();
    let long = |n: u64| format!("{:016x}", n.wrapping_mul(0x1234_5678_9abc_def1)).into_bytes();
    let keys: [fn(u64) -> Vec<u8>; 2] = [short, long];
    for (key, len) in keys.into_iter().flat_map(|key| [2000, 2048, 20_000].map(|len| (key, len))) {
        for is_single in [true, false] {
            let mut house = House::new(Geometry::default(), Records::Checked);
            let before = house.used();
            for n in 0..COUNT {
                assert!(!house.put(&key(n), &block(n, len), is_single));
            }
            for n in (0..COUNT).map(|n| n * 7 % COUNT) {
                assert!(house.change(Op::Remove { key: &key(n) }, is_single));
                assert_eq!(house.get(&key(n)).unwrap(), None);
            }
            let (left, most) = (house.used() - before, COUNT * len as u64 / 5);
            assert!(left <= most, "{left} above {most}, of values of {len}, single: {is_single}");
            assert!(house.all().is_empty());
            house.check().unwrap();
        }
    }
}

#[test]
fn without_checksums_a_value_stands_behind_its_key_as_it_always_did() {
    let mut house = House::new(Geometry::default(), Records::Unchecked);
    house.put(&7_u64.to_be_bytes(), &block(1, BLOCK), true);
    assert_eq!(house.get(&7_u64.to_be_bytes()).unwrap(), Some(block(1, BLOCK)));
    assert!(house.objects().iter().all(|object| object.size() != BLOCK as u64));
    assert!(house.objects().iter().any(|object| object.size() == 5120));
}

#[test]
fn a_block_that_is_not_as_it_was_written_is_an_error_that_names_its_key() {
    let mut house = House::new(Geometry::default(), Records::Checked);
    for number in 0..40_u64 {
        house.put(&number.to_be_bytes(), &block(number, BLOCK), number % 2 == 0);
    }
    let sound = house.image();
    for number in [0_u64, 17, 39] {
        let mut image = sound.clone();
        let value = block(number, BLOCK);
        let at = image.chunks(BLOCK).position(|page| page == value).unwrap() * BLOCK;
        image[at + 1234] ^= 1;
        let house = House::opened(&image, house.cell, house.clock.last());
        for other in 0..40_u64 {
            let found = house.get(&other.to_be_bytes());
            match found {
                Err(Error::Corrupt { offset, key }) => {
                    assert_eq!((offset, key), (at as u64, other.to_be_bytes().to_vec()));
                    assert_eq!(other, number);
                }
                found => assert!(other != number && found.unwrap() == Some(block(other, BLOCK))),
            }
        }
        assert!(matches!(house.check(), Err(Error::Corrupt { .. })));
    }
}

/// Keys that stand in their words in some leaves and not in others, values of all kinds, and nothing left over.
#[test]
fn blocks_and_records_follow_their_keys_from_leaf_to_leaf() {
    const LENS: [usize; 10] = [0, 8, 9, 511, 512, 513, 640, 1000, 1024, 4096];
    let key = |n: u64| -> Vec<u8> {
        match n % 4 {
            0 => (n / 4).to_be_bytes().to_vec(),
            1 => format!("volume/{:04}", n / 4).into_bytes(),
            2 => format!("volume-of-a-longer-name/{:04}", n / 4).into_bytes(),
            _ => vec![b'w', n as u8],
        }
    };
    for geometry in [Geometry::TINY, Geometry::default()] {
        let mut house = House::new(geometry, Records::Checked);
        let (mut expected, mut state) = (Map::new(), 1_u64);
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for round in 0..6000 {
            // Now many keys, now few: leaves are split, and merged again.
            let space = if round / 1000 % 2 == 0 { 400 } else { 60 };
            let (key, is_single) = (key(below(space)), below(3) > 0);
            if below(5) < if space == 400 { 4 } else { 1 } {
                let value = block(round, LENS[below(10) as usize]);
                let existed = house.put(&key, &value, is_single);
                assert_eq!(existed, expected.insert(key, value).is_some());
            } else {
                let existed = house.change(Op::Remove { key: &key }, is_single);
                assert_eq!(existed, expected.remove(&key).is_some());
            }
            if round % 500 == 499 {
                assert_eq!(house.all(), expected);
                house.check().unwrap();
                let mut census = house.forest.pool().census();
                for object in house.objects() {
                    census.mark(object).unwrap();
                }
                let account = census.account();
                assert_eq!(account.dangling, 0, "reachable, but given back");
                assert!(account.leaked <= house.retired.len() as u64, "{account:?}");
                let (dead, retained) = (DeadIntervals::NONE, house.retained());
                let mut from = Some(Vec::new());
                while let Some(key) = from {
                    let stamp = Stamp::grouped(house.clock.draw(), 0);
                    let retired = &mut house.retired;
                    let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired };
                    from = house.tree.collect(Some(&key), &mut writer).unwrap();
                }
            }
        }
        let image = house.image();
        let again = House::opened(&image, house.cell, house.clock.last());
        assert_eq!(again.all(), expected);
        again.check().unwrap();
        assert!(
            expected.iter().all(|(key, value)| again.get(key).unwrap().as_ref() == Some(value))
        );
    }
}

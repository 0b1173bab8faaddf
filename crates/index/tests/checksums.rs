//! Records with checksums: a record that is not as it was written is an error that names its key, nothing else is
//! lost, and nothing is verified twice or for nothing. And images of trees with and without checksums still open.
//! `TEMBO_WRITE_IMAGES=1` writes these images anew.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Direction, Error, Forest, Index, IndexKind, Op, Records, Retained, Stamp,
    Value, VersionedIndex, View, Writer,
};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, Pool};

const SIZE: u64 = 256 << 10;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct House {
    forest: Arc<Forest>,
    tree: Index,
    cell: Object,
    version: u64,
}

fn forest(region: Region) -> Arc<Forest> {
    let pool = Arc::new(Pool::from_region(region).unwrap());
    Arc::new(Forest::new(pool, SIZE).unwrap())
}

/// Keys of some lengths, each with a value that needs a record.
fn map() -> Map {
    let key = |n: usize| match n % 3 {
        0 => format!("{n:03}").into_bytes(),
        1 => format!("a-key-that-is-longer-than-a-word/{n:03}").into_bytes(),
        _ => format!("z/{}{n:03}", "y".repeat(n % 60)).into_bytes(),
    };
    (0..60).map(|n| (key(n), vec![n as u8 ^ 0x55; 9 + n * 7])).collect()
}

fn made(kind: IndexKind, records: Records) -> House {
    let region = Region::volatile(SIZE, &RegionOptions::default()).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    let forest = forest(region);
    let section = forest.pool().reserve(4096, 64).unwrap();
    let cell = Index::format(forest.pool(), kind, records, Stamp::grouped(1, 0)).unwrap();
    drop(section);
    let tree = Index::open(forest.clone(), cell, 1).unwrap();
    let clock = Clock::new(1);
    for (key, value) in map() {
        let (dead, retained) = (DeadIntervals::NONE, Retained::new(clock.last(), vec![]));
        let mut retired = Vec::new();
        let stamp = Stamp::grouped(clock.draw(), 0);
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        tree.apply(Op::Put { key: &key, value: &[&value] }, &mut writer).unwrap();
    }
    House { forest, tree, cell, version: clock.last() }
}

fn image(house: &House) -> Vec<u8> {
    house.forest.pool().region().media_bytes(0, SIZE).unwrap().to_vec()
}

fn opened(image: &[u8], cell: Object, version: u64) -> House {
    let forest = forest(Region::from_image(image, &RegionOptions::default()).unwrap());
    forest.set_retained(Arc::new(Retained::new(version, vec![])));
    let tree = Index::open(forest.clone(), cell, 1).unwrap();
    House { forest, tree, cell, version }
}

impl House {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let dead = DeadIntervals::NONE;
        let found = self.tree.get(key, View { version: self.version, dead: &dead })?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn range(&self, from: Bound<&[u8]>, found: &mut Map) -> Result<(), Error> {
        let dead = DeadIntervals::NONE;
        let view = View { version: self.version, dead: &dead };
        let mut visit = |key: &[u8], value: Value<'_>| {
            found.insert(key.to_vec(), value.to_vec());
            true
        };
        self.tree.range(from, Bound::Unbounded, Direction::Forward, view, &mut visit)
    }

    fn check(&self) -> Result<(), Error> {
        self.tree.check(&Retained::new(self.version, vec![]), &DeadIntervals::NONE).map(drop)
    }
}

/// Where a value stands in an image.
fn place_of(image: &[u8], value: &[u8]) -> usize {
    image.windows(value.len()).position(|bytes| bytes == value).unwrap()
}

#[test]
fn a_corrupt_record_is_an_error_that_names_its_key_and_nothing_else_is_lost() {
    for kind in IndexKind::ALL {
        let house = made(kind, Records::Checked);
        let sound = image(&house);
        for (key, value) in map() {
            let mut image = sound.clone();
            image[place_of(&sound, &value) + value.len() / 2] ^= 4;
            let house = opened(&image, house.cell, house.version);
            let is_named =
                |error: &Error| matches!(error, Error::Corrupt { key: named, .. } if *named == key);
            for (other, expected) in map() {
                match house.get(&other) {
                    Ok(found) => assert!(other != key && found == Some(expected)),
                    Err(error) => assert!(other == key && is_named(&error), "{error}"),
                }
            }
            let mut found = Map::new();
            assert!(is_named(&house.range(Bound::Unbounded, &mut found).unwrap_err()));
            // And behind it.
            house.range(Bound::Excluded(&key), &mut found).unwrap();
            let mut expected = map();
            expected.remove(&key);
            assert_eq!(found, expected);
            assert!(is_named(&house.check().unwrap_err()));
        }
    }
}

#[test]
fn a_corrupt_key_of_a_record_is_no_absent_key() {
    for kind in IndexKind::ALL {
        let house = made(kind, Records::Checked);
        let sound = image(&house);
        for (key, value) in map().into_iter().filter(|(key, _)| key.len() > 12) {
            let mut image = sound.clone();
            // The last byte of the key, which no leaf has. A hash index has other first bytes.
            let rest = &key[8..];
            image[place_of(&sound, &[rest, &value].concat()) + rest.len() - 1] ^= 1;
            let house = opened(&image, house.cell, house.version);
            let found = house.get(&key);
            assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
            assert!(house.check().is_err());
        }
    }
}

#[test]
fn without_checksums_a_corrupt_record_is_a_wrong_value() {
    for kind in IndexKind::ALL {
        let house = made(kind, Records::Unchecked);
        let mut image = image(&house);
        let (key, value) = map().pop_last().unwrap();
        let at = place_of(&image, &value);
        image[at] ^= 1;
        let house = opened(&image, house.cell, house.version);
        assert_ne!(house.get(&key).unwrap(), Some(value));
        house.check().unwrap();
    }
}

#[test]
fn trees_of_a_forest_are_alike() {
    let house = made(IndexKind::Nvtree, Records::Unchecked);
    let _section = house.forest.pool().reserve(4096, 64).unwrap();
    let stamp = Stamp::grouped(2, 0);
    let cell =
        Index::format(house.forest.pool(), IndexKind::Cdds, Records::Checked, stamp).unwrap();
    let other = Index::open(house.forest.clone(), cell, 2);
    assert!(matches!(other, Err(Error::Damaged { .. })));
}

fn path(kind: IndexKind, records: Records) -> PathBuf {
    let name = format!("{}-{records:?}.txt", kind.name()).to_lowercase();
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name)
}

/// The lines of an image that are not empty, with their offsets; the cell and the version come first.
fn text(house: &House) -> String {
    let mut text = format!("{:x} {}\n", house.cell.to_bits(), house.version);
    for (number, line) in image(house).chunks(64).enumerate() {
        if line.iter().any(|&byte| byte != 0) {
            let hex = line.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            writeln!(text, "{:x} {hex}", number * 64).unwrap();
        }
    }
    text
}

#[test]
fn trees_of_earlier_versions_of_the_program_are_read() {
    for kind in IndexKind::ALL {
        for records in [Records::Unchecked, Records::Checked] {
            let path = path(kind, records);
            if std::env::var_os("TEMBO_WRITE_IMAGES").is_some() {
                std::fs::write(&path, text(&made(kind, records))).unwrap();
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let (cell, version) = lines.next().unwrap();
            let cell = Object::from_bits(u64::from_str_radix(cell, 16).unwrap());
            let mut image = vec![0; SIZE as usize];
            for (at, hex) in lines {
                let at = usize::from_str_radix(at, 16).unwrap();
                for (byte, digits) in image[at..at + 64].iter_mut().zip(hex.as_bytes().chunks(2)) {
                    *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
                }
            }
            let house = opened(&image, cell, version.parse().unwrap());
            let mut found = Map::new();
            house.range(Bound::Unbounded, &mut found).unwrap();
            assert_eq!(found, map());
            house.check().unwrap();
        }
    }
}

/// What of flipped bits in used words shows: right, an error, a wrong answer without an error.
fn flips(kind: IndexKind, records: Records) -> [usize; 3] {
    let house = made(kind, records);
    let sound = image(&house);
    let expected = map();
    let used = (FIRST..sound.len()).filter(|&at| sound[at & !7..(at & !7) + 8] != [0; 8]);
    let mut counts = [0; 3];
    for at in used.step_by(23) {
        let mut image = sound.clone();
        image[at] ^= 1 << (at / 23 % 8);
        let shown = || -> Result<Map, Error> {
            let forest = forest(Region::from_image(&image, &RegionOptions::default()).unwrap());
            forest.set_retained(Arc::new(Retained::new(house.version, vec![])));
            let tree = Index::open(forest.clone(), house.cell, 1)?;
            let house = House { forest, tree, cell: house.cell, version: house.version };
            let mut found = Map::new();
            house.range(Bound::Unbounded, &mut found)?;
            for key in expected.keys() {
                if house.get(key)? != found.get(key).cloned() {
                    return Ok(Map::new());
                }
            }
            Ok(found)
        };
        counts[match shown() {
            Ok(found) if found == expected => 0,
            Ok(_) => 2,
            Err(_) => 1,
        }] += 1;
    }
    counts
}

/// The first byte of an object.
const FIRST: usize = 8192;

#[test]
fn with_checksums_hardly_a_flipped_bit_is_a_wrong_answer() {
    for kind in IndexKind::ALL {
        let wrong = |counts: [usize; 3]| counts[2] * 100 / counts.iter().sum::<usize>();
        let (without, with) = (flips(kind, Records::Unchecked), flips(kind, Records::Checked));
        println!("{}: right, error, wrong: {without:?} without, {with:?} with", kind.name());
        assert!(wrong(without) > 40 && wrong(with) < 8, "{without:?} {with:?}");
    }
}

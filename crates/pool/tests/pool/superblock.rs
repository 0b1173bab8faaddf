//! Any bytes offered as a superblock open or give an error.

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Error, Geometry, Pool, ROOT_COUNT};

use crate::image;
use crate::random::Random;

/// A pool with something in it, as bytes behind the region's header.
fn sample() -> Vec<u8> {
    let pool = image::tiny();
    let object = pool.alloc(192).unwrap();
    pool.region().store(pool.root(3).unwrap(), object.to_bits());
    image::bytes(&pool)
}

fn roots(pool: &Pool) -> Vec<u64> {
    (0..ROOT_COUNT).map(|slot| pool.root(slot).unwrap().load()).collect()
}

#[test]
fn every_flipped_byte_gives_its_error_or_the_same_pool() {
    let good = sample();
    let original = Pool::from_region(image::region(&good)).unwrap();
    for at in 0..4096 {
        for mask in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            let opened = Pool::from_region(image::region(&bad));
            match (at, opened) {
                (0..8, Err(Error::NotAPool { .. })) => {}
                (8..64, Err(Error::Checksum { .. })) => {}
                (64..72, Err(Error::Damaged { field: "generation", .. })) => {}
                (72..80, Err(Error::Damaged { field: "size", .. })) => {}
                (80..88, Err(Error::Damaged { field: "frontier", .. })) => {}
                // A root belongs to its owner, which must check what it leads to.
                (128..256, Ok(pool)) => {
                    let changed = roots(&pool)
                        .iter()
                        .zip(roots(&original))
                        .filter(|(a, b)| **a != *b)
                        .count();
                    assert_eq!(changed, 1);
                    assert_eq!(pool.usage(), original.usage());
                }
                (88..96, Err(Error::Damaged { field: "features (may)", .. })) => {}
                (96..104, Err(Error::Damaged { field: "features (must)", .. })) => {}
                (104..112, Err(Error::Damaged { field: "features (read-only)", .. })) => {}
                (112..120, Err(Error::Damaged { field: "log", .. })) => {}
                // The root of a tenant says that there is one.
                (256..2304, Err(Error::DamagedTenant { .. })) if at % 64 >= 56 => {}
                // Reserved, or a place for a tenant: not looked at.
                (120..128 | 256..4096, Ok(pool)) => {
                    assert_eq!(roots(&pool), roots(&original));
                    assert_eq!(pool.usage(), original.usage());
                    assert_eq!(pool.generation(), original.generation());
                }
                (_, result) => panic!("byte {at} ^ {mask:#x}: {:?}", result.map(|_| ())),
            }
        }
    }
}

/// Changes the label and makes its checksum right again.
fn relabel(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
    image[12..16].fill(0);
    let checksum = crc32c::crc32c(&image[..64]);
    image[12..16].copy_from_slice(&checksum.to_le_bytes());
}

fn open(image: &[u8]) -> Error {
    match Pool::from_region(image::region(image)) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

#[test]
fn a_label_that_is_whole_but_unknown_gives_its_own_error() {
    let good = sample();
    let mut newer = good.clone();
    relabel(&mut newer, 8, &3u32.to_le_bytes());
    assert!(matches!(open(&newer), Error::NewerVersion { found: 3, known: 2 }));
    let mut may = good.clone();
    relabel(&mut may, 16, &1u64.to_le_bytes());
    assert!(Pool::from_region(image::region(&may)).is_ok());
    let mut must = good.clone();
    relabel(&mut must, 24, &4u64.to_le_bytes());
    assert!(matches!(open(&must), Error::UnknownFeature { kind: "must", bits: 4 }));
    let mut read_only = good.clone();
    relabel(&mut read_only, 32, &1u64.to_le_bytes());
    assert!(matches!(open(&read_only), Error::UnknownFeature { kind: "read-only", bits: 1 }));
    for chunk_size in [0, 1, 2048, 4097, 1 << 21, 1 << 31, u32::MAX] {
        let mut bad = good.clone();
        relabel(&mut bad, 40, &chunk_size.to_le_bytes());
        assert!(matches!(open(&bad), Error::BadGeometry { .. }), "{chunk_size}");
    }
    for node_size in [0, 48, 65, 576, 5120, u32::MAX] {
        let mut bad = good.clone();
        relabel(&mut bad, 44, &node_size.to_le_bytes());
        assert!(matches!(open(&bad), Error::BadGeometry { .. }), "{node_size}");
    }
}

#[test]
fn whole_labels_with_random_fields_never_panic() {
    let good = sample();
    let mut random = Random(3);
    for _ in 0..20_000 {
        let mut bad = good.clone();
        bad.truncate(4096 * (1 + random.below(31) as usize));
        let (at, value) = (8 + random.below(55) as usize, random.next() as u8);
        relabel(&mut bad, at, &[value]);
        let _ = Pool::from_region(image::region(&bad));
    }
}

#[test]
fn random_bytes_are_not_a_pool() {
    let mut random = Random(4);
    for _ in 0..1000 {
        let bytes: Vec<u8> = (0..8192).map(|_| random.next() as u8).collect();
        assert!(matches!(open(&bytes), Error::NotAPool { .. }));
    }
    assert!(matches!(open(&[0; 8192]), Error::NotAPool { found: 0 }));
    assert!(matches!(open(&[0; 64]), Error::Region(_)));
    let none = Region::volatile(0, &RegionOptions::default()).unwrap();
    assert!(Pool::from_region(none).is_err());
}

#[test]
fn a_shorter_region_is_damage_and_a_longer_one_an_interrupted_growth() {
    let good = sample();
    for pages in 1..31 {
        let error = open(&good[..pages * 4096]);
        assert!(matches!(error, Error::Truncated { recorded: 131_072, .. }), "{error}");
    }
    let mut longer = good.clone();
    longer.resize(good.len() + 3 * 4096 + 512, 0);
    let pool = Pool::from_region(image::region(&longer)).unwrap();
    assert_eq!(pool.usage().size, 131_072 + 3 * 4096);
    let account = pool.census().account();
    assert_eq!(account.metadata_bytes, 8192 + 512);
    // The adoption is durable: cut off again, it is damage.
    let adopted = image::bytes(&pool);
    assert!(matches!(open(&adopted[..good.len()]), Error::Truncated { .. }));
}

#[test]
fn checking_changes_nothing() {
    let pool = image::tiny();
    let before = image::bytes(&pool);
    let checked = Pool::check_superblock(pool.region()).unwrap();
    assert_eq!((checked.generation, checked.size), (1, 128 << 10));
    assert_eq!(checked.geometry, Geometry::TINY);
    assert_eq!(image::bytes(&pool), before);
    assert!(matches!(pool.root(ROOT_COUNT), Err(Error::NoSuchRoot { slot: ROOT_COUNT })));
    assert_eq!(roots(&pool), [0; ROOT_COUNT]);
}

#[test]
fn impossible_geometries_are_refused_at_creation() {
    let region = |size| Region::volatile(size, &RegionOptions::default()).unwrap();
    for (chunk_size, node_size) in [(4096, 200), (4096, 8192), (5000, 192), (1 << 21, 192), (0, 0)]
    {
        let bad = Geometry { chunk_size, node_size };
        let formatted = Pool::format(&region(1 << 22), bad);
        assert!(matches!(formatted, Err(Error::BadGeometry { .. })), "{bad:?}");
    }
    assert!(matches!(
        Pool::format(&region(8192), Geometry::TINY),
        Err(Error::BadGeometry { reason: "no chunk in the region", .. })
    ));
    assert!(Pool::format(&region(12288), Geometry::TINY).is_ok());
    assert!(Pool::format(&region(4096), Geometry::TINY).is_err());
}

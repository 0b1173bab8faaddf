//! The bytes that the versions of the format have, for ever: old pools must still open.

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, Pool};

use crate::image;

/// A new pool of 128 KiB with chunks of 4 KiB and nodes of 192 bytes, of version 1.
const LABEL: &str = "54656d62506f6f6c 01000000dbda8a4f 0000000000000000 0000000000000000 \
                     0000000000000000 00100000c0000000 0000000000000000 0000000000000000";
const SEALED: &str = "000000009919637d 20000000e6bd75e2 0200000040e526b2";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The same, of version 2.
const LABEL_2: &str = "54656d62506f6f6c 0200000022cab9e8 0000000000000000 0000000000000000 \
                       0000000000000000 00100000c0000000 0000000000000000 0000000000000000";
const ADDED_2: &str = "0000000085c837a5 0000000029a7269d 00000000dd1715d5 0000000000009895";

fn golden(version: u32) -> Vec<u8> {
    let mut bytes = bytes_of(if version == 1 { LABEL } else { LABEL_2 });
    bytes.extend(bytes_of(SEALED));
    if version == 2 {
        bytes.extend(bytes_of(ADDED_2));
    }
    bytes.resize((128 << 10) - 4096, 0);
    bytes
}

#[test]
fn a_new_pool_has_these_bytes() {
    let region = Region::volatile(128 << 10, &RegionOptions::default()).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    let bytes = region.media_bytes(4096, (128 << 10) - 4096).unwrap().to_vec();
    let golden = golden(2);
    assert_eq!(bytes[..120], golden[..120]);
    assert!(bytes == golden);
}

#[test]
fn a_pool_with_these_bytes_opens() {
    for version in [1, 2] {
        let pool = Pool::from_region(image::region(&golden(version))).unwrap();
        assert_eq!((pool.generation(), pool.geometry()), (1, Geometry::TINY));
        let usage = pool.usage();
        assert_eq!((usage.size, usage.frontier, usage.objects), (128 << 10, 8192, 0));
        assert!(!usage.recovering);
        assert_eq!(pool.tenants().unwrap(), []);
        let found = Pool::check_superblock(pool.region()).unwrap();
        assert_eq!(found.version, version, "opening keeps the version");
    }
}

#[test]
fn an_object_has_these_bits() {
    let pool = image::tiny();
    let object = pool.alloc(192).unwrap();
    assert_eq!(object.to_bits(), (6 << 40) | (8192 / 16));
    for (size, class) in
        [(16, 1), (48, 3), (64, 4), (512, 11), (640, 12), (1024, 15), (1 << 30, 95)]
    {
        assert_eq!(Object::from_bits(class << 40).size(), size);
    }
}

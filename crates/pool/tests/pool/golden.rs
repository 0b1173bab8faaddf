//! The bytes that version 1 of the format has, for ever: old pools must still open.

use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, Pool};

use crate::image;

/// A new pool of 128 KiB with chunks of 4 KiB and nodes of 192 bytes.
const LABEL: &str = "54656d62506f6f6c 01000000dbda8a4f 0000000000000000 0000000000000000 \
                     0000000000000000 00100000c0000000 0000000000000000 0000000000000000";
const SEALED: &str = "000000009919637d 20000000e6bd75e2 0200000040e526b2";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn golden() -> Vec<u8> {
    let mut bytes = bytes_of(LABEL);
    bytes.extend(bytes_of(SEALED));
    bytes.resize((128 << 10) - 4096, 0);
    bytes
}

#[test]
fn a_new_pool_has_these_bytes() {
    let region = Region::volatile(128 << 10, &RegionOptions::default()).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    let bytes = region.media_bytes(4096, (128 << 10) - 4096).unwrap().to_vec();
    let golden = golden();
    assert_eq!(bytes[..88], golden[..88]);
    assert!(bytes == golden);
}

#[test]
fn a_pool_with_these_bytes_opens() {
    let pool = Pool::from_region(image::region(&golden())).unwrap();
    assert_eq!((pool.generation(), pool.geometry()), (1, Geometry::TINY));
    let usage = pool.usage();
    assert_eq!((usage.size, usage.frontier, usage.objects), (128 << 10, 8192, 0));
    assert!(!usage.recovering);
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

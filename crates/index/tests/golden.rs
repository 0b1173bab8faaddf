//! The bytes that version 1 of the NV-Tree has, for ever: old pools must still open.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tembo_index::{
    Clock, DeadIntervals, Forest, Index, IndexKind, Op, Records, Retained, Stamp, VersionedIndex,
    View, Writer,
};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Object, Pool};

const SIZE: u64 = 128 << 10;

/// Lines of the image that are not zero, by offset: see docs/formats/nvtree.md.
const GOLDEN: &[(usize, &str)] = &[
    (
        4096,
        "54656d62506f6f6c01000000dbda8a4f00000000000000000000000000000000 \
            000000000000000000100000c000000000000000000000000000000000000000",
    ),
    (
        4160,
        "0100000021b326a020000000e6bd75e20400000032f763760000000000000000 \
            0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        8192,
        "00030000000600004e56542d43454c4c00000000000000000000000000000000 \
            0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        8256,
        "0900000020000000616263646566676869612076616c7565206f66206d6f7265 \
            207468616e206569676874206279746573000000000000000000000000000000",
    ),
    (
        12288,
        "000000004e56544c000000000000000018030000000600000000000000000000 \
             0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        12352,
        "00000000656e6f673f0000000000000000000000796e616d0700000000000000 \
             000000000063626173686f72740000000d000080090000000a00000014503005",
    ),
    (
        12416,
        "6867666564636261040200000004d04a00000000656e6f673f00000000000000 \
             00000000796e616d05000000000000000b0000000c00000007000000ff504001",
    ),
    (
        12480,
        "000000004e565448000000000000000000000000000000000000000000000000 \
             0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        12544,
        "00000000796e616d040000000000000000060000000000001400000000000000 \
             00000000796e616d030000000000000000050000000000001400000000000000",
    ),
    (
        12608,
        "00000000796e616d020000000000000000040000000000001400000000000000 \
             00000000796e616d010000000000000000030000000000001400000000000000",
    ),
    (
        12672,
        "000000004e5654480c0300000006000000000000000000000000000000000000 \
             0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        12736,
        "00000000796e616d000000000000000000020000000000001400000000000000 \
             0000000000000000000000000000000000000000000000000000000000000000",
    ),
];

/// Where the leaf's elements stand: in which slot is for a version of the program to choose.
const ELEMENTS: std::ops::Range<usize> = 12352..12480;

fn forest(pool: Pool) -> Arc<Forest> {
    Arc::new(Forest::new(Arc::new(pool), SIZE).unwrap())
}

/// Two keys with short values, one with a long one, one that was removed, and one with more versions
/// than its leaf has slots, all of which a pin sees.
fn made() -> Arc<Forest> {
    let region = Region::volatile(SIZE, &RegionOptions::default()).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    let pool = Pool::from_region(region).unwrap();
    let section = pool.reserve(4096, 64).unwrap();
    let cell =
        Index::format(&pool, IndexKind::Nvtree, Records::Unchecked, Stamp::grouped(1, 0)).unwrap();
    drop(section);
    let forest = forest(pool);
    assert_eq!(cell.to_bits(), CELL);
    let tree = Index::open(forest.clone(), cell, 1).unwrap();
    let clock = Clock::new(1);
    let change = |op: Op<'_>, pins: Vec<u64>| {
        let (dead, retained) = (DeadIntervals::NONE, Retained::new(clock.last(), pins));
        let mut retired = Vec::new();
        let stamp = Stamp::single(clock.last(), 0);
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        tree.apply_single(op, &clock.ticket(), &mut writer).unwrap();
    };
    let put = |key: &[u8], value: &[u8], pins: Vec<u64>| {
        change(Op::Put { key, value: &[value] }, pins);
    };
    (0..8u8).for_each(|i| put(b"many", &[i], (1..=clock.last()).collect()));
    put(b"abc", b"short", vec![3]);
    put(b"abcdefghi", b"a value of more than eight bytes", vec![3]);
    put(b"gone", b"?", vec![3]);
    change(Op::Remove { key: b"gone" }, vec![3]);
    forest
}

fn hex(line: &[u8]) -> String {
    line.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn image(forest: &Forest) -> Vec<(usize, String)> {
    let bytes = forest.pool().region().media_bytes(0, SIZE).unwrap().to_vec();
    let lines = bytes.chunks(64).enumerate().skip(64);
    let used = lines.filter(|(_, line)| line.iter().any(|&byte| byte != 0));
    used.map(|(at, line)| (at * 64, hex(line))).collect()
}

#[test]
fn a_new_tree_has_these_bytes() {
    let mut image = image(&made());
    let mut golden: Vec<_> = GOLDEN.iter().map(|&(at, line)| (at, line.replace(' ', ""))).collect();
    // What lies before belongs to the pool, which has an image of its own.
    image.retain(|(at, _)| *at >= FIRST && !ELEMENTS.contains(at));
    golden.retain(|(at, _)| *at >= FIRST && !ELEMENTS.contains(at));
    assert_eq!(image, golden);
}

#[test]
fn a_tree_with_these_bytes_is_read() {
    let mut image = vec![0; SIZE as usize];
    for &(at, line) in GOLDEN {
        let line = line.replace(' ', "");
        for (i, byte) in image[at..at + 64].iter_mut().enumerate() {
            *byte = u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap();
        }
    }
    let region = Region::from_image(&image, &RegionOptions::default()).unwrap();
    let forest = forest(Pool::from_region(region).unwrap());
    let tree = Index::open(forest, Object::from_bits(CELL), 1).unwrap();
    let dead = DeadIntervals::NONE;
    let get = |key: &[u8], version| {
        let value = tree.get(key, View { version, dead: &dead }).unwrap();
        value.map(|value| value.to_vec())
    };
    // The slot of version 8 was used again when no pin saw it any more.
    for version in (2..=7).chain([9]) {
        assert_eq!(get(b"many", version), Some(vec![version as u8 - 2]), "{version}");
        assert_eq!(get(b"abc", version), None);
    }
    assert_eq!(get(b"many", 1), None);
    assert_eq!(get(b"abc", 13).as_deref(), Some(&b"short"[..]));
    let long = get(b"abcdefghi", 13);
    assert_eq!(long.as_deref(), Some(&b"a value of more than eight bytes"[..]));
    assert_eq!((get(b"gone", 12).as_deref(), get(b"gone", 13)), (Some(&b"?"[..]), None));
}

/// The first line of an object.
const FIRST: usize = 8192;
/// The object of the cell.
const CELL: u64 = 0x400_0000_0200;

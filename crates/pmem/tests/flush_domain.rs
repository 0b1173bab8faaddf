//! The `flush` domain, emulated on an ordinary file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use tembo_pmem::{Counters, Domain, DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};

fn pool(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tembo-pmem-flush-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn options() -> RegionOptions {
    RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() }
}

fn make(path: &std::path::Path) -> Region {
    Region::create(path, 1 << 20, &options(), |region| {
        region.store(&region.words(HEADER_SIZE, 1)?[0], 7);
        region.flush("test.format", HEADER_SIZE, 8);
        region.fence("test.format_fence");
        Ok::<(), Error>(())
    })
    .unwrap()
}

#[test]
fn what_was_stored_is_there_after_reopening_and_after_growing() {
    let path = pool("reopen");
    let region = make(&path);
    assert_eq!(region.domain(), Domain::Flush);
    assert!(region.report().emulated);
    region.grow(2 << 20).unwrap();
    let record = vec![9_u8; 1000];
    region.write("test.write", (1 << 20) + 8, &[&record[..300], &record[300..]]).unwrap();
    region.fence("test.fence");
    drop(region);

    let region = Region::open(&path, &RegionOptions::default()).unwrap();
    assert_eq!(region.domain(), Domain::Flush, "same boot: emulation goes on");
    assert_eq!(region.size(), 2 << 20);
    assert_eq!(region.words(HEADER_SIZE, 1).unwrap()[0].load(), 7);
    assert_eq!(region.media_bytes((1 << 20) + 8, 1000).unwrap().to_vec(), record);
    assert_eq!(region.media_bytes((1 << 20) + 1008, 8).unwrap().to_vec(), [0; 8]);
    region.close().unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn of_a_node_those_lines_are_written_that_are_there() {
    let path = pool("node");
    let (offset, lines) = (HEADER_SIZE + 4096, [[1; 8], [2; 8], [3; 8], [4; 8]]);
    let volatile = Region::from_image(&vec![0; 1 << 20], &RegionOptions::default()).unwrap();
    for region in [make(&path), volatile] {
        let before = Counters::thread();
        region.write_node("test.node", offset, &lines, 0b1_1010).unwrap();
        region.fence("test.fence");
        assert_eq!((Counters::thread() - before).lines, 2);
        let words = region.words(offset, 32).unwrap();
        for (number, line) in words.chunks(8).enumerate() {
            let expected = if number % 2 == 1 { number as u64 + 1 } else { 0 };
            assert!(line.iter().all(|word| word.load() == expected), "line {number}");
        }
        let refused = region.write_node("test.node", offset + 8, &lines, 1);
        assert!(matches!(refused, Err(Error::Fault(_))), "not at a line");
        let refused = region.write_node("test.node", (1 << 20) - 64, &lines, 1);
        assert!(matches!(refused, Err(Error::Fault(_))), "beyond the end");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_second_opener_learns_which_process_holds_the_pool() {
    let path = pool("held");
    let region = make(&path);
    match Region::open(&path, &options()).err() {
        Some(Error::Held { pid, .. }) => assert!(pid.is_none_or(|pid| pid == std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(region);
    Region::open(&path, &options()).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn creation_never_replaces_and_never_leaves_a_file() {
    let path = pool("exists");
    drop(make(&path));
    let again = Region::create(&path, 1 << 20, &options(), |_| Ok::<(), Error>(()));
    assert!(matches!(again.err(), Some(Error::Exists { .. })));
    let missing = std::env::temp_dir().join("tembo-no-such-directory/pool");
    let none = Region::create(&missing, 1 << 20, &options(), |_| Ok::<(), Error>(()));
    assert!(matches!(none.err(), Some(Error::Io { .. })));
    assert!(!path.with_extension("tmp").exists());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn streamed_writes_of_every_alignment_store_exactly_their_bytes() {
    let path = pool("stream");
    let region = make(&path);
    let bytes: Vec<u8> = (0..400).map(|i| i as u8 | 1).collect();
    for shift in 0..66 {
        for len in [1, 63, 64, 65, 127, 128, 191, 256, 300] {
            let at = 2 * HEADER_SIZE;
            region.write("test.zero", at, &[&[0; 1024]]).unwrap();
            let before = Counters::thread();
            let cut = len / 3;
            region.write("test.write", at + shift, &[&bytes[..cut], &bytes[cut..len]]).unwrap();
            let cost = Counters::thread() - before;
            region.fence("test.fence");
            assert_eq!(cost.lines, (shift + len as u64).div_ceil(64) - shift / 64);
            let found = region.media_bytes(at, 1024).unwrap().to_vec();
            let (shift, end) = (shift as usize, shift as usize + len);
            assert!(found[..shift].iter().chain(&found[end..]).all(|byte| *byte == 0));
            assert_eq!(found[shift..end], bytes[..len]);
        }
    }
    drop(region);
    std::fs::remove_file(&path).unwrap();
}

/// A fence of a region in memory alone is no instruction of the processor.
#[test]
fn a_fence_of_another_region_does_not_stand_for_one_of_this() {
    let path = pool("other");
    let region = make(&path);
    let volatile = Region::from_image(&vec![0; 1 << 20], &RegionOptions::default()).unwrap();
    let store = |region: &Region| {
        region.store(&region.words(HEADER_SIZE, 1).unwrap()[0], 8);
        region.flush("test.flush", HEADER_SIZE, 8);
    };
    let fences = |region: &Region| {
        let before = Counters::thread().fences;
        region.fence_flushed("test.fence");
        Counters::thread().fences - before
    };
    store(&region);
    store(&volatile);
    volatile.fence("test.fence");
    assert_eq!((fences(&region), fences(&region)), (1, 0));
    std::fs::remove_file(&path).unwrap();
}

//! Devices: errors, completions, sizes, what a file keeps.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use tembo_array::{Array, DeviceOptions, Error, Isolation, Transaction};
use tembo_kv::{Durability, Options, Store};

fn array() -> Array {
    Array::open(&Store::volatile(&Options::new().size(16 << 20)).unwrap()).unwrap()
}

fn fixed(len: u64) -> DeviceOptions {
    DeviceOptions { len, grows: false, ..DeviceOptions::default() }
}

#[test]
fn what_is_out_of_range_of_a_fixed_device_is_refused() {
    let array = array();
    let device = array.create("d", fixed(8192)).unwrap();
    let mut tx = array.transaction(Isolation::None).unwrap();
    let refused = tx.write(&device, 8000, &[1; 193]);
    assert!(matches!(refused, Err(Error::OutOfRange { offset: 8000, len: 193, size: 8192, .. })));
    tx.write(&device, 8000, &[1; 192]).unwrap();
    let committed = tx.commit(Durability::Strict).unwrap();
    assert!(committed.is_durable());
    assert_eq!(device.len().unwrap(), 8192);
}

#[test]
fn a_full_log_refuses_and_the_transaction_goes_on() {
    let array = array();
    array.set_log_max(5000);
    let device = array.create("d", DeviceOptions::default()).unwrap();
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    tx.write(&device, 0, &[1; 4096]).unwrap();
    let point = tx.savepoint();
    tx.write(&device, 4096, &[2; 904]).unwrap();
    let refused = tx.write(&device, 0, &[3]);
    assert!(matches!(refused, Err(Error::LogFull { bytes: 5001, max: 5000 })));
    tx.rollback_to(point).unwrap();
    tx.write(&device, 1, &[3]).unwrap();
    tx.commit(Durability::Strict).unwrap();
    let mut bytes = [0; 3];
    assert_eq!(device.read_at(0, &mut bytes).unwrap(), 3);
    assert_eq!(bytes, [1, 3, 1]);
    assert_eq!(device.len().unwrap(), 4096);
}

#[test]
fn a_device_in_use_is_not_removed_and_a_removed_one_not_found() {
    let array = array();
    let device = array.create("d", DeviceOptions::default()).unwrap();
    assert!(matches!(array.create("d", fixed(1)), Err(Error::DeviceExists { .. })));
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.write(&device, 0, b"x").unwrap();
    assert!(matches!(array.remove(&device), Err(Error::Busy { pending: 1, .. })));
    drop(tx);
    array.remove(&device).unwrap();
    let second = array.create("d", DeviceOptions::default()).unwrap();
    let write = |device| array.write(device, 0, b"y", Durability::Strict).map(drop);
    assert!(matches!(write(&device), Err(Error::NoSuchDevice { .. })));
    write(&second).unwrap();
}

#[test]
fn transactions_over_several_devices_commit_together_or_not_at_all() {
    let array = array();
    let names = ["a", "b", "c"];
    let devices = names.map(|name| array.create(name, DeviceOptions::default()).unwrap());
    let begin = |index: usize| {
        let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
        tx.write(&devices[index], 0, b"all").unwrap();
        tx
    };
    let all = vec![begin(0), begin(1), begin(2)];
    array.write(&devices[1], 0, b"first", Durability::Strict).unwrap();
    let refused = Transaction::commit_all(all, Durability::Strict);
    // The length has changed too.
    assert!(matches!(refused, Err(Error::Conflict { block: 1, .. })));
    assert_eq!(devices.each_ref().map(|device| device.len().unwrap()), [0, 5, 0]);
    Transaction::commit_all(vec![begin(0), begin(1), begin(2)], Durability::Strict).unwrap();
    assert_eq!(devices.each_ref().map(|device| device.len().unwrap()), [3, 5, 3]);
    let twice = Transaction::commit_all(vec![begin(0), begin(0)], Durability::Strict);
    assert!(matches!(twice, Err(Error::Busy { .. })));
}

#[test]
fn the_two_completions_are_apart() {
    let path = std::env::temp_dir().join(format!("tembo-array-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&path);
    let pool = path.join("completions.pool");
    let store = Store::create(&pool, &Options::new().size(8 << 20)).unwrap();
    let array = Array::open(&store).unwrap();
    let device = array.create("d", DeviceOptions::default()).unwrap();
    let visible = array.write(&device, 0, b"soon", Durability::Buffered).unwrap();
    let mut bytes = [0; 4];
    device.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"soon");
    visible.wait().unwrap();
    assert!(visible.is_durable());
    let monday = device.snapshot().unwrap();
    let copy = array.clone_device(&monday, "copy").unwrap();
    drop((monday, copy, visible, device, array));
    store.close().unwrap();
    // A clone finds what it was made of after a restart.
    let store = Store::open(&pool, &Options::new()).unwrap();
    let array = Array::open(&store).unwrap();
    array.write(&array.device("d").unwrap(), 0, b"late", Durability::Strict).unwrap();
    array.device("copy").unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"soon");
    array.remove(&array.device("copy").unwrap()).unwrap();
    assert_eq!(store.snapshots(), []);
    drop((array, store));
    let _ = std::fs::remove_dir_all(&path);
}

#[test]
fn a_block_of_4096_bytes_takes_4096_bytes() {
    let options = Options::new().size(64 << 20).background(false);
    let store = Store::volatile(&options).unwrap();
    let array = Array::open(&store).unwrap();
    let device = array.create("d", DeviceOptions::default()).unwrap();
    let used = || store.check().unwrap().account.object_bytes;
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.write(&device, 0, &vec![7; 4 << 20]).unwrap();
    tx.commit(Durability::Strict).unwrap();
    let before = used();
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.write(&device, 4 << 20, &vec![8; 8 << 20]).unwrap();
    tx.commit(Durability::Strict).unwrap();
    let bytes = (used() - before) as f64 / f64::from(8 << 20);
    // Beside the blocks there are the leaves that name them.
    assert!(bytes < 1.02, "{bytes} bytes a byte");
}

#[test]
fn a_tag_is_of_the_same_version_as_the_blocks() {
    let array = array();
    let disk = array.create("disk", fixed(8192)).unwrap();
    let before = disk.snapshot().unwrap();
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    tx.write(&disk, 0, &[1; 10]).unwrap();
    tx.set_tag(&disk, 7).unwrap();
    let savepoint = tx.savepoint();
    tx.set_tag(&disk, 8).unwrap();
    tx.rollback_to(savepoint).unwrap();
    assert_eq!((tx.tag(&disk).unwrap(), disk.snapshot().unwrap().tag()), (7, 0));
    tx.commit(Durability::Strict).unwrap();
    let after = disk.snapshot().unwrap();
    assert_eq!((before.tag(), after.tag(), after.len()), (0, 7, before.len()));
    array.clone_device(&after, "copy").unwrap();
    // Of two that change the tag the first to commit wins.
    let mut first = array.transaction(Isolation::FirstCommitter).unwrap();
    let mut second = array.transaction(Isolation::FirstCommitter).unwrap();
    let mut beside = array.transaction(Isolation::None).unwrap();
    first.set_tag(&disk, 9).unwrap();
    second.set_tag(&disk, 10).unwrap();
    beside.write(&disk, 4096, &[2; 10]).unwrap();
    first.commit(Durability::Strict).unwrap();
    assert!(matches!(second.commit(Durability::Strict), Err(Error::Conflict { .. })));
    beside.commit(Durability::Strict).unwrap();
    assert_eq!(disk.snapshot().unwrap().tag(), 9);
    assert_eq!(array.device("copy").unwrap().snapshot().unwrap().tag(), 7);
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.set_tag(&disk, 0).unwrap();
    tx.abort();
    assert_eq!(disk.snapshot().unwrap().tag(), 9);
}

/// A store whose keys have no order is refused before anything is made in it.
#[test]
fn a_store_without_an_order_holds_no_devices() {
    let options = Options::new().size(16 << 20).index(tembo_kv::IndexKind::Hash);
    let store = Store::volatile(&options).unwrap();
    let refused = Array::open(&store).map(drop);
    assert!(matches!(refused, Err(Error::Store(tembo_kv::Error::Unordered))));
    assert!(store.keyspaces().is_empty());
}

#[test]
fn each_version_keeps_the_shape_that_a_handle_shows_of_it() {
    let array = array();
    let device = array.create("d", DeviceOptions::default()).unwrap();
    let other = array.device("d").unwrap();
    array.write(&device, 0, &[1; 100], Durability::Strict).unwrap();
    let kept = device.snapshot().unwrap();
    // The other handle saw the length before.
    assert_eq!(other.len().unwrap(), 100);
    array.write(&device, 100, &[2; 100], Durability::Strict).unwrap();
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    tx.set_len(&device, 5000).unwrap();
    tx.set_tag(&device, 7).unwrap();
    tx.commit(Durability::Strict).unwrap();
    let now = other.snapshot().unwrap();
    assert_eq!((device.len().unwrap(), now.len(), now.tag()), (5000, 5000, 7));
    assert_eq!((kept.len(), device.at(kept.version()).unwrap().len()), (100, 100));
    let version = kept.version();
    array.store().name_snapshot("kept", kept.store_snapshot()).unwrap();
    drop((kept, now));
    array.store().rollback(version).unwrap();
    assert_eq!((device.len().unwrap(), other.len().unwrap()), (100, 100));
    assert_eq!(other.snapshot().unwrap().tag(), 0);
}

#[test]
fn between_the_end_and_what_a_transaction_has_written_behind_it_are_zeroes() {
    let array = array();
    let device = array.create("d", DeviceOptions::default()).unwrap();
    array.write(&device, 0, &[1; 5000], Durability::Strict).unwrap();
    for isolation in [Isolation::None, Isolation::FirstCommitter] {
        let mut tx = array.transaction(isolation).unwrap();
        tx.write(&device, 40_000, &[2; 8]).unwrap();
        let mut bytes = [9; 12_000];
        assert_eq!(tx.read(&device, 4096, &mut bytes).unwrap(), 12_000);
        assert!(bytes[..904].iter().all(|byte| *byte == 1), "{isolation:?}");
        assert!(bytes[904..].iter().all(|byte| *byte == 0), "{isolation:?}");
        let mut last = [9; 16];
        assert_eq!(tx.read(&device, 39_996, &mut last).unwrap(), 12);
        assert_eq!(last[..12], [0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(tx.read(&device, 40_008, &mut last).unwrap(), 0);
    }
}

/// Keys of blocks and runs.
fn keys(array: &Array) -> usize {
    let snapshot = array.store().snapshot().unwrap();
    let (_, blocks) = snapshot
        .keyspaces()
        .unwrap()
        .into_iter()
        .find(|(name, _)| name == "tembo-array-blocks")
        .unwrap();
    snapshot.range::<[u8]>(blocks, ..).unwrap().count()
}

#[test]
fn a_run_is_one_object_until_a_part_of_it_goes() {
    const BLOCK: usize = 512;
    let store = Store::volatile(&Options::new().size(8 << 20).background(false)).unwrap();
    let array = Array::open(&store).unwrap();
    let options = DeviceOptions { block_size: BLOCK, run_blocks: 4, ..DeviceOptions::default() };
    let disk = array.create("disk", DeviceOptions { len: 1 << 20, ..options }).unwrap();
    let mut expected = vec![0; 16 * BLOCK];
    let write = |expected: &mut Vec<u8>, block: usize, count: usize, byte: u8| {
        let range = block * BLOCK..(block + count) * BLOCK;
        expected[range.clone()].fill(byte);
        let data = vec![byte; count * BLOCK];
        array.write(&disk, range.start as u64, &data, Durability::Strict).unwrap();
    };
    let shown = || {
        let mut bytes = vec![0xaa; 16 * BLOCK];
        let len = disk.read_at(0, &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    };
    write(&mut expected, 0, 8, 1);
    assert_eq!((keys(&array), shown() == expected), (2, true), "two runs");
    let monday = disk.snapshot().unwrap();
    write(&mut expected, 1, 1, 2);
    write(&mut expected, 7, 2, 3);
    assert_eq!((keys(&array), shown() == expected), (5, true), "three blocks over and behind them");
    let size = BLOCK as u64;
    let changed = disk.snapshot().unwrap().changed_since(&monday).unwrap();
    assert_eq!(changed, [size..2 * size, 7 * size..9 * size]);
    let stored = disk.snapshot().unwrap().stored().unwrap();
    assert_eq!((stored.len(), stored.first()), (1, Some(&(0..9 * size))));
    write(&mut expected, 3, 9, 4);
    assert_eq!(
        (keys(&array), shown() == expected),
        (5, true),
        "3 alone, and what lay over the runs is gone"
    );
    // A clone has runs too, and they hide those of the device.
    let clone = array.clone_device(&monday, "clone").unwrap();
    array.write(&clone, 0, &[9; 4 * BLOCK], Durability::Strict).unwrap();
    let mut bytes = vec![0; 5 * BLOCK];
    clone.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [vec![9; 4 * BLOCK], vec![1; BLOCK]].concat());
    array.remove(&clone).unwrap();
    store.maintain(100).unwrap();
    // What becomes zero, or is cut off, takes its run with it.
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    tx.discard(&disk, 5 * size, size).unwrap();
    tx.commit(Durability::Strict).unwrap();
    expected[5 * BLOCK..6 * BLOCK].fill(0);
    assert_eq!((keys(&array), shown() == expected), (7, true), "three of the run are left");
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.discard(&disk, 4 * size, 4 * size).unwrap();
    tx.set_len(&disk, 10 * size + 100).unwrap();
    tx.set_len(&disk, 16 * size).unwrap();
    tx.commit(Durability::Strict).unwrap();
    expected[4 * BLOCK..8 * BLOCK].fill(0);
    expected[10 * BLOCK + 100..].fill(0);
    assert_eq!(
        (keys(&array), shown() == expected),
        (6, true),
        "a run and what lies over it; 8 to 10"
    );
    assert_eq!(array.check().unwrap().stray, 0);
    for run_blocks in [0, 3, 1024] {
        let refused = array.create("odd", DeviceOptions { run_blocks, ..options });
        assert!(matches!(refused, Err(Error::RunBlocks { count }) if count == run_blocks));
    }
}

/// A savepoint after a write that failed half-way does not make the transaction whole: what was logged of the write stays.
#[test]
fn a_savepoint_after_half_a_write_does_not_hide_it() {
    let options = Options::new().size(1 << 20).size_max(1 << 20).background(false);
    let store = Store::volatile(&options.transaction_memory(3000)).unwrap();
    let array = Array::open(&store).unwrap();
    let device = array.create("d", fixed(4 << 20)).unwrap();
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    let refused = tx.write(&device, 0, &vec![7; 2 << 20]);
    assert!(matches!(refused, Err(Error::Store(tembo_kv::Error::Full(_)))), "{refused:?}");
    let mut first = [0];
    tx.read(&device, 0, &mut first).unwrap();
    assert_eq!(first, [7], "the first block was logged");
    let after = tx.savepoint();
    tx.rollback_to(after).unwrap();
    assert!(matches!(tx.commit(Durability::Strict), Err(Error::BadState)));
    device.read_at(0, &mut first).unwrap();
    assert_eq!(first, [0]);
    // One before it does.
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    let before = tx.savepoint();
    assert!(tx.write(&device, 0, &vec![7; 2 << 20]).is_err());
    tx.rollback_to(before).unwrap();
    tx.commit(Durability::Strict).unwrap();
    device.read_at(0, &mut first).unwrap();
    assert_eq!(first, [0]);
}

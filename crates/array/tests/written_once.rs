//! A write of many blocks to a device on a disk: its bytes go there once, and the pages that they fill are not touched for it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use tembo_array::{Array, Device, DeviceOptions, Isolation};
use tembo_kv::{DomainRequest, Durability, Options, Store};

const MEBIBYTE: usize = 1 << 20;
/// Pages of 4 KiB in it.
const PAGES: u64 = 256;

/// Pages that came into the memory of the calling thread without the disk (`minflt` of proc(5)).
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, behind) = stat.rsplit_once(')').unwrap();
    behind.split_whitespace().nth(7).unwrap().parse().unwrap()
}

fn bytes_written(store: &Store) -> u64 {
    let log = store.report().log;
    log.bytes_written + log.pool_bytes_written
}

fn content(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed * 31 + at * at / 7 + at / 4096) as u8).collect()
}

fn options(size: u64) -> Options {
    Options::new().size(size).domain(DomainRequest::Logged).background(false)
}

fn with_device(name: &str, work: impl FnOnce(&Store, &Array, &Device)) {
    with_device_in(name, 64 << 20, work);
}

/// With a pool of so many bytes at first.
fn with_device_in(name: &str, size: u64, work: impl FnOnce(&Store, &Array, &Device)) {
    let folder = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
    // It is of a process that was killed.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let store = Store::create(&folder.join("pool"), &options(size)).unwrap();
    let array = Array::open(&store).unwrap();
    let fixed = DeviceOptions { len: 8 << 20, grows: false, ..DeviceOptions::default() };
    let device = array.create("disk", fixed).unwrap();
    work(&store, &array, &device);
    assert_eq!(store.check().unwrap().leaked, 0);
    drop((device, array, store));
    // As after a kill.
    let store = Store::open(&folder.join("pool"), &options(size)).unwrap();
    assert_eq!(Array::open(&store).unwrap().check().unwrap().stray, 0);
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_write_of_a_mebibyte_is_written_once_and_touches_none_of_the_pages_that_it_fills() {
    with_device("written-once", |store, array, device| {
        const ROUNDS: u64 = 8;
        let mut last = vec![Vec::new(); 4];
        let mut write = |round: u64| {
            let (at, data) = (round % 4, content(round, MEBIBYTE));
            let (faults, bytes) = (page_faults(), bytes_written(store));
            array.write(device, at << 20, &data, Durability::Strict).unwrap();
            last[at as usize] = data;
            (page_faults() - faults, bytes_written(store) - bytes)
        };
        // Each place was written before, and the space of what it held is used again.
        (0..8).for_each(|round| {
            write(round);
        });
        let taken: Vec<_> = (8..8 + ROUNDS).map(&mut write).collect();
        let faults = taken.iter().map(|(faults, _)| faults).sum::<u64>() / ROUNDS;
        let bytes = taken.iter().map(|(_, bytes)| bytes).sum::<u64>() / ROUNDS;
        assert!(faults < PAGES / 4, "{faults} page faults for {PAGES} pages");
        assert!(bytes < MEBIBYTE as u64 * 105 / 100, "{bytes} bytes for {MEBIBYTE}");
        let mut found = vec![0; MEBIBYTE];
        for (at, expected) in last.iter().enumerate() {
            device.read_at((at * MEBIBYTE) as u64, &mut found).unwrap();
            assert!(found == *expected);
        }
    });
}

/// The page of a table to which rows of 100 bytes were added, from its end on.
fn page_of_rows(count: usize) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(&count.to_le_bytes());
    for row in 1..=count {
        page[4096 - 100 * row..][..100].fill(row as u8);
        page[8 + 2 * row..][..2].copy_from_slice(&(4096 - 100 * row as u16).to_le_bytes());
    }
    page
}

/// As SQLite's commits of one row: a transaction that reads its page, and writes it.
#[test]
fn a_commit_that_adds_a_row_to_a_page_writes_the_row_and_little_beside_it() {
    // Where there is much free space, others than the last pages get it first.
    with_device_in("rows", 1 << 20, |store, array, device| {
        let mut commit = |number: usize| {
            let before = bytes_written(store);
            let snapshot = device.snapshot().unwrap();
            let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
            // Thirty rows fill a page, then the next one is begun.
            let (page, rows) = (number / 30, number % 30 + 1);
            tx.write(device, page as u64 * 4096, &page_of_rows(rows)).unwrap();
            tx.commit(Durability::Strict).unwrap();
            drop(snapshot);
            let taken = bytes_written(store) - before;
            // What no snapshot reads any more is space again, as by a store's own thread.
            store.maintain(1000).unwrap();
            taken
        };
        (0..300).for_each(|number| {
            commit(number);
        });
        let mean = (300..900).map(&mut commit).sum::<u64>() / 600;
        println!("{mean} bytes a commit");
        assert!(mean < 2600, "{mean} bytes a commit");
    });
}

#[test]
fn a_write_to_parts_of_blocks_keeps_the_other_bytes_and_one_beyond_the_end_changes_nothing() {
    with_device("written-in-part", |_, array, device| {
        let mut expected = content(1, 8 << 20);
        array.write(device, 0, &expected, Durability::Buffered).unwrap();
        for (round, (at, len)) in
            [(4095, 2), (4096, 8192), (100, 70_000), (4096 * 9 + 5, 4096), (8 << 20, 0)]
                .into_iter()
                .chain([((8 << 20) - 10_000, 10_000)])
                .enumerate()
        {
            let data = content(round as u64 + 50, len);
            expected[at..at + len].copy_from_slice(&data);
            array.write(device, at as u64, &data, Durability::Buffered).unwrap();
        }
        let beyond = array.write(device, (8 << 20) - 5, &[1; 6], Durability::Buffered);
        assert!(matches!(beyond, Err(tembo_array::Error::OutOfRange { .. })));
        array.set_log_max(9000);
        let long = array.write(device, 0, &[1; 9001], Durability::Buffered);
        assert!(matches!(long, Err(tembo_array::Error::LogFull { bytes: 9001, max: 9000 })));
        let mut found = vec![0; 8 << 20];
        device.read_at(0, &mut found).unwrap();
        assert!(found == expected);
    });
}

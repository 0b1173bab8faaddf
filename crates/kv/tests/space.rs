//! Space: a full pool can be emptied, and what is given up comes back.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use tembo_kv::{Durability, Error, IndexKind, Keyspace, Options, Progress, Store};
use tembo_pool::Object;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/wait.rs"]
mod wait;

use directory::Directory;
use random::Random;
use wait::wait_until;

fn options(index: IndexKind, size: u64, size_max: u64) -> Options {
    Options::new().index(index).background(false).size(size).size_max(size_max)
}

fn idle(store: &Store) {
    while store.maintain(16).unwrap() == Progress::More {}
}

/// Waits for the first marking, before which nothing is given back.
fn recover(store: &Store) {
    idle(store);
    wait_until("recovery", || store.report().recovering, |recovering| !recovering);
}

fn key(i: u64) -> Vec<u8> {
    format!("key-{i:06}").into_bytes()
}

/// Puts until the pool refuses; how many keys fit.
fn fill(store: &Store, space: Keyspace, len: usize) -> u64 {
    let put = |i| store.put(space, &key(i), &vec![1; len], Durability::Buffered);
    let refused = (0..).find_map(|i| put(i).err().map(|error| (i, error)));
    let (count, error) = refused.unwrap();
    assert!(matches!(error, Error::Full(_)), "{error}");
    count
}

fn clear(store: &Store, spaces: &[Keyspace]) -> Result<(), Error> {
    let mut tx = store.exclusive()?;
    spaces.iter().try_for_each(|&space| tx.clear(space))?;
    tx.commit(Durability::Strict).map(drop)
}

/// A snapshot keeps everything that fills the pool.
#[test]
fn a_full_pool_that_a_name_keeps_is_emptied_and_given_back() {
    for index in IndexKind::ALL {
        for len in [40, 1000, 100_000] {
            for reopened in [false, true] {
                let what = format!("{index:?}, values of {len} bytes, reopened: {reopened}");
                let directory =
                    Directory::new(&format!("emptied-{}-{len}-{reopened}", index.name()));
                let path = directory.pool();
                let options = options(index, 4 << 20, 4 << 20);
                let mut store = Store::create(&path, &options).unwrap();
                idle(&store);
                let names: Vec<String> = (0..32).map(|i| format!("space-{i}")).collect();
                let open = |store: &Store| -> Vec<Keyspace> {
                    names.iter().map(|name| store.keyspace(name).unwrap()).collect()
                };
                let mut spaces = open(&store);
                let count = fill(&store, spaces[0], len);
                store.save_snapshot("save").unwrap();
                if reopened {
                    drop(store);
                    store = Store::open(&path, &options).unwrap();
                    spaces = open(&store);
                }
                // Some keys, then all, more than once.
                for i in 0..count.min(3) {
                    let removed = store.remove(spaces[0], &key(i), Durability::Buffered);
                    assert!(removed.unwrap(), "{what}");
                }
                for _ in 0..3 {
                    clear(&store, &spaces).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                store.save_snapshot("save").unwrap();
                idle(&store);
                let again = fill(&store, spaces[0], len);
                assert!(again * 10 >= count * 9, "{what}: {count}, then {again}");
                store.check().unwrap();
            }
        }
    }
}

/// What is cleared comes back at once, not when a marking of the whole pool has ended: however fast a writer clears.
#[test]
fn clearing_again_and_again_takes_no_more_space() {
    for index in IndexKind::ALL {
        for background in [false, true] {
            let options = options(index, 16 << 20, 1 << 30).background(background);
            let store = Store::volatile(&options).unwrap();
            recover(&store);
            let space = store.keyspace("a").unwrap();
            let round = || {
                store.put(space, b"k", b"1", Durability::Buffered).unwrap();
                clear(&store, &[space]).unwrap();
            };
            (0..100).for_each(|_| round());
            let before = store.report().used_bytes;
            let mut most = 0;
            for _ in 0..10_000 {
                round();
                most = most.max(store.report().used_bytes);
            }
            assert!(most <= before + (64 << 10), "{index:?}, {background}: {before}, {most}");
            assert_eq!(store.report().pool_bytes, 16 << 20);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}

/// A tree that a snapshot sees, or that a rollback brings back, is not given back; a large one goes in the background.
#[test]
fn what_was_cleared_stays_while_a_version_sees_it() {
    for index in IndexKind::ALL {
        for (count, len) in [(10, 10), (2000, 100), (90_000, 40)] {
            let what = format!("{index:?}, {count} values of {len} bytes");
            let store = Store::volatile(&options(index, 64 << 20, 64 << 20)).unwrap();
            let space = store.keyspace("a").unwrap();
            idle(&store);
            let empty = store.report().used_bytes;
            let put = |value| {
                let mut tx = store.exclusive().unwrap();
                for i in 0..count {
                    tx.put(space, &key(i), &vec![value; len]).unwrap();
                }
                tx.commit(Durability::Buffered).unwrap();
            };
            let expect = |value: u8| {
                let snapshot = store.snapshot().unwrap();
                for i in (0..count).step_by(7) {
                    let found = snapshot.get(space, &key(i)).unwrap().unwrap().to_vec();
                    assert_eq!(found, vec![value; len], "{what}");
                }
            };
            put(1);
            store.save_snapshot("one").unwrap();
            clear(&store, &[space]).unwrap();
            put(2);
            clear(&store, &[space]).unwrap();
            idle(&store);
            put(3);
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
            expect(3);
            store.rollback_to("one").unwrap();
            expect(1);
            idle(&store);
            expect(1);
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
            clear(&store, &[space]).unwrap();
            store.drop_snapshot("one").unwrap();
            idle(&store);
            let after = store.report().used_bytes;
            assert!(after < empty + (64 << 10), "{what}: {empty}, then {after}");
            assert_eq!(store.check().unwrap().leaked, 0, "{what}");
        }
    }
}

/// Of a key that is overwritten there is the visible value, the one that a name keeps, and those that wait for the next.
#[test]
fn overwrites_hold_no_more_than_a_snapshot_and_one_value_that_was_ended() {
    for index in IndexKind::ALL {
        for len in [600, 20_000, 10_000_000] {
            let store = Store::volatile(&options(index, 64 << 20, 1 << 30)).unwrap();
            let space = store.keyspace("a").unwrap();
            idle(&store);
            let value = vec![7; len];
            let put = || {
                let mut tx = store.exclusive().unwrap();
                tx.put(space, b"k", &value).unwrap();
                tx.commit(Durability::Buffered).unwrap();
            };
            put();
            let empty = store.report().used_bytes;
            let size = Object::size_for(len as u64 + 64).unwrap();
            let mut count = 4;
            for round in 0..65 {
                if round % 20 == 0 {
                    store.save_snapshot("save").unwrap();
                    // What the name kept before is looked for only where a value is large.
                    count += u64::from(len < 16 << 10);
                }
                put();
                let used = store.report().used_bytes;
                assert!(used <= empty + count * size, "{index:?}, {len}, {round}: {empty} {used}");
            }
            clear(&store, &[space]).unwrap();
            store.save_snapshot("save").unwrap();
            idle(&store);
            let used = store.report().used_bytes;
            assert!(used < 64 << 10, "{index:?}, {len}: {used} when cleared and saved");
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }
}

/// A file in the `logged` domain, like most pools.
fn file_options(index: IndexKind) -> Options {
    options(index, 4 << 20, 1 << 30)
}

fn all(store: &Store, space: Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    store.range::<[u8]>(space, ..).unwrap().map(Result::unwrap).collect()
}

fn file_size(directory: &Directory) -> u64 {
    std::fs::metadata(directory.pool()).unwrap().len()
}

/// What is left of much stands scattered; compacted, it takes little, and the file is as small.
#[test]
fn a_pool_that_has_shrunk_gives_its_file_back() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("compacted-{}", index.name()));
        let options = file_options(index);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let spaces = ["a", "b", "empty"].map(|name| store.keyspace(name).unwrap());
        let mut tx = store.exclusive().unwrap();
        for i in 0..60_000 {
            let len = (i * 7919 % 900) as usize;
            tx.put(spaces[(i % 2) as usize], &key(i), &vec![i as u8; len]).unwrap();
        }
        tx.put(spaces[0], b"large", &vec![5; 300_000]).unwrap();
        tx.commit(Durability::Strict).unwrap();
        let mut tx = store.exclusive().unwrap();
        for i in (0..60_000).filter(|i| i % 50 != 0) {
            tx.remove(spaces[(i % 2) as usize], &key(i)).unwrap();
        }
        tx.commit(Durability::Strict).unwrap();
        idle(&store);
        let before = spaces.map(|space| all(&store, space));
        let version = store.visible();
        store.close().unwrap();
        assert!(file_size(&directory) > 30 << 20);

        let store = Store::open(&directory.pool(), &options).unwrap();
        store.compact().unwrap();
        let used = store.report().used_bytes;
        let spread = store.fragmentation().unwrap();
        assert!(spread.live_bytes == used && used * 10 > spread.used_chunk_bytes * 4, "{spread:?}");
        store.close().unwrap();
        let size = file_size(&directory);
        assert!(size < 6 << 20, "{index:?}: {used} bytes in a file of {size}");

        // Opened again, it grows again.
        for _ in 0..2 {
            let store = Store::open(&directory.pool(), &options).unwrap();
            let spaces = ["a", "b", "empty"].map(|name| store.keyspace(name).unwrap());
            assert_eq!(spaces.map(|space| all(&store, space)), before);
            assert!(store.visible() > version);
            let check = store.check().unwrap();
            assert_eq!((check.leaked, check.account.total), (0, store.report().pool_bytes));
            for i in 0..20_000 {
                store.put(spaces[2], &key(i), &[3; 400], Durability::Buffered).unwrap();
            }
            assert_eq!(all(&store, spaces[2]).len(), 20_000);
            clear(&store, &spaces[2..]).unwrap();
            store.check().unwrap();
            store.close().unwrap();
        }
    }
}

/// Whether files here can have holes.
fn has_holes(directory: &Directory) -> bool {
    let probe = std::fs::File::create(directory.pool().with_extension("probe")).unwrap();
    probe.set_len(1 << 20).unwrap();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&probe, flags, 0, 1 << 20).is_ok()
}

/// What is free in the middle of a file, because something behind it keeps its place, takes no room on the disk.
#[test]
fn what_is_free_in_the_middle_of_a_file_goes_back_to_the_file_system() {
    let directory = Directory::new("holes");
    if !has_holes(&directory) {
        return;
    }
    let options = file_options(IndexKind::Nvtree);
    let store = Store::create(&directory.pool(), &options).unwrap();
    recover(&store);
    let spaces = ["a", "b"].map(|name| store.keyspace(name).unwrap());
    for i in 0..20_000 {
        store.put(spaces[0], &key(i), &[1; 900], Durability::Buffered).unwrap();
    }
    (0..10).for_each(|i| drop(store.put(spaces[1], &key(i), &[2; 900], Durability::Buffered)));
    clear(&store, &spaces[..1]).unwrap();
    store.put(spaces[1], b"last", b"", Durability::Strict).unwrap();
    idle(&store);
    assert!(store.report().used_bytes < 1 << 20);
    store.save_snapshot("kept").unwrap();
    let blocks = || std::fs::metadata(directory.pool()).unwrap().blocks() * 512;
    assert!(blocks() > 16 << 20, "{}", blocks());
    store.compact().unwrap();
    // What lies behind all content is cut off.
    store.close().unwrap();
    assert!(blocks() < 4 << 20 && file_size(&directory) > 16 << 20, "{}", blocks());
    let store = Store::open(&directory.pool(), &options).unwrap();
    let spaces = ["a", "b"].map(|name| store.keyspace(name).unwrap());
    recover(&store);
    for i in 0..20_000 {
        store.put(spaces[0], &key(i), &[(i % 251) as u8; 900], Durability::Buffered).unwrap();
    }
    store.sync().unwrap();
    // As after a crash, and with its holes in use again.
    drop(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    assert_eq!((all(&store, spaces[0]).len(), all(&store, spaces[1]).len()), (20_000, 11));
    for (i, (_, value)) in all(&store, spaces[0]).iter().enumerate() {
        assert!(value.iter().all(|byte| *byte == (i % 251) as u8), "{i}");
    }
    assert_eq!(store.check().unwrap().leaked, 0);
}

/// The background gives back what a large pool no longer needs, but for a reserve; what is written next survives a crash.
#[test]
fn a_large_pool_that_was_emptied_takes_little_room_while_it_is_open() {
    let directory = Directory::new("surplus");
    if !has_holes(&directory) {
        return;
    }
    let options = file_options(IndexKind::Nvtree);
    let store = Store::create(&directory.pool(), &options).unwrap();
    recover(&store);
    let space = store.keyspace("a").unwrap();
    let put = |number: u64| {
        let value = vec![number as u8; 1 << 20];
        store.put(space, &key(number), &value, Durability::Buffered).unwrap();
    };
    let blocks = || std::fs::metadata(directory.pool()).unwrap().blocks() * 512;
    (0..192).for_each(put);
    store.sync().unwrap();
    assert!(blocks() > 192 << 20, "{}", blocks());
    clear(&store, &[space]).unwrap();
    idle(&store);
    assert!(blocks() < 128 << 20, "{}", blocks());
    (0..192).for_each(put);
    store.sync().unwrap();
    drop(store);
    let store = Store::open(&directory.pool(), &options).unwrap();
    let found = all(&store, store.keyspace("a").unwrap());
    assert_eq!(found.len(), 192);
    for (number, (_, value)) in found.iter().enumerate() {
        assert!(value.iter().all(|byte| *byte == number as u8), "{number}");
    }
}

/// What a crash can leave of a file that is cut: its end is there still, with whatever it held.
#[test]
fn a_file_that_was_not_cut_is_one_that_has_begun_to_grow() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("not-cut-{}", index.name()));
        let options = file_options(index);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        (0..20_000).for_each(|i| drop(store.put(space, &key(i), &[1; 900], Durability::Buffered)));
        clear(&store, &[space]).unwrap();
        store.put(space, b"k", b"v", Durability::Strict).unwrap();
        store.compact().unwrap();
        store.close().unwrap();
        let size = file_size(&directory);
        let file = std::fs::OpenOptions::new().append(true).open(directory.pool()).unwrap();
        std::io::Write::write_all(&mut &file, &vec![0xa5; 8 << 20]).unwrap();
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("a").unwrap();
        assert_eq!(store.report().pool_bytes, size);
        (0..20_000).for_each(|i| drop(store.put(space, &key(i), &[2; 900], Durability::Buffered)));
        assert_eq!(all(&store, space).len(), 20_001);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// A snapshot sees after a compaction what it saw before.
#[test]
fn a_compaction_leaves_snapshots_what_they_see() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index, 4 << 20, 64 << 20)).unwrap();
        let space = store.keyspace("a").unwrap();
        (0..2000).for_each(|i| drop(store.put(space, &key(i), &[1; 300], Durability::Buffered)));
        store.save_snapshot("one").unwrap();
        (0..1000).for_each(|i| drop(store.put(space, &key(i), &[2; 300], Durability::Buffered)));
        (1500..2000).for_each(|i| drop(store.remove(space, &key(i), Durability::Buffered)));
        let now = all(&store, space);
        store.compact().unwrap();
        assert_eq!(all(&store, space), now);
        let then = store.snapshot_named("one").unwrap();
        for i in 0..2000 {
            assert_eq!(then.get(space, &key(i)).unwrap().unwrap().to_vec(), [1; 300]);
        }
        drop(then);
        assert_eq!(store.check().unwrap().leaked, 0);
        store.rollback_to("one").unwrap();
        assert_eq!(all(&store, space).len(), 2000);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// What others write while a store is compacted is there afterwards.
#[test]
fn a_compaction_loses_nothing_that_is_written_meanwhile() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index, 4 << 20, 256 << 20)).unwrap();
        let space = store.keyspace("a").unwrap();
        (0..500).for_each(|i| drop(store.put(space, &key(i), &[0; 100], Durability::Buffered)));
        let is_over = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut count = 0_u64;
                while !is_over.load(Ordering::Relaxed) || count < 500 {
                    count += 1;
                    let value = count.to_le_bytes();
                    store.put(space, &key(count % 500), &value, Durability::Buffered).unwrap();
                }
                count
            });
            (0..20).for_each(|_| store.compact().unwrap());
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        for count in written - 499..=written {
            let found = store.get(space, &key(count % 500)).unwrap().unwrap();
            assert_eq!(found.to_vec(), count.to_le_bytes(), "{index:?}: {count} of {written}");
        }
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// Keys whose values are overwritten, removed and put again, in sizes that drift from 16 bytes to 64 KiB and back: what is
/// used and how large the pool is depends on what lives, not on how long that goes on.
#[test]
fn churn_of_changing_sizes_is_bounded() {
    const LIVE: u64 = 8 << 20;
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index, 4 * LIVE, 1 << 30)).unwrap();
        recover(&store);
        let space = store.keyspace("a").unwrap();
        let mut random = Random(0x5eed);
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut live, mut most_used, mut size_after) = (0_u64, 0, Vec::new());
        for _ in 0..6 {
            // So many doublings of 16 bytes, up to 64 KiB and back.
            for step in (0..=12_u32).chain((0..12).rev()) {
                for _ in 0..1500 {
                    let len = (16 << step) + random.below(16 << step);
                    let number = random.below(4000);
                    if random.below(8) == 0 || live + len > LIVE {
                        // What is largest is not what goes first.
                        let number = sizes.range(number..).next().map(|(&number, _)| number);
                        if let Some(number) = number {
                            store.remove(space, &key(number), Durability::Buffered).unwrap();
                            live -= sizes.remove(&number).unwrap();
                        }
                        continue;
                    }
                    let value = vec![step as u8; len as usize];
                    store.put(space, &key(number), &value, Durability::Buffered).unwrap();
                    live = live + len - sizes.insert(number, len).unwrap_or(0);
                }
                idle(&store);
                most_used = most_used.max(store.report().used_bytes);
            }
            let spread = store.fragmentation().unwrap();
            size_after.push(spread.used_chunk_bytes + spread.free_chunk_bytes);
        }
        assert!(most_used <= 2 * LIVE, "{index:?}: {most_used}");
        assert!(size_after.iter().all(|&size| size <= 4 * LIVE), "{index:?}: {size_after:?}");
        // It is not larger after many rounds than after some.
        let [first, last] = [&size_after[..3], &size_after[3..]].map(|part| part.iter().max());
        assert!(last <= first.map(|size| size * 5 / 4).as_ref(), "{index:?}: {size_after:?}");
        assert_eq!(store.report().pool_bytes, 4 * LIVE, "{index:?}: the pool has grown");
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// What lies above the limit of the sweep that is owed since the open is not given back by that one.
#[test]
fn trees_that_came_and_went_before_the_first_sweep_are_given_back() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("came-and-went-{}", index.name()));
        let options = options(index, 16 << 20, 16 << 20);
        let put = |store: &Store, space: Keyspace, i: u64| {
            store.put(space, &key(i), &[1; 100], Durability::Buffered).unwrap();
        };
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        (0..300).for_each(|i| put(&store, space, i));
        drop(store);
        let store = Store::open(&directory.pool(), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        for _ in 0..3 {
            clear(&store, &[space]).unwrap();
            (0..300).for_each(|i| put(&store, space, i));
        }
        recover(&store);
        assert_eq!(store.check().unwrap().leaked, 0, "{index:?}");
        assert_eq!(store.get(space, &key(299)).unwrap(), Some(vec![1; 100]));
    }
}

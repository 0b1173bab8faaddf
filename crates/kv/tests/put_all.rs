//! Values that are put together: the same as one by one, on a disk, where they are written together.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tembo_kv::{
    DomainRequest, Durability, Error, Exclusive, IndexKind, Isolation, Keyspace, Options, Progress,
    Store,
};
use tembo_pmem::Counters;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/random.rs"]
mod random;

use directory::Directory;
use random::Random;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(store: &Store, space: Keyspace) -> Map {
    let mut found = Map::new();
    let snapshot = store.snapshot().unwrap();
    let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
        found.insert(key.to_vec(), value.to_vec());
        true
    };
    let direction = tembo_kv::Direction::Forward;
    snapshot.range_with::<[u8]>(space, .., direction, &mut visit).unwrap();
    found
}

/// Some keys stand in their elements in every leaf, some in none.
fn some_puts(random: &mut Random) -> Map {
    const LENS: [usize; 8] = [0, 8, 512, 1000, 4096, 4096, 8192, 16 << 10];
    let count = 1 + random.below(150);
    let put = |_| {
        let key = random.below(300);
        let key = match key % 3 {
            0 => format!("a long name of {key}").into_bytes(),
            _ => key.to_be_bytes().to_vec(),
        };
        (key, vec![random.below(251) as u8; LENS[random.below(8) as usize]])
    };
    (0..count).map(put).collect()
}

/// Puts all, one by one, of which some are expected: some of these with another value, in two pieces, or never put.
fn put_otherwise_than_expected(
    writer: &mut Exclusive,
    space: Keyspace,
    all: &[(&[u8], &[u8])],
    random: &mut Random,
) {
    let other = vec![9; 4096];
    let mut expected: Vec<(&[u8], [&[u8]; 2])> = Vec::new();
    for (key, value) in all {
        let (head, tail) = value.split_at(random.below(value.len() as u64 + 1) as usize);
        match random.below(8) {
            0 => {}
            1 => expected.push((key, [&other, tail])),
            2 => expected.extend([(&b"never put"[..], [head, tail]), (key, [head, tail])]),
            3 if !tail.is_empty() => expected.push((key, [head, &tail[1..]])),
            _ => expected.push((key, [head, tail])),
        }
    }
    let parts: Vec<(&[u8], &[&[u8]])> =
        expected.iter().map(|(key, parts)| (*key, &parts[..])).collect();
    for (number, (key, value)) in all.iter().enumerate() {
        if number.is_multiple_of(60) {
            writer.expect_puts(space, &parts);
        }
        let (head, tail) = value.split_at(random.below(value.len() as u64 + 1) as usize);
        match random.below(3) {
            0 => writer.put_parts(space, key, &[head, tail]).unwrap(),
            _ => writer.put(space, key, value).unwrap(),
        };
    }
}

#[test]
fn values_that_are_put_together_are_those_that_were_given() {
    for index in IndexKind::ALL {
        let directory = Directory::new("put-all");
        let path = directory.pool();
        let options = || {
            Options::new()
                .index(index)
                .background(false)
                .domain(DomainRequest::Logged)
                .size(2 << 20)
                .size_max(64 << 20)
        };
        let mut store = Store::create(&path, &options()).unwrap();
        let mut space = store.keyspace("x").unwrap();
        let (mut expected, mut random) = (Map::new(), Random(7));
        for round in 0..60 {
            let puts = some_puts(&mut random);
            if round % 3 == 0 {
                // By a transaction, with removals among them.
                let mut tx = store.transaction(Isolation::Snapshot).unwrap();
                for (number, (key, value)) in puts.iter().enumerate() {
                    if number % 5 == 0 {
                        tx.remove(space, key).unwrap();
                        expected.remove(key);
                    } else {
                        tx.put(space, key, value).unwrap();
                        expected.insert(key.clone(), value.clone());
                    }
                }
                tx.commit(Durability::Strict).unwrap();
            } else {
                let mut writer = store.exclusive().unwrap();
                let all: Vec<(&[u8], &[u8])> = puts.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                if round % 2 == 0 {
                    writer.put_all(space, &all).unwrap();
                } else {
                    put_otherwise_than_expected(&mut writer, space, &all, &mut random);
                }
                // Over some of them once more, in the same commit.
                writer.put_all(space, &all[..all.len() / 2]).unwrap();
                if round % 3 == 1 {
                    writer.commit(Durability::Strict).unwrap();
                    expected.extend(puts);
                } else {
                    drop(writer);
                }
            }
            assert_eq!(all(&store, space), expected, "{index:?}, round {round}");
            if round % 10 == 9 {
                // As after a kill.
                drop(store);
                store = Store::open(&path, &options()).unwrap();
                space = store.keyspace("x").unwrap();
                assert_eq!(all(&store, space), expected, "{index:?}, round {round}");
                while store.maintain(16).unwrap() == Progress::More {}
            }
        }
        while store.maintain(16).unwrap() == Progress::More {}
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

#[test]
fn values_that_find_no_room_together_leave_none_behind() {
    let directory = Directory::new("put-all-full");
    let options = Options::new()
        .background(false)
        .domain(DomainRequest::Logged)
        .size(1 << 20)
        .size_max(1 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    let value = vec![5; 4096];
    let keys: Vec<[u8; 8]> = (0..400_u64).map(u64::to_be_bytes).collect();
    let puts: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    let mut writer = store.exclusive().unwrap();
    writer.put_all(space, &puts[..20]).unwrap();
    writer.commit(Durability::Strict).unwrap();
    let mut writer = store.exclusive().unwrap();
    let refused = writer.put_all(space, &puts);
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    drop(writer);
    assert_eq!(all(&store, space).len(), 20);
    while store.maintain(16).unwrap() == Progress::More {}
    assert_eq!(store.check().unwrap().leaked, 0);
    // What was refused has left room for what fits.
    let mut writer = store.exclusive().unwrap();
    writer.put_all(space, &puts[20..80]).unwrap();
    writer.commit(Durability::Strict).unwrap();
    assert_eq!(all(&store, space).len(), 80);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    PutAll,
    Transaction,
    Expected,
}

/// Records that lie side by side in space that nothing had before: their bytes are in the log only where they do not fill pages.
#[test]
fn records_that_are_put_together_and_fill_pages_are_written_once() {
    for way in [Way::PutAll, Way::Transaction, Way::Expected] {
        let directory = Directory::new("put-all-once");
        let options = Options::new().background(false).domain(DomainRequest::Logged).size(16 << 20);
        let store = Store::create(&directory.pool(), &options).unwrap();
        let space = store.keyspace("x").unwrap();
        let keys: Vec<String> = (0..200).map(|key| format!("a key of its own {key:04}")).collect();
        let value = vec![7; 1024];
        let before = store.report().log;
        if way == Way::Transaction {
            let mut tx = store.transaction(Isolation::Snapshot).unwrap();
            for key in &keys {
                tx.put(space, key.as_bytes(), &value).unwrap();
            }
            tx.commit(Durability::Strict).unwrap();
        } else {
            let mut writer = store.exclusive().unwrap();
            let puts: Vec<(&[u8], &[u8])> =
                keys.iter().map(|key| (key.as_bytes(), &value[..])).collect();
            if way == Way::PutAll {
                writer.put_all(space, &puts).unwrap();
            } else {
                let parts = [&value[..24], &value[24..]];
                let expected: Vec<(&[u8], &[&[u8]])> =
                    puts.iter().map(|(key, _)| (*key, &parts[..])).collect();
                let began = Counters::thread();
                writer.expect_puts(space, &expected);
                let written = Counters::thread();
                assert!((written - began).bytes >= 200 << 10);
                for (key, value) in puts {
                    assert!(!writer.put(space, key, value).unwrap());
                }
                // Elements, and the leaves that are split for them.
                assert!((Counters::thread() - written).bytes < 50 << 10);
            }
            writer.commit(Durability::Strict).unwrap();
        }
        let after = store.report().log;
        let logged = after.bytes_written - before.bytes_written;
        let beside = after.pool_bytes_written - before.pool_bytes_written;
        // 250 KiB of records of 1,280 bytes: all but what begins or ends a piece of 64 KiB lies there.
        assert!(beside >= 200 << 10, "{beside} bytes beside the log");
        assert!(logged <= 96 << 10, "{logged} bytes in the log");
        assert_eq!(all(&store, space).len(), keys.len());
        assert!(all(&store, space).values().all(|found| *found == value));
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// A block of 1,280 bytes and a record of 1,220 take objects of one size, side by side.
#[test]
fn blocks_and_records_of_one_size_lie_side_by_side() {
    let directory = Directory::new("put-all-mixed");
    let options = Options::new().background(false).domain(DomainRequest::Logged).size(16 << 20);
    let store = Store::create(&directory.pool(), &options).unwrap();
    let space = store.keyspace("x").unwrap();
    for (round, blocks) in [(1, 2), (2, 3), (3, 5), (4, 100), (5, 1)] {
        let put = |key: u64| {
            let len = if key.is_multiple_of(blocks) { 1280 } else { 1200 };
            (key.to_be_bytes().to_vec(), vec![(key * 7 + round) as u8; len])
        };
        let puts: Map = (0..200).map(put).collect();
        let mut writer = store.exclusive().unwrap();
        let given: Vec<(&[u8], &[u8])> = puts.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        writer.put_all(space, &given).unwrap();
        writer.commit(Durability::Strict).unwrap();
        assert!(all(&store, space) == puts, "round {round}");
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

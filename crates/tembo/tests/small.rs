//! A small store in memory over each index, used by one thread and by several: small enough for Miri.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tembo::{Durability, IndexKind, Options, Store};

const KEYS: u64 = if cfg!(miri) { 40 } else { 2000 };

fn store(index: IndexKind) -> Store {
    let options = Options::new().index(index).background(false).size(1 << 20).size_max(8 << 20);
    Store::volatile(&options).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    // Of different lengths, inline and in records.
    [&b"key"[..], &number.to_be_bytes(), &vec![b'-'; number as usize % 50]].concat()
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 7 % 300) as usize]
}

#[test]
fn what_is_put_is_found_until_it_is_removed() {
    for index in IndexKind::ORDERED {
        let store = store(index);
        let animals = store.keyspace("animals").unwrap();
        for number in 0..KEYS {
            store.put(animals, &key(number), &value(number), Durability::Strict).unwrap();
        }
        for number in (0..KEYS).step_by(3) {
            assert!(store.remove(animals, &key(number), Durability::Strict).unwrap());
        }
        for number in 0..KEYS {
            let found = store.get(animals, &key(number)).unwrap();
            let expected = (number % 3 != 0).then(|| value(number));
            assert_eq!(found.as_deref(), expected.as_deref(), "{index:?} {number}");
        }
    }
}

#[test]
fn threads_write_and_read_beside_each_other() {
    for index in IndexKind::ORDERED {
        let store = store(index);
        let animals = store.keyspace("animals").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let store = &store;
                scope.spawn(move || {
                    for number in (0..KEYS).filter(|number| number % 2 == thread) {
                        let (key, value) = (key(number), value(number));
                        store.put(animals, &key, &value, Durability::Buffered).unwrap();
                        assert_eq!(store.get(animals, &key).unwrap().as_deref(), Some(&value[..]));
                    }
                });
            }
        });
        for number in 0..KEYS {
            let found = store.get(animals, &key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]), "{index:?} {number}");
        }
    }
}

//! A store that is opened to be read: found as it was left, and never changed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use tembo::{DomainRequest, Durability, Error, IndexKind, Options, Store};

/// All files of a folder.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn reading_changes_no_file() {
    for domain in [DomainRequest::Logged, DomainRequest::Flush] {
        for index in IndexKind::ORDERED {
            let name = format!("tembo-read-store-{}-{domain:?}-{index:?}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).unwrap();
            let path = dir.join("animals.pool");
            let options = Options::new().domain(domain).index(index).size(8 << 20);
            let store = Store::create(&path, &options).unwrap();
            let animals = store.keyspace("animals").unwrap();
            for number in 0..2000_u32 {
                let key = number.to_be_bytes();
                store.put(animals, &key, &key.repeat(8), Durability::Buffered).unwrap();
            }
            store.sync().unwrap();
            // No clean stop: the log is needed.
            drop(store);
            let before = content(&dir);
            for _ in 0..2 {
                let to_read = Options::new().read_only(true);
                let store = Store::open(&path, &to_read).unwrap();
                let other = Store::open(&path, &to_read).unwrap();
                let animals = store.keyspace("animals").unwrap();
                for number in 0..2000_u32 {
                    let key = number.to_be_bytes();
                    let found = store.get(animals, &key).unwrap();
                    assert_eq!(found.as_deref(), Some(&key.repeat(8)[..]));
                }
                let refused = store.put(animals, b"private", b"1", Durability::Strict);
                assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
                // What recovery does stays in memory.
                assert_eq!(store.check().unwrap().leaked, 0);
                assert_eq!(other.range::<[u8]>(animals, ..).unwrap().count(), 2000);
                assert!(Store::open(&path, &options).is_err(), "a writer waits for readers");
                store.close().unwrap();
                drop(other);
            }
            assert!(content(&dir) == before, "{domain:?} {index:?}");
            let store = Store::open(&path, &options).unwrap();
            let animals = store.keyspace("animals").unwrap();
            assert!(store.get(animals, b"private").unwrap().is_none());
            assert!(store.get(animals, &7_u32.to_be_bytes()).unwrap().is_some());
            drop(store);
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

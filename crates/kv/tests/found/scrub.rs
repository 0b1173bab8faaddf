//! Void versions stay void, whichever thread scrubs them.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use tembo_kv::{Durability, Options, Progress, Store};

use super::bench::{Map, directory, expect, fill, key, options};

const KEYS: u64 = 3000;

/// Takes a step whenever it is asked to, and does not end before it is asked to.
fn steps(store: &Store, asked: Receiver<()>, done: Sender<Progress>) {
    for () in asked {
        done.send(store.maintain(1).unwrap()).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Entries that an aborted transaction has ended and begun, and the map of what was there.
fn with_void_entries(path: &Path, options: &Options) -> (Store, Map) {
    let store = Store::create(path, options).unwrap();
    let space = store.keyspace("a").unwrap();
    while store.maintain(1).unwrap() == Progress::More {}
    fill(&store, space, 0..KEYS, b"good");
    let mut tx = store.exclusive().unwrap();
    for i in (0..KEYS).step_by(7) {
        tx.put(space, &key(i), b"void").unwrap();
        tx.remove(space, &key(i + 1)).unwrap();
    }
    drop(tx);
    store.put(space, b"later", b"1", Durability::Strict).unwrap();
    let mut map: Map = (0..KEYS).map(|i| (key(i), b"good".to_vec())).collect();
    map.insert(b"later".to_vec(), b"1".to_vec());
    (store, map)
}

/// The threads alternate; `other` says which steps are the other's. The image is taken while both
/// live, so that nothing is fenced by a thread's end.
fn scrubbed_by_two(name: &str, other: impl Fn(usize) -> bool) {
    let (directory, image) = (directory(name), directory(&format!("{name}-image")));
    let options = options(8 << 20, 64 << 20);
    let mut pool = options.pool_options();
    pool.region.background = false;
    let options = options.pool(pool);
    let (store, map) = with_void_entries(&directory.pool(), &options);
    let mut map = map;
    std::thread::scope(|scope| {
        let ((ask, asked), (done, answer)) = (channel(), channel());
        let store = &store;
        scope.spawn(move || steps(store, asked, done));
        for step in 0.. {
            let progress = if other(step) {
                ask.send(()).unwrap();
                answer.recv().unwrap()
            } else {
                store.maintain(1).unwrap()
            };
            if progress == Progress::Idle {
                assert!(step > 4, "there was nothing to scrub");
                break;
            }
        }
        let space = store.keyspace("a").unwrap();
        store.put(space, b"last", b"1", Durability::Strict).unwrap();
        copy(directory.path(), image.path());
        drop(ask);
    });
    map.insert(b"last".to_vec(), b"1".to_vec());
    expect(&store, store.keyspace("a").unwrap(), &map, "in the store");
    let copied = Store::open(&image.pool(), &options).unwrap();
    let space = copied.keyspace("a").unwrap();
    expect(&copied, space, &map, "after a crash");
    copied.put(space, &key(0), b"new", Durability::Strict).unwrap();
    map.insert(key(0), b"new".to_vec());
    while copied.maintain(1).unwrap() == Progress::More {}
    expect(&copied, space, &map, "after a crash, recovered");
    assert_eq!(copied.check().unwrap().leaked, 0);
}

#[test]
fn void_versions_stay_void_when_two_threads_scrub() {
    scrubbed_by_two("turns", |step| step % 2 == 0);
    scrubbed_by_two("turns-odd", |step| step % 2 == 1);
}

#[test]
fn void_versions_stay_void_when_another_thread_has_begun_the_scrub() {
    for steps in 1..5 {
        scrubbed_by_two(&format!("begun-{steps}"), |step| step < steps);
    }
}

#[test]
fn void_versions_stay_void_when_another_thread_ends_the_scrub() {
    scrubbed_by_two("ended", |step| step >= 3);
}

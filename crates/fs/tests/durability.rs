//! What of a change survives the end of the process.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tembo_fs::{AnyTreeMut, Error, FileKind, Format, Fs, Inode, New, ROOT, Time};
use tembo_kv::{DomainRequest, Durability, Options, PoolOptions, Store, SyncPolicy};
use tembo_sim::SimDisk;

const POOL: &str = "/disk/test.pool";

fn options(disk: &SimDisk) -> Options {
    let mut pool = PoolOptions::default();
    pool.region.disk = Arc::new(disk.clone());
    // Nothing is written but what is asked for.
    pool.region.background = false;
    let options = Options::new().pool(pool).background(false).size(8 << 20).log_size(1 << 20);
    options.domain(DomainRequest::Logged).sync(SyncPolicy::Always)
}

/// Makes a file in the root.
fn make(tree: &mut AnyTreeMut<'_, '_>, name: &[u8]) -> Result<Inode, Error> {
    tree.create(ROOT, name, &New { kind: FileKind::Regular, ..Format::default().root })
}

type Change = fn(&Fs, &[u8], Durability);

const CHANGES: [Change; 2] = [
    |fs, name, durability| {
        fs.write(Time::default(), durability, |tree| make(tree, name)).unwrap();
    },
    |fs, name, durability| {
        let mut transaction = fs.transaction().unwrap();
        transaction.change(Time::default(), |tree| make(tree, name)).unwrap();
        transaction.commit(durability).unwrap();
    },
];

#[test]
fn what_is_handed_over_survives_the_process_and_what_is_buffered_does_not() {
    for change in CHANGES {
        let disk = SimDisk::default();
        let store = Store::create(Path::new(POOL), &options(&disk)).unwrap();
        let fs = Fs::format(&store, &Format::default(), Time::default()).unwrap();
        let is_left = |name: &[u8]| {
            let left = options(&disk.snapshot().after_kill());
            let store = Store::open(Path::new(POOL), &left).unwrap();
            let fs = Fs::open(&store).unwrap();
            fs.snapshot().unwrap().resolve(name).is_ok()
        };
        change(&fs, b"buffered", Durability::Buffered);
        assert!(!is_left(b"buffered"));
        let syncs = store.report().fdatasyncs;
        change(&fs, b"written", Durability::Written);
        assert!(is_left(b"written"));
        assert_eq!(store.report().fdatasyncs, syncs);
        change(&fs, b"strict", Durability::Strict);
        assert!(is_left(b"strict") && store.report().fdatasyncs > syncs);
    }
}
